//! Mapping + access + history of the page -> kind.
//!
//! The software event carries no error code, so a kind is inferred. Rules in the order in which they are
//! tried, each with its weakness:
//!
//! | kind | rule | weakness |
//! |---|---|---|
//! | major | its end came from the `_MAJ` event | none |
//! | unplaced | no mapping known and no end seen, or a mapping without access | faults that end in SIGSEGV |
//! | as anonymous mmap memory | no mapping known, but the kernel handled the fault: mremap moved or grew one, which is not reported | a file's mapping moved by mremap; a copy on write after fork of moved memory counts as first write |
//! | file read | file mapping that can't be written, or a private one that is read; fetches too | one fault maps up to 16 pages |
//! | shared | shared and writable | reads are not told from writes; memory that mremap moved to where a shared mapping was, until a thread has touched more pages than that had |
//! | copy on write after fork | write (or unknown access) to a private mapping older than the fork, where a page was mapped | a zero page that was read before the fork; a page whose other owner is gone, which is not copied but made writable |
//! | file, private, written | private writable file mapping, not read | reads of unknown access |
//! | stack | stack region | a stack's zero-page reads |
//! | write after zero-page read | write to anonymous memory where a page was mapped | the first write after mprotect(2) took the right and gave it back |
//! | zero-page read | anonymous read | the kernel may map a huge zero page |
//! | THP | a first write or touch, or a write after a read, behind which a huge page is mapped | of two threads that meet in one huge page both count |
//! | first write | anonymous write: heap, bss, mmap by region | refaults after MADV_DONTNEED are first writes too, rightly: a fresh page is zeroed |
//! | first touch | anonymous, access unknown; when the page's next fault is recorded as a write, this one is a zero-page read after the fact | |
//!
//! The kernel reports with each fault whether a page was mapped (Linux 5.11). Without that, earlier recorded
//! faults decide. In a forked child all such writes are copies. In a parent they are copies if the page's
//! last fault was seen and was no read. Reads in unrecorded windows are not seen, so a write after one counts
//! as a first write. Huge pages can't be told from others.

use std::collections::HashMap;

use super::Fault;
use super::mappings::{Mapping, Region};
use crate::kind::Kind;
use crate::observation::Access;

/// A recorded fault of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) time_ns: u64,
    pub(super) access: Option<Access>,
    /// Its number.
    pub(super) fault: usize,
}

/// Memory that mremap moved or grew: somewhere, since the kernel reports no mapping for it.
const MOVED: Region = Region::Mmap;

/// The last fault of every page, and the conclusions that need all faults.
#[derive(Debug)]
pub(super) struct History {
    page_bytes: u64,
    /// The last recorded fault of each page, by process.
    pages: HashMap<u32, HashMap<u64, Touch>>,
    /// Faults that later records show to be zero-page reads.
    reads: Vec<usize>,
    /// Faults in no known mapping, and their kind if they turn out to have been handled.
    moved: Vec<(usize, Kind)>,
}

impl History {
    pub(super) fn new(page_bytes: u64) -> Self {
        History { page_bytes, pages: HashMap::new(), reads: Vec::new(), moved: Vec::new() }
    }

    /// The kind of a fault at `addr` so far, and whether the page was faulted in before. `was_mapped`: a page
    /// was mapped when the fault began.
    pub(super) fn touch(
        &mut self,
        pid: u32,
        addr: u64,
        touch: Touch,
        mapping: Option<&Mapping>,
        was_mapped: Option<bool>,
    ) -> (Kind, bool) {
        let access = touch.access;
        let before = self.pages.entry(pid).or_default().insert(addr / self.page_bytes, touch);
        let Some(mapping) = mapping else {
            let kind = self.anonymous(MOVED, access, before, was_mapped);
            self.moved.push((touch.fault, kind));
            return (Kind::Unplaced, false);
        };
        let before = before.filter(|b| b.time_ns >= mapping.mapped_ns);
        let kind = self.of_mapping(access, before, mapping, was_mapped);
        // With a record in between it was mapped anew, or may have been.
        let stayed = before.filter(|before| before.time_ns >= mapping.record.time_ns);
        (kind, kind.is_first_touch() && stayed.is_some_and(|before| before.access == Some(Access::Write)))
    }

