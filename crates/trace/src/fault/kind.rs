//! Place + access + what happened to the page before -> kind.
//!
//! The software event carries no error code, so a kind is a conclusion. Rules in the order in which they are tried,
//! each with its weakness:
//!
//! | kind | rule | weakness |
//! |---|---|---|
//! | major | its end came from the `_MAJ` event | none |
//! | unplaced | no mapping known and no end seen, or a mapping without access | faults that end in SIGSEGV |
//! | as anonymous mmap memory | no mapping known, but the kernel handled the fault: mremap moved or grew one, which is not reported | a file's mapping moved by mremap; CoW after fork of moved memory counts as first write |
//! | file read | file mapping that can't be written, or a private one that is read; fetches too | one fault maps up to 16 pages |
//! | shared | shared and writable | reads are not told from writes |
//! | CoW after fork | write (or unknown access) to a private mapping older than the fork, page not faulted since: in the child always; in the parent when the page is known to have been touched, or is presumed so (below), or lies in a mapping that was there before the recorder | memory that was there before the recorder and never touched counts as CoW after the first fork; a child's first touch of memory that the parent had mapped but never touched counts as CoW; a child of vfork runs in its parent's memory |
//! | file, private, written | private writable file mapping, not read | reads of unknown access |
//! | stack | stack region | a stack's zero-page reads |
//! | write after zero read | write to a page whose last recorded fault was a read, same mapping | reads in unrecorded windows are unseen: counts as first write |
//! | zero-page read | anonymous read, page not seen before as written | the kernel may map a huge zero page |
//! | first write | anonymous write: heap, bss, mmap by region | refaults after MADV_DONTNEED are first writes too, rightly: a fresh page is zeroed |
//! | first touch | anonymous, access unknown; when the page's next fault is recorded as a write, this one is a zero-page read after the fact | |
//! | THP | first write or touch whose aligned block lies in one anonymous mapping, THP not `never`, at least 20 times slower than a base-page fault, and no other fault in that block in that window | a wait looks the same where a program touches one page per block; a window that ends early hides neighbours |
//!
//! The presumption for a parent: of the parent's writes to old mappings, those to pages that were *seen* faulted before
//! the fork are certain. Only a share of faults was recorded before the fork, so this many certain ones stand for
//! more: if they explain at least half of all such writes, all are CoW, else only the certain ones.

use std::collections::HashMap;

use super::Fault;
use super::place::{Place, Region, UNKNOWN};
use crate::measurement::median;
use crate::observation::{Access, Record, Window};
use crate::stat::Kind;
use crate::tuning::{FORK_EVIDENCE_SHARE, THP_LATENCY_RATIO};

/// The last recorded fault of a page.
#[derive(Clone, Copy, Debug)]
struct Touch {
    time_ns: u64,
    access: Option<Access>,
    fault: usize,
}

/// A parent's writes after one of its forks.
#[derive(Clone, Debug, Default)]
struct Epoch {
    certain: u64,
    presumed: Vec<usize>,
}

/// A huge-page-sized block of a process in a window.
type Block = (Option<usize>, u32, u64);

/// Memory that mremap moved or grew: somewhere, since the kernel reports no mapping for it.
const MOVED: Place = Place {
    region: Region::Mmap,
    begin: 0,
    end: u64::MAX,
    mapped_ns: 0,
    fork: None,
    was_there: false,
    name: UNKNOWN,
};

/// What was seen of every page, and the conclusions that have to wait for the end.
#[derive(Debug)]
pub(super) struct History {
    page_bytes: u64,
    /// 0: no huge pages.
    thp_bytes: u64,
    pages: HashMap<u32, HashMap<u64, Touch>>,
    epochs: HashMap<(u32, u64), Epoch>,
    /// Recorded faults in a block, and one of them that may have mapped it whole.
    blocks: HashMap<Block, (u64, Option<usize>)>,
    /// Faults found to be zero-page reads by what came later.
    reads: Vec<usize>,
    /// Faults in no known mapping, and their kind if they turn out to have been handled.
    moved: Vec<(usize, Kind)>,
}

