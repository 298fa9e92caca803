//! Records of mappings -> the mapping at an address of a process at a time.
//!
//! The kernel reports new mappings, but not their removal. So the latest record wins where two overlap, and
//! an unmapped address keeps its last mapping. Fork copies lazily: a shell's thousand children cost nothing
//! until one maps something. Exec clears. The exit of the last thread drops the process.
//!
//! How regions are told apart, and the weakness of each rule:
//!
//! | region | rule | weakness |
//! |---|---|---|
//! | heap | named `[heap]`, or anonymous and first within 1 GiB above the program and its bss: the kernel names the heap only once it has grown | brk heaps only; malloc's arenas are mmap. Without address randomisation the first piece counts as bss |
//! | bss | anonymous, begins where a writable private mapping ends of a file whose code is mapped too, or named so | the page shared with the data segment counts as data; a dlclosed library leaves its bss behind |
//! | stack | named `[stack...`, or `MAP_STACK`, or anonymous memory that fills a PROT_NONE mapping except for a guard below and as much above: the guard of the stack above (how glibc and musl make thread stacks), or up to 64 MiB below `[stack]` | stacks from plain malloc or with MADV_GUARD are mmap |
//! | shared | `MAP_SHARED` and writable | |
//! | file | a file's name: read, or writable and private | |
//! | mmap | any other anonymous memory | |
//!
//! The kernel merges neighbouring mappings and reports them as one. A record that contains an older region of
//! its own kind, and more, leaves the age of that part alone; so does a record that contains bss.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::observation::Map;

/// `MAP_STACK` of Linux on x86-64 and aarch64; perf does not pass it on today, a recorder may.
const MAP_STACK: u32 = 0x2_0000;
/// `MAP_SHARED`.
const MAP_SHARED: u32 = 0x01;
/// `PROT_WRITE`.
const PROT_WRITE: u32 = 0x2;
/// `PROT_EXEC`.
const PROT_EXEC: u32 = 0x4;
/// Furthest that a stack may be seen to grow below its last record: eight times the usual limit, in bytes.
const STACK_REACH_BYTES: u64 = 64 << 20;
/// Largest guard below a thread's stack, in bytes; glibc's is a page.
const GUARD_MAX_BYTES: u64 = 1 << 20;

/// Furthest that the kernel puts the heap above the program's end, in bytes (`arch_randomize_brk`).
const HEAP_REACH_BYTES: u64 = 1 << 30;

/// What lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    Heap,
    Mmap,
    Bss,
    Stack,
    /// Anonymous without access: reserved address space.
    Reserved,
    /// File-backed and not writable, or a page of the kernel such as the vdso.
    File,
    /// File-backed, private and writable.
    FilePrivate,
    Shared,
}

impl Region {
    /// Private anonymous memory, in which a first touch takes a fresh page.
    pub(super) fn is_anonymous(self) -> bool {
        matches!(self, Region::Heap | Region::Mmap | Region::Bss | Region::Stack | Region::Reserved)
    }
}

/// A mapping at an address, with the history of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) region: Region,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// When it was first mapped.
    pub(super) mapped_ns: u64,
    /// The last record that covered it.
    pub(super) record: MapRecord,
    /// The process's last fork, if the mapping is older than that.
    pub(super) fork: Option<Fork>,
    /// It existed when the recorder attached, so earlier touches were not seen.
    pub(super) was_there: bool,
    /// Index into the names.
    pub(super) name: u32,
}

/// A record of a mapping: memory that was unmapped and mapped again has a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct MapRecord {
    pub(super) time_ns: u64,
    pub(super) len_bytes: u64,
}

/// A fork from the view of one of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fork {
    pub(super) time_ns: u64,
    /// Seen from the child, and it has not replaced its program since.
    pub(super) is_child: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vma {
    end: u64,
    region: Region,
    mapped_ns: u64,
    record: MapRecord,
    /// Forks that the process had seen when this was mapped.
    generation: u32,
    name: u32,
    /// No later mapping covers a part of it.
    whole: bool,
}

#[derive(Clone, Copy, Debug)]
struct Program {
    name: u32,
    /// End of its mappings and of the bss behind them.
    end: u64,
    has_heap: bool,
}

