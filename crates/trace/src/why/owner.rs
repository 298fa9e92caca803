//! The stack of a call -> who decided to make it: an allocator, a runtime, or the program itself.

use std::collections::HashMap;

use crate::heaps::ALLOCATORS;
use crate::observation::{Record, What};
use crate::program::own_allocator;
use crate::recording::{Recording, Stacks};

/// Who made a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The program, or a library that maps for itself.
    #[default]
    Program,
    /// CPython, by a function that has no telling name.
    Interpreter,
    /// The malloc of the C library.
    Malloc,
    /// A malloc that the program defines itself.
    Own,
    /// An allocator in a library or in the program: its name, and the prefix of its functions.
    Allocator(&'static str, &'static str),
    /// Go's runtime.
    Go,
    /// A Java machine.
    Java,
    /// V8, of Node and others.
    V8,
    /// The garbage collector of .NET.
    DotNet,
    /// CPython's small-object allocator.
    Python,
    /// The end or the start of a thread.
    Thread,
    /// The dynamic loader.
    Loader,
}

/// Beginnings of functions, and their owner.
const FUNCTIONS: [(&str, Owner); 12] = [
    ("runtime.", Owner::Go),
    ("v8::", Owner::V8),
    ("_PyObject_Arena", Owner::Python),
    ("_PyMem_Arena", Owner::Python),
    ("start_thread", Owner::Thread),
    ("pthread_create", Owner::Thread),
    ("allocate_stack", Owner::Thread),
    ("__nptl_", Owner::Thread),
    ("advise_stack_range", Owner::Thread),
    ("_dl_", Owner::Loader),
    ("dlopen", Owner::Loader),
    ("dlclose", Owner::Loader),
];
/// Lengths of CPython's arenas, bytes: until 3.9, and since (Include/internal/pycore_obmalloc.h).
const PYTHON_ARENAS: [u64; 2] = [256 << 10, 1 << 20];
/// Functions of malloc in the C library, without underscores and prefixes.
const MALLOC: [&str; 16] = [
    "malloc",
    "free",
    "cfree",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "malloc_trim",
    "int_free",
    "int_malloc",
    "int_realloc",
    "systrim",
    "sysmalloc",
    "munmap_chunk",
    "heap_trim",
];

/// The files that hold an allocator, whose functions may have no names.
pub(crate) struct Marked<'a> {
    stacks: &'a Stacks,
    files: HashMap<&'a str, Owner>,
    /// The C library is a part of the program.
    is_static: bool,
}

impl<'a> Marked<'a> {
    pub(crate) fn new(recording: &'a Recording) -> Self {
        let loads = |record: &Record| matches!(&record.what, What::Map(map) if map.name.contains("/ld-"));
        let is_static = !recording.observation.records.iter().any(loads);
        let marks = recording.footer.iter().flat_map(|footer| &footer.marks);
        let owner = |name: &str| match name {
            "Go" => Some(Owner::Go),
            name => {
                ALLOCATORS.into_iter().find(|known| *known == name).map(|known| Owner::Allocator(known, ""))
            }
        };
        let files = marks.filter_map(|mark| Some((mark.file.as_str(), owner(&mark.name)?))).collect();
        Self { stacks: &recording.stacks, files, is_static }
    }

    /// The owner that the first telling function from the leaf up names.
    pub(crate) fn owner(&self, stack: Option<u32>) -> Owner {
        let Some(stack) = stack else { return Owner::Program };
        for frame in self.stacks.frames_of(stack) {
            let module = self.stacks.module(frame);
            let file = module.map_or("", |module| module.short_name());
            if let Some(name) = ALLOCATORS.iter().find(|name| file.contains(*name)) {
                return Owner::Allocator(name, "");
            }
            if file.starts_with("libjvm.") {
                return Owner::Java;
            }
            if file.starts_with("libcoreclr.") || file.starts_with("libclrgc") {
                return Owner::DotNet;
            }
            let is_c = file.starts_with("libc.") || file.starts_with("libc-");
            for name in &frame.names {
                let function = name.function.as_str();
                if let Some((allocator, prefix)) = own_allocator(function) {
                    return Owner::Allocator(allocator, prefix);
                }
                let known = FUNCTIONS.iter().find(|(begin, _)| function.starts_with(begin));
                if let Some((_, owner)) = known {
                    return *owner;
                }
                if is_malloc(function) {
                    let is_library = is_c || self.is_static || file.starts_with("ld-musl");
                    return if is_library { Owner::Malloc } else { Owner::Own };
                }
            }
            let marked = module.and_then(|module| self.files.get(&*module.path));
            if let Some(owner) = marked.filter(|_| frame.names.is_empty()) {
                return *owner;
            }
            if file.starts_with("ld-") {
                return Owner::Loader;
            }
            if file.starts_with("python3") || file.starts_with("libpython3") {
                return Owner::Interpreter;
            }
            if !is_c && !file.starts_with('[') {
                return Owner::Program;
            }
        }
        Owner::Program
    }
}

impl Owner {
    /// CPython's arenas have one of two lengths, whatever its functions are called.
    pub(super) fn or_python(self, len_bytes: u64) -> Self {
        match self {
            Self::Interpreter if PYTHON_ARENAS.contains(&len_bytes) => Self::Python,
            Self::Interpreter => Self::Program,
            owner => owner,
        }
    }
}

/// Whether it is a function of the C library's malloc.
pub(super) fn is_malloc(function: &str) -> bool {
    MALLOC.contains(&super::bare(function))
}
