//! Faults -> the names of the rows that they belong to, alike in two builds of a program.
//!
//! Functions have names; where there are none, a place is its offset in the file where all runs have the same build of it,
//! and the file alone otherwise. A file with the name of the command is `[program]`.

use std::collections::{HashMap, HashSet};

use super::{By, Run};
use crate::profile::Weighted;
use crate::recording::{Frame, Stacks};

/// Files of which a function says nothing about who touched: its caller does.
const RUNTIME_FILES: [&str; 18] = [
    "[kernel]",
    "[vdso]",
    "ld-linux",
    "ld-musl",
    "ld.so",
    "libasan",
    "libc++",
    "libc-",
    "libc.",
    "libfaultless",
    "libgcc_s",
    "libjemalloc",
    "libm.",
    "libmimalloc",
    "libpthread",
    "libstdc++",
    "libtcmalloc",
    "linux-vdso",
];

/// The same by how functions begin, where a library is linked in or inlined.
const RUNTIME_FUNCTIONS: [&str; 25] = [
    "__gnu_cxx::",
    "__libc_",
    "__memcpy",
    "__memmove",
    "__mempcpy",
    "__memset",
    "__rdl_",
    "__rg_",
    "__rust_",
    "_int_malloc",
    "_mm256_",
    "_mm512_",
    "_mm_",
    "alloc::",
    "core::",
    "operator delete",
    "operator new",
    "std::",
    "sysmalloc",
    "void std::",
    "void core::",
    "__GI_",
    "__calloc",
    "__malloc",
    "__realloc",
];

/// Whole names of such functions.
const RUNTIME_NAMES: [&str; 12] = [
    "aligned_alloc",
    "calloc",
    "free",
    "malloc",
    "memalign",
    "memcpy",
    "memmove",
    "memset",
    "mmap",
    "posix_memalign",
    "realloc",
    "strdup",
];

/// What one name belongs to within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Stack(Option<u32>),
    Mapping(u32),
    /// Memory that no recorded allocation gave.
    NoBlock,
}

/// Names of one run.
pub(super) struct Names<'a> {
    run: &'a Run,
    by: By,
    same_files: &'a HashSet<String>,
    program: &'a str,
}

/// Paths of modules that all runs have in the same build, where that is known.
pub(super) fn same_files(runs: &[&Run]) -> HashSet<String> {
    let builds = |run: &Run| -> HashMap<String, Option<String>> {
        run.recording
            .stacks
            .modules
            .iter()
            .map(|module| (module.path.clone(), module.build_id.clone()))
            .collect()
    };
    let all: Vec<_> = runs.iter().map(|run| builds(run)).collect();
    let is_same = |(path, build): &(&String, &Option<String>)| {
        build.is_some() && all.iter().all(|other| other.get(*path).is_none_or(|found| found == *build))
    };
    all.iter().flatten().filter(is_same).map(|(path, _)| path.clone()).collect()
}

impl<'a> Names<'a> {
    pub(super) fn new(run: &'a Run, by: By, same_files: &'a HashSet<String>) -> Self {
        let program = run.recording.header.command.first().map_or("", |path| last(path));
        Self { run, by, same_files, program }
    }

    pub(super) fn key(&self, fault: &Weighted) -> Key {
        match self.by {
            By::Function | By::Stack => Key::Stack(fault.stack),
            By::Mapping => Key::Mapping(fault.mapping),
            By::Alloc => {
                match fault.block.and_then(|block| self.run.profile.blocks.blocks.get(block as usize)) {
                    Some(block) => Key::Stack(block.stack),
                    None => Key::NoBlock,
                }
            }
        }
    }

    pub(super) fn name(&self, fault: &Weighted) -> String {
        let name = match (self.key(fault), self.by) {
            (Key::NoBlock, _) => "[no recorded block]".to_owned(),
            (Key::Mapping(mapping), _) => self.mapping(mapping),
            (Key::Stack(None), _) => "[no stack]".to_owned(),
            (Key::Stack(Some(stack)), By::Stack) => self.stack(stack),
            (Key::Stack(Some(stack)), _) => self.function(stack),
        };
        if name.is_empty() { "[no stack]".to_owned() } else { name }
    }

    fn stacks(&self) -> &'a Stacks {
        &self.run.recording.stacks
    }

    fn mapping(&self, mapping: u32) -> String {
        let name = self.run.profile.mappings.get(mapping as usize).map_or("[unknown]", String::as_str);
        if name.contains('/') && last(name) == self.program {
            "[program]".to_owned()
        } else {
            name.to_owned()
        }
    }

    fn stack(&self, stack: u32) -> String {
        self.stacks().frames_of(stack).flat_map(|frame| self.labels(frame)).collect::<Vec<_>>().join(" <- ")
    }

    /// The innermost function that is of no runtime library, or else the innermost at all.
    fn function(&self, stack: u32) -> String {
        let frames = || self.stacks().frames_of(stack);
        let own =
            frames().filter(|frame| !RUNTIME_FILES.iter().any(|file| self.file(frame).starts_with(file)));
        let mut own = own.flat_map(|frame| self.labels(frame)).filter(|label| !is_runtime(label));
        own.next().or_else(|| frames().flat_map(|frame| self.labels(frame)).next()).unwrap_or_default()
    }

    fn labels(&self, frame: &Frame) -> Vec<String> {
        if frame.names.is_empty() {
            return vec![self.place(frame)];
        }
        frame.names.iter().map(|name| name.function.clone()).collect()
    }

    fn place(&self, frame: &Frame) -> String {
        let module = frame.module.and_then(|module| self.stacks().modules.get(module as usize));
        let Some(module) = module else { return "[unknown]".to_owned() };
        let file = if module.short_name() == self.program { "[program]" } else { module.short_name() };
        match self.same_files.contains(&module.path) {
            true => format!("{file}+{:#x}", frame.address),
            false => format!("[{}]", file.trim_matches(['[', ']'])),
        }
    }

    fn file(&self, frame: &Frame) -> &'a str {
        let module = frame.module.and_then(|module| self.stacks().modules.get(module as usize));
        module.map_or("", |module| module.short_name())
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a function is of a runtime library.
fn is_runtime(function: &str) -> bool {
    // `<u8 as alloc::vec::SpecFromElem>::from_elem` is the library's, `<mine::Page as core::ops::Drop>::drop` is not.
    let library = |path: &str| ["alloc::", "core::", "std::"].iter().any(|name| path.starts_with(name));
    if let Some((of, trait_)) = function.strip_prefix('<').and_then(|rest| rest.split_once(" as ")) {
        return library(trait_) && (library(of) || !of.contains("::"));
    }
    let begins = |prefix: &&str| function.trim_start_matches('<').starts_with(*prefix);
    RUNTIME_FUNCTIONS.iter().any(begins) || RUNTIME_NAMES.contains(&function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libraries_are_told_from_the_programs_own() {
        for library in [
            "__memset_avx2_unaligned_erms",
            "core::ptr::write_bytes",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "std::vector<int, std::allocator<int> >::resize(unsigned long)",
            "malloc",
        ] {
            assert!(is_runtime(library), "{library}");
        }
        for own in
            ["main", "mallocate", "<mine::Page as core::ops::drop::Drop>::drop", "fill(std::vector<int>&)"]
        {
            assert!(!is_runtime(own), "{own}");
        }
    }
}