#[derive(Clone, Debug, Default)]
struct Process {
    vmas: Rc<BTreeMap<u64, Vma>>,
    /// Names of files with mapped code: the program and its libraries, which alone have bss.
    code: Rc<BTreeSet<u32>>,
    /// The file whose code was mapped first.
    program: Option<Program>,
    generation: u32,
    fork: Option<Fork>,
    /// When the first mappings were reported, for a process whose start was not seen.
    found_ns: Option<u64>,
    /// Threads beyond the first.
    more_threads: u32,
}

impl Program {
    fn begins_heap(&self, begin: u64) -> bool {
        !self.has_heap && begin >= self.end && begin - self.end <= HEAP_REACH_BYTES
    }

    fn saw(&mut self, name: u32, region: Region, begin: u64, end: u64) {
        match region {
            Region::Heap => self.has_heap = true,
            Region::Bss if begin <= self.end => self.end = self.end.max(end),
            _ if name == self.name => self.end = self.end.max(end),
            _ => {}
        }
    }
}

/// The name for addresses in no known mapping.
pub(super) const UNKNOWN: u32 = 0;

/// Every process's mappings.
#[derive(Debug)]
pub(super) struct Processes {
    processes: HashMap<u32, Process>,
    /// Names of mappings.
    names: Vec<String>,
    number_of: HashMap<String, u32>,
}

impl Default for Processes {
    fn default() -> Self {
        Self { processes: HashMap::new(), names: vec!["[unknown]".to_owned()], number_of: HashMap::new() }
    }
}

impl Processes {
    /// The mapping at `addr`; `None` if none is known.
    pub(super) fn mapping(&self, pid: u32, addr: u64) -> Option<Mapping> {
        let process = self.processes.get(&pid)?;
        let below = process.vmas.range(..=addr).next_back().filter(|(_, vma)| addr < vma.end);
        let (begin, vma) = below.or_else(|| {
            let above = process.vmas.range(addr..).next()?;
            (above.1.region == Region::Stack && above.0 - addr <= STACK_REACH_BYTES).then_some(above)
        })?;
        let fork = process.fork.filter(|_| vma.generation < process.generation);
        Some(Mapping {
            region: vma.region,
            begin: *begin,
            end: vma.end,
            mapped_ns: vma.mapped_ns,
            record: vma.record,
            fork,
            was_there: process.found_ns.is_some_and(|found_ns| vma.mapped_ns <= found_ns),
            name: vma.name,
        })
    }

    /// The names of all mappings.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names
    }

    fn number(&mut self, name: &str) -> u32 {
        let name = if name.is_empty() { "//anon" } else { name };
        if let Some(number) = self.number_of.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.number_of.insert(name.to_owned(), number);
        number
    }

    /// A mapping appeared.
    pub(super) fn map(&mut self, pid: u32, time_ns: u64, map: &Map) {
        let end = map.begin.saturating_add(map.len_bytes);
        if end <= map.begin {
            return;
        }
        let names = [map.name.as_str(), "[bss]", "[stack]", "[heap]"].map(|name| self.number(name));
        let unseen = || Process { found_ns: Some(time_ns), ..Process::default() };
        let process = self.processes.entry(pid).or_insert_with(unseen);
        let generation = process.generation;
        let vmas = Rc::make_mut(&mut process.vmas);
        let mut region = region_of(map);
        let is_file = matches!(region, Region::File | Region::FilePrivate);
        if is_file && map.prot & PROT_EXEC != 0 && !process.code.contains(&names[0]) {
            Rc::make_mut(&mut process.code).insert(names[0]);
            process.program.get_or_insert(Program { name: names[0], end, has_heap: false });
        }
        if region == Region::Mmap && ends_data_segment(vmas, &process.code, map.begin) {
            region = Region::Bss;
        }
        if let Some(program) = &mut process.program {
            if region == Region::Mmap && program.begins_heap(map.begin) {
                region = Region::Heap;
            }
            program.saw(names[0], region, map.begin, end);
        }
        let stack_end = if region == Region::Mmap { thread_stack_end(vmas, map.begin, end) } else { None };
        let vma = |end, region| {
            let name = match region {
                Region::Bss => names[1],
                Region::Stack => names[2],
                Region::Heap => names[3],
                _ => names[0],
            };
            let record = MapRecord { time_ns, len_bytes: map.len_bytes };
            Vma { end, region, mapped_ns: time_ns, record, generation, name, whole: true }
        };
        match stack_end {
            Some(stack_end) => {
                if stack_end < end {
                    overlay(vmas, stack_end, vma(end, region));
                }
                overlay(vmas, map.begin, vma(stack_end, Region::Stack));
            }
            None => overlay(vmas, map.begin, vma(end, region)),
        }
    }

    /// `pid` came from `parent`: a process with a copy of its mappings, or another thread.
    pub(super) fn fork(&mut self, pid: u32, parent: u32, time_ns: u64) {
        let process = self.processes.entry(parent).or_default();
        if pid == parent {
            process.more_threads = process.more_threads.saturating_add(1);
            return;
        }
        process.generation = process.generation.saturating_add(1);
        process.fork = Some(Fork { time_ns, is_child: false });
        let child =
            Process { fork: Some(Fork { time_ns, is_child: true }), more_threads: 0, ..process.clone() };
        self.processes.insert(pid, child);
    }

    /// `pid` replaced its program; its other threads are gone.
    pub(super) fn exec(&mut self, pid: u32) {
        self.processes.insert(pid, Process::default());
    }

    /// A thread of `pid` ended; whether it was the last.
    pub(super) fn exit(&mut self, pid: u32) -> bool {
        match self.processes.get_mut(&pid) {
            Some(process) if process.more_threads > 0 => {
                process.more_threads -= 1;
                false
            }
            _ => self.processes.remove(&pid).is_some(),
        }
    }
}