    /// The kind of a fault that does not enter the history.
    pub(super) fn kind(
        &mut self,
        pid: u32,
        addr: u64,
        access: Option<Access>,
        mapping: &Mapping,
        was_mapped: Option<bool>,
    ) -> Kind {
        let Some(_) = was_mapped else { return without_past(access, Some(mapping)) };
        let before = self.pages.get(&pid).and_then(|pages| pages.get(&(addr / self.page_bytes))).copied();
        self.of_mapping(access, before.filter(|b| b.time_ns >= mapping.mapped_ns), mapping, was_mapped)
    }

    fn of_mapping(
        &mut self,
        access: Option<Access>,
        before: Option<Touch>,
        mapping: &Mapping,
        was_mapped: Option<bool>,
    ) -> Kind {
        match by_region(access, mapping.region) {
            _ if is_copy(access, before, mapping, was_mapped) => Kind::CowAfterFork,
            Some(kind) => kind,
            None => self.anonymous(mapping.region, access, before, was_mapped),
        }
    }

    /// `pid` began as a copy of `parent` (or as its thread, which changes nothing).
    pub(super) fn fork(&mut self, pid: u32, parent: u32) {
        if pid != parent {
            self.forget(pid);
        }
    }

    /// The process ended or replaced its program.
    pub(super) fn forget(&mut self, pid: u32) {
        self.pages.remove(&pid);
    }

    /// Draws the conclusions that needed all faults: moved memory, reads seen late, huge pages.
    pub(super) fn settle(self, faults: &mut [Fault]) {
        // A burst may stop before its last faults end: if most were handled, so were those without an end.
        let handled = self.moved.iter().filter(|(index, _)| faults[*index].duration_ns.is_some()).count();
        for (index, kind) in &self.moved {
            let fault = &mut faults[*index];
            let was_handled = fault.duration_ns.is_some() || 2 * handled > self.moved.len();
            if fault.kind == Kind::Unplaced && was_handled {
                fault.kind = *kind;
            }
        }
        for index in &self.reads {
            if faults[*index].kind == Kind::FirstTouch {
                faults[*index].kind = Kind::ZeroPageRead;
            }
        }
        for fault in faults.iter_mut().filter(|fault| fault.huge) {
            fault.kind = of_huge_page(fault.kind);
        }
    }

    fn anonymous(
        &mut self,
        region: Region,
        access: Option<Access>,
        before: Option<Touch>,
        was_mapped: Option<bool>,
    ) -> Kind {
        if matches!(access, Some(Access::Read | Access::Execute)) {
            return Kind::ZeroPageRead;
        }
        let untold = before.filter(|touch| touch.access.is_none());
        let after_read = was_mapped.unwrap_or(match (access, before) {
            (Some(Access::Write), Some(before)) => before.access != Some(Access::Write),
            (_, before) => before.is_some_and(|before| before.access == Some(Access::Read)),
        });
        match access {
            _ if after_read => {
                // Unless the page was released in between, which is not reported, the earlier fault mapped
                // the zero page.
                self.reads.extend(untold.filter(|_| access.is_some()).map(|touch| touch.fault));
                Kind::WriteAfterZeroRead
            }
            Some(_) => first_write(region),
            None => Kind::FirstTouch,
        }
    }
}

/// Whether an access copies a page that two processes share after a fork.
fn is_copy(
    access: Option<Access>,
    before: Option<Touch>,
    mapping: &Mapping,
    was_mapped: Option<bool>,
) -> bool {
    let Some(fork) = mapping.fork.filter(|_| may_copy(access, mapping)) else { return false };
    if before.is_some_and(|b| b.time_ns >= fork.time_ns) {
        return false;
    }
    was_mapped.unwrap_or(match before {
        Some(before) => fork.is_child || before.access != Some(Access::Read),
        None => fork.is_child || mapping.was_there,
    })
}

/// Whether such an access can copy a page shared after a fork.
fn may_copy(access: Option<Access>, mapping: &Mapping) -> bool {
    let private = mapping.region.is_anonymous() || mapping.region == Region::FilePrivate;
    private && matches!(access, None | Some(Access::Write))
}

