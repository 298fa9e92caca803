//! A recording -> facts of the program that decide which cures can act in it.
//!
//! The heaps of the program tell ([`crate::heaps`]). Of a recording without them, as one of perf's, a library's file name
//! tells its allocator, and the names of functions on recorded stacks tell an allocator that is linked into the program,
//! or a runtime with a heap of its own.

use std::collections::{HashMap, HashSet};

use crate::heaps::{ALLOCATORS, Heap};
use crate::observation::{Observation, SourceNote, What};
use crate::recording::{Mark, Recording, Stacks};

/// Beginnings of the names of functions of an allocator that may be linked into a program.
const OWN: [(&str, &str); 6] = [
    ("_rjem_", "jemalloc"),
    ("je_", "jemalloc"),
    ("tcmalloc::", "tcmalloc"),
    ("mi_", "mimalloc"),
    ("_mi_", "mimalloc"),
    ("snmalloc::", "snmalloc"),
];
/// In the names of jemalloc's functions, whatever prefix it was built with: `duckdb_je_extent_dalloc_wrapper`.
const PREFIXED: &str = "_je_";
/// Functions of Go below every stack.
const GO: [&str; 4] = ["runtime.main", "runtime.goexit", "runtime.mstart", "runtime.mcall"];
/// Part of the file name of a C library whose malloc has no settings.
const MUSL: &str = "ld-musl";
/// Beginnings of the file names of the C library, and of the allocation recorder.
const C_LIBRARY: [&str; 6] = ["ld-", "ld.so", "libc.so", "libc-", "ld-musl", "libfaultless"];

/// Who gives memory to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// The malloc of glibc.
    #[default]
    Malloc,
    /// The malloc of a library: the interposer stands before it, and settings of glibc do not act.
    Library(&'static str),
    /// A malloc inside the program: nothing stands before it.
    Own,
    /// The C library in a program that loads nothing.
    Static,
    /// Go's runtime.
    Go,
    /// A Java machine's heap.
    Java,
}

/// What the rules of cures need to know of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Who gives it memory.
    pub memory: Memory,
}

impl Program {
    /// `has_blocks`: the interposer recorded some, so it was loaded.
    pub(crate) fn new(recording: &Recording, heaps: &[Heap], has_blocks: bool) -> Self {
        Self { memory: of_heaps(heaps).unwrap_or_else(|| Self::by_names(recording, has_blocks)) }
    }

    fn by_names(recording: &Recording, has_blocks: bool) -> Memory {
        let (mut has_file, mut has_loader, mut library, mut is_java) = (false, false, None, false);
        for record in &recording.observation.records {
            if let What::Map(map) = &record.what {
                let file = file_of(&map.name);
                has_file |= map.name.starts_with('/');
                has_loader |= C_LIBRARY.iter().any(|begin| file.starts_with(begin));
                is_java |= file.starts_with("libjvm.");
                let mut libraries = ALLOCATORS.into_iter().chain([MUSL]);
                library = library.or(libraries.find(|name| file.contains(name)));
            }
        }
        match (on_stacks(&recording.stacks), library) {
            _ if is_java => Memory::Java,
            (Some(Memory::Go), _) => Memory::Go,
            _ if has_file && !has_loader && !has_blocks => Memory::Static,
            (_, Some(library)) => Memory::Library(library),
            (Some(own), _) => own,
            (None, None) => Memory::Malloc,
        }
    }
}

/// Who gives memory to the program that faults most, unless it is the C library: of that, functions on stacks may know
/// better.
fn of_heaps(heaps: &[Heap]) -> Option<Memory> {
    let program = &heaps.first()?.program;
    let mut own = heaps.iter().filter(|heap| heap.program == *program);
    own.find_map(|heap| match (heap.name.as_str(), heap.hidden.is_some()) {
        ("Go", _) => Some(Memory::Go),
        ("Java", _) => Some(Memory::Java),
        (name, true) if name == Mark::OWN || ALLOCATORS.contains(&name) => Some(Memory::Own),
        ("glibc" | "musl" | Mark::STATIC, true) => Some(Memory::Static),
        (name, false) if heap.detail.is_none() => {
            ALLOCATORS.iter().find(|known| **known == name).map(|known| Memory::Library(known))
        }
        _ => None,
    })
}

/// The allocator that a function belongs to, if it may be linked into a program, and the beginning of its name.
pub(crate) fn own_allocator(function: &str) -> Option<(&'static str, &'static str)> {
    let begins = OWN.iter().find(|(begin, _)| function.starts_with(begin));
    let known = begins.map(|&(begin, name)| (name, begin));
    known.or_else(|| function.contains(PREFIXED).then_some(("jemalloc", PREFIXED)))
}