fn region_of(map: &Map) -> Region {
    let name = map.name.as_str();
    let writable = map.prot & PROT_WRITE != 0;
    match name {
        "[heap]" => return Region::Heap,
        _ if name.starts_with("[stack") => return Region::Stack,
        _ if map.flags & MAP_STACK != 0 => return Region::Stack,
        _ => {}
    }
    if map.flags & MAP_SHARED != 0 {
        return if writable { Region::Shared } else { Region::File };
    }
    if name.contains(".bss") && name.starts_with("[anon") {
        return Region::Bss;
    }
    let anonymous = name.is_empty() || name == "//anon" || name.starts_with("[anon");
    match (anonymous, writable) {
        (true, _) if map.prot == 0 => Region::Reserved,
        (true, _) => Region::Mmap,
        (false, true) => Region::FilePrivate,
        (false, false) => Region::File,
    }
}

fn ends_data_segment(vmas: &BTreeMap<u64, Vma>, code: &BTreeSet<u32>, begin: u64) -> bool {
    let before = vmas.range(..begin).next_back().filter(|(_, vma)| vma.end >= begin);
    let here = vmas.get(&begin).is_some_and(|vma| vma.region == Region::Bss);
    // A library is first mapped whole from its file; the anonymous part then hides the rest of that mapping.
    here || before.is_some_and(|(_, vma)| vma.region == Region::FilePrivate && code.contains(&vma.name))
}

/// End of the stack whose memory is `begin..end`, if a reserved mapping lies around it. The next stack is
/// reserved right below, and the kernel reports it with the guard of this one: hence a rest above.
fn thread_stack_end(vmas: &BTreeMap<u64, Vma>, begin: u64, end: u64) -> Option<u64> {
    let (guard, reserved) = vmas.range(..begin).next_back()?;
    // The rest of a mapping does not count: releases are not reported.
    let fresh = reserved.region == Region::Reserved && reserved.whole;
    let guard_bytes = begin - guard;
    let fills = begin < reserved.end && reserved.end.saturating_sub(end) <= guard_bytes;
    (fresh && fills && guard_bytes <= GUARD_MAX_BYTES).then_some(reserved.end.min(end))
}