/// The kind if the page's history does not matter; `None` for anonymous memory.
fn by_region(access: Option<Access>, region: Region) -> Option<Kind> {
    Some(match region {
        Region::Reserved => Kind::Unplaced,
        Region::File => Kind::FileRead,
        Region::FilePrivate if matches!(access, Some(Access::Read | Access::Execute)) => Kind::FileRead,
        Region::FilePrivate => Kind::FilePrivateWrite,
        Region::Shared => Kind::Shared,
        Region::Stack => Kind::Stack,
        Region::Heap | Region::Mmap | Region::Bss => return None,
    })
}

fn first_write(region: Region) -> Kind {
    match region {
        Region::Heap => Kind::HeapFirstWrite,
        Region::Bss => Kind::BssFirstWrite,
        _ => Kind::MmapFirstWrite,
    }
}

/// The kind by access and mapping alone, as if the page had no history.
pub(super) fn without_past(access: Option<Access>, mapping: Option<&Mapping>) -> Kind {
    let region = mapping.map_or(Region::Mmap, |mapping| mapping.region);
    let shares = |mapping: &Mapping| mapping.fork.is_some_and(|fork| fork.is_child || mapping.was_there);
    if mapping.is_some_and(|mapping| shares(mapping) && may_copy(access, mapping)) {
        return Kind::CowAfterFork;
    }
    by_region(access, region).unwrap_or_else(|| match access {
        Some(Access::Read | Access::Execute) => Kind::ZeroPageRead,
        Some(Access::Write) => first_write(region),
        None => Kind::FirstTouch,
    })
}

/// The kind of a fault that left a huge page mapped.
pub(super) fn of_huge_page(kind: Kind) -> Kind {
    if kind.is_first_touch() || kind == Kind::WriteAfterZeroRead { Kind::Thp } else { kind }
}

#[cfg(test)]
mod tests {
    use crate::fault::Faults;
    use crate::kind::Kind;
    use crate::observation::{Access, Host, Map, Observation, Record, What};

    const ANON: u64 = 0x7f00_0000_0000;
    const PAGE: u64 = 4096;

    /// Builds records 1000 ns apart.
    #[derive(Default)]
    struct Script(Observation);

    impl Script {
        fn new() -> Self {
            let host = Host { page_bytes: PAGE, ..Host::default() };
            Script(Observation { host, ..Observation::default() })
        }

        fn push(&mut self, pid: u32, what: What) -> &mut Self {
            let time_ns = self.0.records.last().map_or(0, |r| r.time_ns) + 1000;
            self.0.records.push(Record { time_ns, pid, tid: pid, what });
            self
        }

        fn map(&mut self, pid: u32, begin: u64, len_bytes: u64, name: &str) -> &mut Self {
            let map = Map { begin, len_bytes, prot: 3, flags: 2, name: name.into(), file_offset: 0 };
            self.push(pid, What::Map(map))
        }

        fn fault(&mut self, pid: u32, addr: u64, access: Option<Access>, ns: u64) -> &mut Self {
            self.push(pid, What::Enter { addr, ip: 1, kernel: false, access, mapped_bytes: None });
            self.push(pid, What::End { addr, major: false, stack: None, mapped_bytes: None });
            let begin = self.0.records[self.0.records.len() - 2].time_ns;
            self.0.records.last_mut().unwrap().time_ns = begin + ns;
            self
        }

        /// The same with the sizes of the pages that were mapped before and after.
        fn told(&mut self, pid: u32, addr: u64, access: Option<Access>, mapped: [u64; 2]) -> &mut Self {
            self.fault(pid, addr, access, 500);
            for (record, bytes) in self.0.records.iter_mut().rev().zip(mapped.into_iter().rev()) {
                if let What::Enter { mapped_bytes, .. } | What::End { mapped_bytes, .. } = &mut record.what {
                    *mapped_bytes = Some(bytes);
                }
            }
            self
        }

        fn write(&mut self, pid: u32, addr: u64) -> &mut Self {
            self.fault(pid, addr, Some(Access::Write), 500)
        }

        fn kinds(&self) -> Vec<Kind> {
            Faults::from_observation(&self.0).faults.iter().map(|f| f.kind).collect()
        }
    }