fn file_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The runtime or the allocator inside the program whose functions lie on its stacks.
fn on_stacks(stacks: &Stacks) -> Option<Memory> {
    let mut own = None;
    for frame in &stacks.frames {
        let file =
            frame.module.and_then(|module| stacks.modules.get(module as usize)).map(|module| &*module.path);
        let file = file_of(file.unwrap_or_default());
        for name in &frame.names {
            let is_own = own_allocator(&name.function).is_some()
                || name.function == "malloc" && !C_LIBRARY.iter().any(|begin| file.starts_with(begin));
            if GO.contains(&name.function.as_str()) {
                return Some(Memory::Go);
            }
            own = own.or(is_own.then_some(Memory::Own));
        }
    }
    own
}

/// A program that a process ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The files that it mapped: its own first, or its interpreter's if it is a script; then libraries in the order of
    /// their loading. None if the kernel showed none, as of a set-user-ID program to a user.
    pub files: Vec<String>,
    /// Faults that were recorded in it.
    pub faults: u64,
}

/// The programs of an observation, in the order of their starts; none if mappings may be missing. A forked child that
/// goes on in its parent's program is no other one.
pub fn images(observation: &Observation) -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    let mut running: HashMap<u32, usize> = HashMap::new();
    if !has_all_mappings(observation) {
        return images;
    }
    for record in &observation.records {
        match &record.what {
            What::Fork { .. } if record.begins_process() => _ = running.remove(&record.pid),
            What::Exec => {
                running.insert(record.pid, images.len());
                images.push(Image::default());
            }
            What::Enter { .. } | What::Sample { .. } => {
                if let Some(image) = running.get(&record.pid).and_then(|&at| images.get_mut(at)) {
                    image.faults += if let What::Sample { weight, .. } = record.what { weight } else { 1 };
                }
            }
            What::Map(map) if map.name.starts_with('/') && !map.name.starts_with("//") => {
                let image = running.get(&record.pid).and_then(|&at| images.get_mut(at));
                if let Some(image) = image.filter(|image| !image.files.contains(&map.name)) {
                    image.files.push(map.name.clone());
                }
            }
            _ => {}
        }
    }
    images
}

/// Whether most of the faults that were recorded are those of processes that switched huge pages off at some time.
pub fn has_no_huge_pages(observation: &Observation) -> bool {
    let records = || observation.records.iter();
    let off: HashSet<u32> = records()
        .filter(|record| matches!(record.what, What::NoHugePages))
        .map(|record| record.pid)
        .collect();
    let (mut all, mut without) = (0, 0);
    for record in records().filter(|_| !off.is_empty()) {
        let faults = match record.what {
            What::Enter { .. } => 1,
            What::Sample { weight, .. } => weight,
            _ => 0,
        };
        all += faults;
        without += if off.contains(&record.pid) { faults } else { 0 };
    }
    2 * without > all
}

/// Whether no record of a mapping or a process was lost or left out.
fn has_all_mappings(observation: &Observation) -> bool {
    let is_whole = match &observation.event_losses {
        Some(losses) => losses.iter().all(|event| event.event != "tasks" || event.lost == 0),
        None => observation.windows.iter().all(|window| window.lost == 0),
    };
    is_whole && observation.sources.iter().all(|source| source.source != SourceNote::LEFT_OUT)
}

/// Forks whose child runs another program: the copies between could be spared.
#[derive(Debug, Default)]
pub(crate) struct Spawns {
    /// Of each parent, in the order of time: when, and the child.
    forks: HashMap<u32, Vec<(u64, u32)>>,
    /// When a forked child ran another program.
    execs: HashMap<u32, u64>,
}

impl Spawns {
    pub(crate) fn new(observation: &Observation) -> Self {
        let mut forked = HashSet::new();
        let mut spawns = Self::default();
        for record in &observation.records {
            match record.what {
                What::Fork { parent } if parent != record.pid => {
                    spawns.forks.entry(parent).or_default().push((record.time_ns, record.pid));
                    forked.insert(record.pid);
                }
                What::Exec if forked.contains(&record.pid) => {
                    spawns.execs.entry(record.pid).or_insert(record.time_ns);
                }
                _ => {}
            }
        }
        spawns
    }