/// Lays `new` over the existing mappings.
fn overlay(vmas: &mut BTreeMap<u64, Vma>, begin: u64, new: Vma) {
    let mut kept: Vec<(u64, Vma)> = Vec::new();
    let first = vmas.range(..begin).next_back().filter(|(_, vma)| vma.end > begin).map(|(b, _)| *b);
    let covered: Vec<u64> = first.into_iter().chain(vmas.range(begin..new.end).map(|(b, _)| *b)).collect();
    for old_begin in covered {
        let Some(old) = vmas.remove(&old_begin) else { continue };
        let old = Vma { whole: false, ..old };
        if old_begin < begin {
            vmas.insert(old_begin, Vma { end: begin, ..old });
        }
        if old.end > new.end {
            vmas.insert(new.end, old);
        }
        let same = old.region == new.region && new.region.is_anonymous();
        let inside = old_begin >= begin && old.end <= new.end && (old_begin, old.end) != (begin, new.end);
        if inside && (same || (old.region == Region::Bss && new.region.is_anonymous())) {
            keep(&mut kept, old_begin, Vma { record: new.record, ..old });
        }
    }
    let mut at = begin;
    for (kept_begin, old) in kept {
        if at < kept_begin {
            vmas.insert(at, Vma { end: kept_begin, ..new });
        }
        at = old.end;
        vmas.insert(kept_begin, old);
    }
    if at < new.end {
        vmas.insert(at, new);
    }
}