impl History {
    pub(super) fn new(page_bytes: u64, thp_bytes: u64) -> Self {
        History {
            page_bytes,
            thp_bytes: if thp_bytes > page_bytes { thp_bytes } else { 0 },
            pages: HashMap::new(),
            epochs: HashMap::new(),
            blocks: HashMap::new(),
            reads: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// Fault number `fault` touched `addr`: its kind as far as it can be told now, and whether the page was faulted in before.
    pub(super) fn touch(
        &mut self,
        fault: usize,
        record: &Record,
        addr: u64,
        access: Option<Access>,
        place: Option<&Place>,
        window: Option<usize>,
    ) -> (Kind, bool) {
        let page = addr / self.page_bytes;
        let touch = Touch { time_ns: record.time_ns, access, fault };
        let before = self.pages.entry(record.pid).or_default().insert(page, touch);
        let Some(place) = place else {
            let kind = self.anonymous(Region::Mmap, access, before);
            self.note_block(fault, (window, record.pid, addr), kind, &MOVED);
            self.moved.push((fault, kind));
            return (Kind::Unplaced, false);
        };
        let before = before.filter(|b| b.time_ns >= place.mapped_ns);
        let cow = self.copied_after_fork(fault, record.pid, access, before, place);
        let kind = if cow { Kind::CowAfterFork } else { self.kind(access, before, place) };
        let again = is_first_touch(kind) && before.is_some_and(|b| b.access == Some(Access::Write));
        if place.region.is_anonymous() {
            self.note_block(fault, (window, record.pid, addr), kind, place);
        }
        (kind, again)
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

    /// Draws the conclusions that needed all faults: presumed CoW, reads seen late, huge pages. Returns the presumed ones.
    pub(super) fn settle(
        self,
        faults: &mut [Fault],
        windows: &[Window],
        pair_p50_ns: Option<f64>,
    ) -> Vec<usize> {
        // The last fault of a burst ends behind it: where most were handled, those without an end were too.
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
        let coverage = Coverage::new(faults, windows);
        let before: Vec<(f64, f64)> =
            self.epochs.keys().map(|(_, fork_ns)| coverage.seen_and_unseen_before(*fork_ns)).collect();
        let mut unsure = Vec::new();
        for (epoch, (seen, unseen)) in self.epochs.values().zip(before) {
            unsure.extend(epoch.presumed.iter().take(unseen as usize));
            let explained = epoch.certain as f64 * (seen + unseen) / seen;
            let all = epoch.certain as f64 + epoch.presumed.len() as f64;
            if epoch.certain > 0 && explained >= FORK_EVIDENCE_SHARE * all {
                for index in &epoch.presumed {
                    let kind = &mut faults[*index].kind;
                    *kind = if *kind == Kind::Major { Kind::Major } else { Kind::CowAfterFork };
                }
            }
        }
        let Some(base_ns) = base_page_latency(faults, pair_p50_ns) else { return unsure };
        for index in self.blocks.values().filter(|(faults, _)| *faults == 1).filter_map(|(_, index)| *index) {
            let fault = &mut faults[index];
            let slow = fault.duration_ns.is_some_and(|d| d as f64 >= THP_LATENCY_RATIO * base_ns);
            if slow && is_first_touch(fault.kind) {
                fault.kind = Kind::Thp;
            }
        }
        unsure
    }

    fn copied_after_fork(
        &mut self,
        fault: usize,
        pid: u32,
        access: Option<Access>,
        before: Option<Touch>,
        place: &Place,
    ) -> bool {
        let Some(fork) = place.fork.filter(|_| may_copy(access, place)) else { return false };
        if before.is_some_and(|b| b.time_ns >= fork.time_ns) {
            return false;
        }
        if fork.is_child || before.is_none() && place.was_there {
            return true;
        }
        let epoch = self.epochs.entry((pid, fork.time_ns)).or_default();
        let certain = before.is_some_and(|b| b.access != Some(Access::Read));
        if certain {
            epoch.certain += 1;
        } else {
            epoch.presumed.push(fault);
        }
        certain
    }

    fn kind(&mut self, access: Option<Access>, before: Option<Touch>, place: &Place) -> Kind {
        match by_region(access, place.region) {
            Some(kind) => kind,
            None => self.anonymous(place.region, access, before),
        }
    }

    fn anonymous(&mut self, region: Region, access: Option<Access>, before: Option<Touch>) -> Kind {
        match (access, before) {
            (Some(Access::Read | Access::Execute), _) => Kind::ZeroPageRead,
            (Some(Access::Write), Some(Touch { access: Some(Access::Read), .. })) => Kind::WriteAfterZeroRead,
            (Some(Access::Write), Some(Touch { access: None, fault, .. })) => {
                // Unless the page was released in between, which is not reported, the first one mapped the zero page.
                self.reads.push(fault);
                Kind::WriteAfterZeroRead
            }
            (Some(Access::Write), _) => first_write(region),
            (None, Some(Touch { access: Some(Access::Read), .. })) => Kind::WriteAfterZeroRead,
            (None, _) => Kind::FirstTouch,
        }
    }

    fn note_block(&mut self, fault: usize, at: (Option<usize>, u32, u64), kind: Kind, place: &Place) {
        if self.thp_bytes == 0 {
            return;
        }
        let (window, pid, addr) = at;
        let begin = addr - addr % self.thp_bytes;
        let whole = place.begin <= begin && begin.saturating_add(self.thp_bytes) <= place.end;
        let noted = self.blocks.entry((window, pid, begin)).or_default();
        noted.0 += 1;
        noted.1 = (whole && is_first_touch(kind)).then_some(fault);
    }
}

/// Whether such an access may copy a page that two processes share after a fork.
fn may_copy(access: Option<Access>, place: &Place) -> bool {
    let private = place.region.is_anonymous() || place.region == Region::FilePrivate;
    private && matches!(access, None | Some(Access::Write))
}

/// The kind where it does not depend on the page's past; `None` for anonymous memory.
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

/// The kind of a fault of which nothing but access and place is known: as if its page had no past.
pub(super) fn by_place(access: Option<Access>, place: Option<&Place>) -> Kind {
    let region = place.map_or(Region::Mmap, |place| place.region);
    let shares = |place: &Place| place.fork.is_some_and(|fork| fork.is_child || place.was_there);
    if place.is_some_and(|place| shares(place) && may_copy(access, place)) {
        return Kind::CowAfterFork;
    }
    by_region(access, region).unwrap_or_else(|| match access {
        Some(Access::Read | Access::Execute) => Kind::ZeroPageRead,
        Some(Access::Write) => first_write(region),
        None => Kind::FirstTouch,
    })
}

fn is_first_touch(kind: Kind) -> bool {
    matches!(kind, Kind::MmapFirstWrite | Kind::HeapFirstWrite | Kind::BssFirstWrite | Kind::FirstTouch)
}

/// How many faults of each window were counted and not recorded, added up from the first window on.
struct Coverage<'a> {
    faults: &'a [Fault],
    windows: &'a [Window],
    unseen_before: Vec<f64>,
}

impl<'a> Coverage<'a> {
    fn new(faults: &'a [Fault], windows: &'a [Window]) -> Self {
        let mut seen = vec![0_u64; windows.len()];
        faults.iter().filter_map(|f| f.window).for_each(|w| seen[w] += 1);
        let mut unseen_before = vec![0.0];
        let mut sum = 0.0;
        unseen_before.extend(windows.iter().zip(seen).map(|(w, seen)| {
            sum += w.faults.saturating_sub(seen) as f64;
            sum
        }));
        Coverage { faults, windows, unseen_before }
    }

    /// Faults before a time that were recorded, and that were only counted. Of a window that the time splits, what was
    /// recorded counts as all there was, or an unrecorded one by the part of its length.
    fn seen_and_unseen_before(&self, time_ns: u64) -> (f64, f64) {
        let seen = self.faults.partition_point(|f| f.enter_ns < time_ns) as f64;
        let Some(last) = self.windows.partition_point(|w| w.begin_ns < time_ns).checked_sub(1) else {
            return (seen, 0.0);
        };
        let window = self.windows[last];
        let len_ns = window.end_ns.saturating_sub(window.begin_ns).max(1) as f64;
        let part = match window.end_ns > time_ns {
            true if window.recorded => 0.0,
            _ => ((time_ns - window.begin_ns) as f64 / len_ns).min(1.0),
        };
        let unseen =
            self.unseen_before[last] + part * (self.unseen_before[last + 1] - self.unseen_before[last]);
        (seen, unseen)
    }
}

/// What a first touch of a base page reads like here: as calibrated, else the median of all anonymous first touches.
fn base_page_latency(faults: &[Fault], pair_p50_ns: Option<f64>) -> Option<f64> {
    let seen = || {
        let first = faults.iter().filter(|f| is_first_touch(f.kind));
        median(&first.filter_map(|f| f.duration_ns).map(|d| d as f64).collect::<Vec<_>>())
    };
    pair_p50_ns.filter(|ns| ns.is_finite() && *ns > 0.0).or_else(seen)
}

#[cfg(test)]
mod tests {
    use crate::fault::Faults;
    use crate::observation::{Access, Calibration, Host, Map, Observation, Record, What, Window};
    use crate::stat::Kind;

    const ANON: u64 = 0x7f00_0000_0000;

    /// Builds records 1000 ns apart.
    #[derive(Default)]
    struct Script(Observation);

    impl Script {
        fn new() -> Self {
            let host =
                Host { page_bytes: 4096, thp_bytes: 2 << 20, thp: "madvise".into(), ..Host::default() };
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
            self.push(pid, What::Enter { addr, ip: 1, kernel: false, access });
            self.push(pid, What::End { addr, major: false, stack: None });
            let begin = self.0.records[self.0.records.len() - 2].time_ns;
            self.0.records.last_mut().unwrap().time_ns = begin + ns;
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
    fn a_parent_copies_known_pages_and_presumes_others_only_on_evidence() {
        // All faults are recorded here, so a page that was not seen before the fork was not touched.
        let mut s = Script::new();
        s.push(1, What::Exec)
            .map(1, ANON, 1 << 20, "[heap]")
            .write(1, ANON)
            .push(2, What::Fork { parent: 1 });
        s.write(1, ANON);
        for page in 1..4 {
            s.write(1, ANON + page * 4096);
        }
        assert_eq!(
            s.kinds()[1..],
            [Kind::CowAfterFork, Kind::HeapFirstWrite, Kind::HeapFirstWrite, Kind::HeapFirstWrite]
        );
        // One in twenty was recorded before the fork: one certain page stands for twenty.
        let first = Window { begin_ns: 0, end_ns: 4500, faults: 20, recorded: true, lost: 0 };
        s.0.windows = vec![first, Window { begin_ns: 4500, end_ns: 1 << 40, faults: 4, ..first }];
        assert_eq!(s.kinds()[1..], [Kind::CowAfterFork; 4]);
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
    fn a_slow_lonely_fault_in_a_whole_block_is_a_huge_page() {
        let mut s = Script::new();
        s.0.calibration =
            Some(Calibration { truth_p50_ns: 400.0, pair_p50_ns: 500.0, record_cost_ns: 600.0, pages: 4096 });
        s.map(1, ANON, 3 << 20, "//anon");
        s.fault(1, ANON + 0x3000, Some(Access::Write), 90_000);
        s.fault(1, ANON + (2 << 20), Some(Access::Write), 90_000);
        assert_eq!(s.kinds(), [Kind::Thp, Kind::MmapFirstWrite], "the second block is not whole");
        s.write(1, ANON + 0x9000);
        assert_eq!(s.kinds()[0], Kind::MmapFirstWrite, "a neighbour faulted: it was a wait");
        let mut never = Script::new();
        never.0.host.thp = "never".into();
        never.0.calibration = s.0.calibration;
        never.map(1, ANON, 4 << 20, "//anon").fault(1, ANON, Some(Access::Write), 90_000);
        assert_eq!(never.kinds(), [Kind::MmapFirstWrite]);
    }

    #[test]
    fn memory_that_mremap_moved_is_anonymous_since_the_kernel_handled_its_faults() {
        let mut s = Script::new();
        s.map(1, ANON, 1 << 20, "//anon").write(1, 2 * ANON);
        s.fault(1, 2 * ANON + 0x5000, Some(Access::Read), 400).write(1, 2 * ANON + 0x5000);
        assert_eq!(s.kinds(), [Kind::MmapFirstWrite, Kind::ZeroPageRead, Kind::WriteAfterZeroRead]);
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
