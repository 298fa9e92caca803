//! Names of places in code.
//!
//! In: places in files, in the kernel, in generated code. Out: the functions there, with file and line where debug
//! information tells them.
//!
//! What it does not do: find out in which file an address lies (`unwind`).

mod elf;
mod functions;
pub(crate) mod jit;
mod recorded;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use faultless_trace::recording::Name;

pub(crate) use elf::demangled;
pub(crate) use functions::Symbols;
pub use recorded::name_recording;

use crate::tuning as t;
use crate::unwind::{Elf, Named};
use jit::JitMap;

/// Places in one module.
pub(crate) struct Places<'a> {
    pub(crate) wanted: Wanted<'a>,
    /// Numbers of the frames, and their addresses.
    pub(crate) frames: Vec<(u32, u64)>,
}

/// Where their names are to come from.
pub(crate) enum Wanted<'a> {
    /// An ELF file; addresses are offsets in it.
    Elf(&'a Elf, Named<'a>),
    /// The running kernel.
    Kernel,
    /// Tables of generated code, the first that knows the address.
    Jit([Option<&'a JitMap>; 2]),
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The names of all places that have any: number of the frame, and what lies there.
    pub(crate) names: Vec<(u32, Vec<Name>)>,
    /// Files that could not be read, and why.
    pub(crate) notes: Vec<String>,
}

/// Looks up names, with more than one thread where that is worth it.
pub(crate) fn find(places: Vec<Places<'_>>) -> Found {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Found::default());
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let work = || {
        while let Some(places) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Found { mut names, notes } = of_module(places);
            names.retain(|(_, names)| !names.is_empty());
            let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            found.names.extend(names);
            found.notes.extend(notes);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(t::NAMING_THREADS_MAX).min(places.len()) {
            scope.spawn(work);
        }
        work();
    });
    found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn of_module(places: &Places<'_>) -> Found {
    match &places.wanted {
        Wanted::Kernel => {
            let symbols = Symbols::of_kernel();
            by_address(places, |address| symbols.as_ref()?.find(address))
        }
        Wanted::Jit(maps) => {
            by_address(places, |address| maps.iter().flatten().find_map(|map| map.find(address)))
        }
        Wanted::Elf(elf, Named::Memory(bytes)) => {
            let symbols = Symbols::of_image(bytes);
            by_address(places, |offset| symbols.as_ref()?.find(elf.address(offset)?))
        }
        Wanted::Elf(elf, Named::File(path)) => {
            let known =
                places.frames.iter().filter_map(|&(frame, offset)| Some((frame, elf.address(offset)?)));
            let (frames, addresses): (Vec<u32>, Vec<u64>) = known.unzip();
            let (names, notes) = elf::names(elf, path, &addresses);
            Found { names: frames.into_iter().zip(names).collect(), notes }
        }
    }
}

fn by_address<'a>(places: &Places<'_>, find: impl Fn(u64) -> Option<&'a str>) -> Found {
    let name = |function: &str| Name { function: function.to_owned(), ..Name::default() };
    let names =
        places.frames.iter().map(|&(frame, address)| (frame, find(address).map(name).into_iter().collect()));
    Found { names: names.collect(), notes: Vec::new() }
}
