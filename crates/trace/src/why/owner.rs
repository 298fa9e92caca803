//! The stack of a call -> who decided to make it: an allocator, a runtime, or the program itself.

use crate::program::{ALLOCATORS, OWN};
use crate::recording::Stacks;

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

impl Owner {
    /// The owner that the first telling function from the leaf up names.
    /// `is_static`: the C library is a part of the program.
    pub(crate) fn of(stacks: &Stacks, stack: Option<u32>, is_static: bool) -> Self {
        let Some(stack) = stack else { return Self::Program };
        for frame in stacks.frames_of(stack) {
            let module = stacks.module(frame).map_or("", |module| module.short_name());
            if let Some(name) = ALLOCATORS.iter().find(|name| module.contains(*name)) {
                return Self::Allocator(name, "");
            }
            if module.starts_with("libjvm.") {
                return Self::Java;
            }
            let is_c = module.starts_with("libc.") || module.starts_with("libc-");
            for name in &frame.names {
                let function = name.function.as_str();
                if let Some(prefix) = OWN.iter().find(|prefix| function.starts_with(*prefix)) {
                    return Self::Allocator(allocator(prefix), prefix);
                }
                let known = FUNCTIONS.iter().find(|(begin, _)| function.starts_with(begin));
                if let Some((_, owner)) = known {
                    return *owner;
                }
                if is_malloc(function) {
                    let is_library = is_c || is_static || module.starts_with("ld-musl");
                    return if is_library { Self::Malloc } else { Self::Own };
                }
            }
            if module.starts_with("ld-") {
                return Self::Loader;
            }
            if module.starts_with("python3") || module.starts_with("libpython3") {
                return Self::Interpreter;
            }
            if !is_c && !module.starts_with('[') {
                return Self::Program;
            }
        }
        Self::Program
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

/// The allocator whose functions begin so.
fn allocator(prefix: &str) -> &'static str {
    match prefix {
        "tcmalloc::" => "tcmalloc",
        "mi_" | "_mi_" => "mimalloc",
        "snmalloc::" => "snmalloc",
        _ => "jemalloc",
    }
}