/// Adds a part that keeps its age. Joins it to its neighbour if both were mapped between the same forks:
/// otherwise every mapping would walk the hundred thousand blocks that the kernel merged one by one.
fn keep(kept: &mut Vec<(u64, Vma)>, begin: u64, vma: Vma) {
    match kept.last_mut() {
        Some((_, last))
            if last.end == begin
                && (last.region, last.generation, last.name) == (vma.region, vma.generation, vma.name) =>
        {
            last.end = vma.end;
            last.mapped_ns = last.mapped_ns.min(vma.mapped_ns);
        }
        _ => kept.push((begin, vma)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(begin: u64, end: u64, prot: u32, name: &str) -> Map {
        Map { begin, len_bytes: end - begin, prot, flags: 2, name: name.to_owned(), file_offset: 0 }
    }

    fn region(processes: &Processes, pid: u32, addr: u64) -> Option<Region> {
        processes.mapping(pid, addr).map(|p| p.region)
    }

    #[test]
    fn the_latest_mapping_hides_a_part_of_an_older_one() {
        let mut p = Processes::default();
        p.map(1, 1, &map(0x1000, 0x9000, 1, "/lib/a.so"));
        p.map(1, 2, &map(0x2000, 0x4000, 5, "/lib/a.so"));
        p.map(1, 2, &map(0x4000, 0x6000, 3, "/lib/a.so"));
        p.map(1, 3, &map(0x6000, 0x9000, 3, "//anon"));
        let seen = [0x1000, 0x4000, 0x6000, 0x8fff, 0x9000].map(|a| region(&p, 1, a));
        use Region::{Bss, File, FilePrivate};
        assert_eq!(seen, [Some(File), Some(FilePrivate), Some(Bss), Some(Bss), None]);
    }

    #[test]
    fn memory_behind_a_copy_of_a_data_file_is_no_bss() {
        let mut p = Processes::default();
        p.map(1, 1, &map(0x1000, 0x9000, 3, "/data"));
        p.map(1, 2, &map(0x3000, 0x4000, 3, "//anon"));
        p.map(1, 2, &map(0x9000, 0xa000, 3, "//anon"));
        assert_eq!([0x3000, 0x9000].map(|a| region(&p, 1, a)), [Some(Region::Mmap); 2]);
    }

    #[test]
    fn a_stack_made_in_a_reserved_mapping_is_a_stack_and_an_arena_is_not() {
        let mut p = Processes::default();
        p.map(1, 1, &map(0x10_0000, 0x90_0000, 0, "//anon"));
        p.map(1, 2, &map(0x10_1000, 0x90_0000, 3, "//anon"));
        p.map(1, 3, &map(0x1000_0000, 0x1800_0000, 0, "//anon"));
        p.map(1, 4, &map(0x1000_0000, 0x1002_1000, 3, "//anon"));
        assert_eq!(region(&p, 1, 0x8f_f000), Some(Region::Stack));
        assert_eq!(region(&p, 1, 0x1000_5000), Some(Region::Mmap));
    }

    #[test]
    fn a_stack_below_another_is_reserved_together_with_that_ones_guard() {
        let mut p = Processes::default();
        p.map(1, 1, &map(0x90_0000, 0x110_0000, 0, "//anon"));
        p.map(1, 2, &map(0x90_1000, 0x110_0000, 3, "//anon"));
        p.map(1, 3, &map(0x10_0000, 0x90_1000, 0, "//anon"));
        p.map(1, 4, &map(0x10_1000, 0x90_0000, 3, "//anon"));
        let seen = [0x110_0000 - 8, 0x90_0000, 0x90_0000 - 8, 0x10_0000].map(|a| region(&p, 1, a));
        use Region::{Reserved, Stack};
        assert_eq!(seen, [Some(Stack), Some(Reserved), Some(Stack), Some(Reserved)]);
        p.map(1, 5, &map(0x2000_0000, 0x2001_0000, 0, "//anon"));
        p.map(1, 6, &map(0x2000_1000, 0x2000_8000, 3, "//anon"));
        assert_eq!(region(&p, 1, 0x2000_2000), Some(Region::Mmap), "more is left above than lies below");
    }

    #[test]
    fn the_heap_is_known_before_the_kernel_names_it() {
        let mut p = Processes::default();
        p.map(1, 1, &map(0x5555_0000, 0x5556_0000, 5, "/bin/a"));
        p.map(1, 2, &map(0x5556_0000, 0x5556_1000, 3, "/bin/a"));
        p.map(1, 3, &map(0x5556_1000, 0x5556_2000, 3, "//anon"));
        p.map(1, 4, &map(0x7f00_0000_0000, 0x7f00_0001_0000, 3, "//anon"));
        p.map(1, 5, &map(0x8656_0000, 0x8658_1000, 3, "//anon"));
        p.map(1, 6, &map(0x8670_0000, 0x8671_0000, 3, "//anon"));
        let seen = [0x5556_1000, 0x7f00_0000_0000, 0x8656_0000, 0x8670_0000].map(|a| region(&p, 1, a));
        use Region::{Bss, Heap, Mmap};
        assert_eq!(seen, [Some(Bss), Some(Mmap), Some(Heap), Some(Mmap)], "there is one heap");
    }

    #[test]
    fn stack_growth_is_known_before_its_record_comes() {
        let mut p = Processes::default();
        p.map(1, 1, &map(0x7fff_0000_0000, 0x7fff_0002_1000, 3, "[stack]"));
        assert_eq!(region(&p, 1, 0x7ffe_ffff_8000), Some(Region::Stack));
        assert_eq!(region(&p, 1, 0x7ffe_0000_0000), None);
    }

    #[test]
    fn fork_copies_exec_clears_and_the_last_exit_drops() {
        let mut p = Processes::default();
        p.map(1, 1, &map(0x1000, 0x9000, 3, "//anon"));
        p.fork(2, 1, 5);
        p.map(1, 6, &map(0x2_0000, 0x3_0000, 3, "//anon"));
        assert_eq!(p.mapping(2, 0x1000).unwrap().fork, Some(Fork { time_ns: 5, is_child: true }));
        assert_eq!(p.mapping(1, 0x1000).unwrap().fork, Some(Fork { time_ns: 5, is_child: false }));
        assert_eq!(p.mapping(1, 0x2_0000).unwrap().fork, None, "mapped after the fork");
        assert_eq!(region(&p, 2, 0x2_0000), None);
        p.exec(2);
        assert_eq!(region(&p, 2, 0x1000), None);
        p.fork(1, 1, 7);
        assert!(!p.exit(1) && p.exit(1));
        assert_eq!(region(&p, 1, 0x1000), None);
    }

    #[test]
    fn a_hundred_thousand_blocks_merged_one_by_one_stay_few_pieces() {
        let mut p = Processes::default();
        let top = 0x7f00_0000_0000_u64;
        for i in 1..=100_000_u64 {
            p.map(1, i, &map(top - i * 0x10_0000, top, 3, "//anon"));
        }
        assert!(p.processes[&1].vmas.len() <= 2, "{}", p.processes[&1].vmas.len());
        assert_eq!(p.mapping(1, top - 1).unwrap().mapped_ns, 1);
    }
}
