//! Names of code addresses.
//!
//! In: addresses in files, in the kernel, in generated code. Out: the functions there, with file and line if
//! debug information has them.
//!
//! It does not find the file that an address lies in (`unwind`).

mod cache;
pub mod debug_files;
mod debug_info;
mod functions;
pub(crate) mod jit;
pub(crate) mod map_files;
mod recorded;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use faultless_trace::observation::SourceNote;
use faultless_trace::recording::Name;

pub(crate) use cache::NameCache;
pub(crate) use debug_info::demangled;
pub(crate) use functions::Symbols;
pub use map_files::Runtimes;
pub use recorded::name_recording;

use crate::elf::{Elf, ElfImage};
use crate::tuning as t;
use jit::JitMap;

/// The module of the kernel's functions.
pub(crate) const KERNEL: &str = "[kernel]";
/// Why the kernel's functions have no names, and what would change that.
pub(crate) const HIDDEN: &str =
    "/proc/kallsyms hides addresses; set kernel.kptr_restrict to 0 or 1 and run as root";

/// ModuleFrames in one module.
pub(crate) struct ModuleFrames<'a> {
    pub(crate) wanted: NameSource<'a>,
    /// Numbers of the frames, and their addresses.
    pub(crate) frames: Vec<(u32, u64)>,
}

/// Where their names come from.
pub(crate) enum NameSource<'a> {
    /// An ELF file; addresses are offsets in it.
    Elf(&'a Elf, ElfImage<'a>),
    /// The running kernel.
    Kernel,
    /// Tables of generated code; the first that knows the address wins.
    Jit([Option<&'a JitMap>; 2]),
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    /// The names of all addresses that have any: number of the frame, and its functions.
    pub(crate) names: Vec<(u32, Vec<Name>)>,
    /// Sources that could not be read, and why.
    pub(crate) unreadable: Vec<SourceNote>,
}

/// Looks up names, first in `cache`, and adds new ones to it. Uses several threads if that pays.
pub(crate) fn find(modules: Vec<ModuleFrames<'_>>, cache: Option<&NameCache>) -> Lookup {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Lookup::default());
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let work = || {
        while let Some(frames) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Lookup { mut names, unreadable } = of_module(frames, cache);
            names.retain(|(_, names)| !names.is_empty());
            let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            found.names.extend(names);
            found.unreadable.extend(unreadable);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(t::NAMING_THREADS_MAX).min(modules.len()) {
            scope.spawn(work);
        }
        work();
    });
    cache.iter().for_each(|cache| cache.trim());
    found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn of_module(module: &ModuleFrames<'_>, cache: Option<&NameCache>) -> Lookup {
    match &module.wanted {
        NameSource::Kernel => of_kernel(module, cache),
        NameSource::Jit(maps) => {
            let find = |address| maps.iter().flatten().find_map(|map| map.find(address));
            let names = module.frames.iter();
            let names =
                names.map(|&(frame, address)| (frame, find(address).map(generated).into_iter().collect()));
            Lookup { names: names.collect(), unreadable: Vec::new() }
        }
        NameSource::Elf(elf, ElfImage::Memory(bytes)) => {
            let symbols = Symbols::of_image(bytes);
            by_address(module, |offset| symbols.as_ref()?.find(elf.address(offset)?))
        }
        NameSource::Elf(elf, ElfImage::File(path)) => {
            let known =
                module.frames.iter().filter_map(|&(frame, offset)| Some((frame, elf.address(offset)?)));
            of_file(elf, path, known.collect(), cache)
        }
    }
}

fn of_file(elf: &Elf, path: &Path, frames: Vec<(u32, u64)>, cache: Option<&NameCache>) -> Lookup {
    let cache = cache.and_then(|cache| Some((cache, debug_info::key(elf, path)?)));
    let mut known = cache.as_ref().map(|(cache, key)| cache.names(key)).unwrap_or_default();
    let new: BTreeSet<u64> = frames.iter().map(|&(_, address)| address).collect();
    let new: Vec<u64> = new.into_iter().filter(|address| !known.contains_key(address)).collect();
    let mut unreadable = Vec::new();
    if !new.is_empty() {
        let (names, notes) = debug_info::names(elf, path, &new);
        known.extend(new.into_iter().zip(names));
        unreadable = notes;
        // An unreadable file may be readable next time.
        if let Some((cache, key)) = cache.filter(|_| unreadable.is_empty()) {
            cache.keep(&key, &known);
        }
    }
    let names =
        frames.into_iter().map(|(frame, address)| (frame, known.get(&address).cloned().unwrap_or_default()));
    Lookup { names: names.collect(), unreadable }
}

fn of_kernel(module: &ModuleFrames<'_>, cache: Option<&NameCache>) -> Lookup {
    let lasting = cache.and_then(NameCache::kernel);
    let is_all = |symbols: &&Symbols| module.frames.iter().all(|&(_, address)| symbols.covers(address));
    if let Some(symbols) = lasting.as_ref().filter(is_all) {
        return by_address(module, |address| symbols.find(address));
    }
    let Some(symbols) = Symbols::of_kernel() else {
        return Lookup {
            unreadable: vec![unreadable("the kernel's functions", HIDDEN)],
            ..Lookup::default()
        };
    };
    if let Some(cache) = cache.filter(|_| lasting.is_none()) {
        cache.keep_kernel(symbols);
    }
    by_address(module, |address| symbols.find(address))
}

fn by_address(module: &ModuleFrames<'_>, find: impl Fn(u64) -> Option<String>) -> Lookup {
    let name = |function| Name { function, ..Name::default() };
    let names =
        module.frames.iter().map(|&(frame, address)| (frame, find(address).map(name).into_iter().collect()));
    Lookup { names: names.collect(), unreadable: Vec::new() }
}

/// A function of generated code. Python's trampolines are called `py::FUNCTION:FILE`.
fn generated(name: &str) -> Name {
    let python = name.strip_prefix("py::").and_then(|name| name.split_once(':'));
    match python {
        Some((function, file)) => {
            Name { function: format!("py::{function}"), file: Some(file.to_owned()), line: None }
        }
        None => Name { function: name.to_owned(), ..Name::default() },
    }
}

/// A note that names from `source` are missing because of `why`.
fn unreadable(source: &str, why: &str) -> SourceNote {
    SourceNote { source: format!("names from {source}"), used: false, note: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_or_whose_debug_file_was_has_another_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, "one").unwrap();
        let (mut elf, _) = Elf::of_file(&std::fs::File::open("/proc/self/exe").unwrap(), false).unwrap();
        (elf.build_id, elf.debug_link) = (Some("abcdef0123456789".into()), Some("program.debug".into()));
        let mut keys = vec![debug_info::key(&elf, &path).unwrap()];
        std::fs::write(&path, "three").unwrap();
        keys.push(debug_info::key(&elf, &path).unwrap());
        std::fs::create_dir(folder.path().join(".debug")).unwrap();
        std::fs::write(folder.path().join(".debug/program.debug"), "debug").unwrap();
        keys.push(debug_info::key(&elf, &path).unwrap());
        std::fs::write(folder.path().join("program.dwp"), "package").unwrap();
        keys.push(debug_info::key(&elf, &path).unwrap());
        assert_eq!(debug_info::key(&elf, &path).as_ref(), keys.last(), "it stays");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 4);
        assert_eq!(debug_info::key(&Elf::default(), &path), None, "without a build id");
    }
}