    /// Whether a copy in this process was for such a child: in the child before its exec, or in the parent after its
    /// last fork. The parent's pages stay write-protected beyond the exec.
    pub(crate) fn cover(&self, pid: u32, time_ns: u64) -> bool {
        let last = || {
            let forks = self.forks.get(&pid)?;
            let before = forks.partition_point(|(fork_ns, _)| *fork_ns <= time_ns);
            Some(forks[before.checked_sub(1)?].1)
        };
        self.execs.get(&pid).is_some_and(|exec_ns| time_ns <= *exec_ns)
            || last().is_some_and(|child| self.execs.contains_key(&child))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{EventLoss, Map, Record};
    use crate::recording::{Frame, Module, Name};

    fn memory(maps: &[&str], frames: &[(&str, &str)]) -> Memory {
        let map = |name: &&str| What::Map(Map { name: (*name).to_owned(), ..Map::default() });
        let record = |what| Record { time_ns: 0, pid: 1, tid: 1, what };
        let mut recording = Recording::default();
        recording.observation.records = maps.iter().map(|name| record(map(name))).collect();
        for (at, (path, function)) in frames.iter().enumerate() {
            recording.stacks.modules.push(Module { path: (*path).to_owned(), ..Module::default() });
            let name = Name { function: (*function).to_owned(), ..Name::default() };
            let module = Some(at as u32);
            recording.stacks.frames.push(Frame { module, names: vec![name], ..Frame::default() });
        }
        Program::new(&recording, &[], false).memory
    }

    #[test]
    fn libraries_and_functions_tell_who_gives_memory() {
        const LOADER: &str = "/lib/ld-linux-x86-64.so.2";
        assert_eq!(memory(&["/bin/x", "//anon"], &[]), Memory::Static);
        assert_eq!(memory(&["/bin/x", LOADER], &[("/lib/libc.so.6", "malloc")]), Memory::Malloc);
        assert_eq!(memory(&["/bin/x", LOADER, "/opt/libjemalloc.so.2"], &[]), Memory::Library("jemalloc"));
        assert_eq!(memory(&[LOADER, "/opt/libjemalloc.so.2", "/jdk/libjvm.so"], &[]), Memory::Java);
        for own in ["malloc", "_rjem_je_arena_boot", "tcmalloc::PageHeap::GrowHeap(unsigned long)"] {
            assert_eq!(memory(&["/bin/x", LOADER], &[("/bin/x", own)]), Memory::Own, "{own}");
        }
        assert_eq!(memory(&["/bin/x"], &[("/bin/x", "runtime.goexit")]), Memory::Go);
    }

    #[test]
    fn each_start_of_a_program_is_an_image_with_the_files_that_it_mapped() {
        let map = |name: &str| What::Map(Map { name: name.to_owned(), ..Map::default() });
        let records = [
            (1, What::Exec),
            (1, map("/bin/dash")),
            (1, map("//anon")),
            (1, map("[stack]")),
            (1, map("/lib/libc.so.6")),
            (1, map("/lib/libc.so.6")),
            (2, What::Fork { parent: 1 }),
            (2, map("/opt/plugin.so")), // still in the parent's program
            (2, What::Exec),
            (2, What::Enter { addr: 0, ip: 0, kernel: false, access: None, mapped_bytes: None }),
            (1, What::Fork { parent: 1 }), // a thread
            (1, map("/opt/late.so")),
        ];
        let record = |(pid, what)| Record { time_ns: 0, pid, tid: pid, what };
        let records = records.into_iter().map(record).collect();
        let seen = Observation { records, ..Observation::default() };
        let image = |files: &[&str], faults| Image {
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            faults,
        };
        let all = [image(&["/bin/dash", "/lib/libc.so.6", "/opt/late.so"], 0), image(&[], 1)];
        assert_eq!(images(&seen), all);

        let lost = |event: &str| Some(vec![EventLoss { event: event.to_owned(), cpu: 0, lost: 1 }]);
        let with = |event_losses| Observation { event_losses, ..seen.clone() };
        assert_eq!((images(&with(lost("entry"))), images(&with(lost("tasks")))), (all.to_vec(), vec![]));
        let note = SourceNote { source: SourceNote::LEFT_OUT.into(), used: true, note: String::new() };
        assert_eq!(images(&Observation { sources: vec![note], ..seen }), []);
    }

    #[test]
    fn copies_are_for_a_program_only_around_the_fork_of_a_child_that_runs_one() {
        let fork = What::Fork { parent: 1 };
        let records = [(5, 2, fork.clone()), (7, 3, fork.clone()), (9, 3, What::Exec), (20, 4, fork)];
        let record = |(time_ns, pid, what)| Record { time_ns, pid, tid: pid, what };
        let records = records.into_iter().map(record).collect();
        let spawns = Spawns::new(&Observation { records, ..Observation::default() });
        assert!(spawns.cover(1, 8) && spawns.cover(3, 8) && spawns.cover(1, 10));
        assert!(!spawns.cover(1, 6) && !spawns.cover(2, 8) && !spawns.cover(1, 21) && !spawns.cover(3, 10));
    }
}