    #[test]
    fn a_read_then_a_write_of_a_page_are_two_kinds() {
        let mut s = Script::new();
        s.map(1, ANON, 1 << 20, "//anon");
        s.fault(1, ANON, Some(Access::Read), 400).write(1, ANON + 8).write(1, ANON + 0x5000);
        assert_eq!(s.kinds(), [Kind::ZeroPageRead, Kind::WriteAfterZeroRead, Kind::MmapFirstWrite]);
    }

    #[test]
    fn a_write_shows_that_the_unknown_touch_before_was_a_read() {
        let mut s = Script::new();
        s.map(1, ANON, 1 << 20, "//anon").fault(1, ANON, None, 400).write(1, ANON);
        assert_eq!(s.kinds(), [Kind::ZeroPageRead, Kind::WriteAfterZeroRead]);
    }

    #[test]
    fn memory_mapped_anew_is_touched_for_the_first_time_again() {
        let mut s = Script::new();
        s.map(1, ANON, 1 << 20, "//anon").fault(1, ANON, Some(Access::Read), 400);
        s.map(1, ANON, 1 << 20, "//anon").write(1, ANON);
        assert_eq!(s.kinds(), [Kind::ZeroPageRead, Kind::MmapFirstWrite]);
    }

    #[test]
    fn a_child_copies_what_was_mapped_at_the_fork_until_it_runs_another_program() {
        let mut s = Script::new();
        s.map(1, ANON, 1 << 20, "[heap]").write(1, ANON).push(2, What::Fork { parent: 1 });
        s.write(2, ANON)
            .write(2, ANON)
            .map(2, ANON + (1 << 30), 1 << 20, "//anon")
            .write(2, ANON + (1 << 30));
        s.push(2, What::Exec).map(2, ANON, 1 << 20, "[heap]").write(2, ANON);
        use Kind::{CowAfterFork, HeapFirstWrite, MmapFirstWrite};
        assert_eq!(s.kinds(), [HeapFirstWrite, CowAfterFork, HeapFirstWrite, MmapFirstWrite, HeapFirstWrite]);
    }

    #[test]
    fn a_parent_copies_pages_that_it_was_seen_to_touch() {
        let mut s = Script::new();
        s.push(1, What::Exec)
            .map(1, ANON, 1 << 20, "[heap]")
            .write(1, ANON)
            .push(2, What::Fork { parent: 1 });
        s.write(1, ANON).write(1, ANON + 4096);
        assert_eq!(s.kinds()[1..], [Kind::CowAfterFork, Kind::HeapFirstWrite]);
    }

    #[test]
    fn a_page_that_was_mapped_is_copied_after_a_fork_and_else_was_read_before() {
        let mut s = Script::new();
        let write = Some(Access::Write);
        s.map(1, ANON, 1 << 20, "//anon").told(1, ANON, write, [PAGE, PAGE]);
        s.push(2, What::Fork { parent: 1 });
        s.told(2, ANON, write, [PAGE, PAGE]).told(2, ANON + PAGE, write, [0, PAGE]);
        s.told(1, ANON + 2 * PAGE, write, [PAGE, PAGE]).told(1, ANON + 3 * PAGE, write, [0, PAGE]);
        s.told(1, ANON + 4 * PAGE, Some(Access::Read), [0, PAGE]).told(
            1,
            ANON + 4 * PAGE,
            write,
            [PAGE, PAGE],
        );
        use Kind::{CowAfterFork, MmapFirstWrite, WriteAfterZeroRead, ZeroPageRead};
        let in_child = [CowAfterFork, MmapFirstWrite];
        let in_parent = [CowAfterFork, MmapFirstWrite, ZeroPageRead, WriteAfterZeroRead];
        assert_eq!(s.kinds(), [&[WriteAfterZeroRead][..], &in_child, &in_parent].concat());
    }

    #[test]
    fn a_parent_copies_what_it_had_before_the_recorder_came() {
        let mut s = Script::new();
        s.map(1, ANON, 1 << 20, "[heap]").write(1, ANON).map(1, ANON + (1 << 30), 1 << 20, "//anon");
        s.push(2, What::Fork { parent: 1 })
            .write(1, ANON + 4096)
            .write(1, ANON + 4096)
            .write(1, ANON + (1 << 30));
        use Kind::{CowAfterFork, HeapFirstWrite, MmapFirstWrite};
        assert_eq!(s.kinds(), [HeapFirstWrite, CowAfterFork, HeapFirstWrite, MmapFirstWrite]);
    }

    #[test]
    fn a_write_behind_which_a_huge_page_is_mapped_is_one() {
        const HUGE: u64 = 2 << 20;
        let mut s = Script::new();
        let write = Some(Access::Write);
        s.map(1, ANON, 8 << 20, "//anon").told(1, ANON, write, [0, HUGE]).told(1, 2 * ANON, write, [0, HUGE]);
        s.told(1, ANON + HUGE, Some(Access::Read), [0, HUGE]).told(1, ANON + HUGE, write, [HUGE, HUGE]);
        s.told(1, ANON + 2 * HUGE, write, [0, PAGE]);
        assert_eq!(s.kinds(), [Kind::Thp, Kind::Thp, Kind::ZeroPageRead, Kind::Thp, Kind::MmapFirstWrite]);
    }

    #[test]
    fn memory_that_mremap_moved_is_anonymous_since_the_kernel_handled_its_faults() {
        let mut s = Script::new();
        s.map(1, ANON, 1 << 20, "//anon").write(1, 2 * ANON);
        s.fault(1, 2 * ANON + 0x5000, Some(Access::Read), 400).write(1, 2 * ANON + 0x5000);
        assert_eq!(s.kinds(), [Kind::MmapFirstWrite, Kind::ZeroPageRead, Kind::WriteAfterZeroRead]);
    }

    #[test]
    fn a_page_that_faults_again_within_its_mapping_was_given_back_and_one_that_was_mapped_anew_was_not() {
        let again = |anew: bool| {
            let mut s = Script::new();
            for round in 0..3 {
                if anew || round == 0 {
                    // Larger each time, so that it could be the old one with a neighbour.
                    s.map(1, ANON - round * PAGE, (4 + round) * PAGE, "//anon");
                }
                (0..4).for_each(|page| {
                    s.write(1, ANON + page * PAGE);
                });
            }
            Faults::from_observation(&s.0).faults.iter().map(|fault| fault.again).collect::<Vec<_>>()
        };
        assert!(again(true).iter().all(|again| *again == 0.0), "{:?}", again(true));
        assert!(again(false)[4..].iter().all(|again| *again == 1.0), "{:?}", again(false));
    }

    #[test]
    fn a_sample_out_of_step_has_the_kind_of_its_neighbour_at_the_same_instruction_in_the_same_mapping() {
        let kind_after = |ip, entered| {
            let mut s = Script::new();
            s.map(1, ANON, 1 << 20, "//anon").map(1, 2 * ANON, 1 << 20, "//anon");
            s.push(1, What::SampleEnter { addr: entered, ip, mapped_bytes: Some(PAGE) });
            let (kernel, major, stack, weight) = (false, false, None, 97);
            let (addr, access, mapped_bytes) = (ANON, Some(Access::Write), Some(PAGE));
            s.push(1, What::Sample { addr, ip: 1, kernel, major, access, stack, weight, mapped_bytes });
            let (fault, _) = Faults::from_observation(&s.0).samples.remove(0);
            (fault.kind, fault.duration_ns)
        };
        assert_eq!(kind_after(1, ANON), (Kind::WriteAfterZeroRead, Some(1000)));
        assert_eq!(kind_after(1, ANON + 8 * PAGE), (Kind::WriteAfterZeroRead, None));
        assert_eq!(kind_after(2, ANON + 8 * PAGE), (Kind::MmapFirstWrite, None), "another instruction");
        assert_eq!(kind_after(1, 2 * ANON), (Kind::MmapFirstWrite, None), "another mapping");
    }

    #[test]
    fn a_fault_in_no_mapping_that_nobody_handled_is_unplaced_and_a_fetch_is_file_backed() {
        let mut s = Script::new();
        s.write(1, 0x10);
        s.0.records.retain(|record| !matches!(record.what, What::End { .. }));
        s.map(1, 0x40_0000, 0x1000, "/bin/true").fault(1, 0x40_0000, Some(Access::Execute), 300);
        assert_eq!(s.kinds(), [Kind::Unplaced, Kind::FileRead]);
    }
}
