//! Stacks -> the function to name for each: the first from the leaf up that is the program's own.
//!
//! A fault in `memset` belongs to its caller, so helpers at the leaf are skipped. By module: the C library,
//! the loader, allocators and the kernel. By name, as they may be linked statically or inlined: the memset,
//! memcpy and malloc families, and the standard libraries of C++ and Rust. The source file identifies a
//! library function whose name has no namespace. If nothing else is on the stack, the leaf is named.

use super::{Frame, Name, Stacks};

/// Beginnings of the file names of runtime modules.
const MODULES: [&str; 19] = [
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
    "preload-",
];
/// Beginnings of names in the standard libraries of C++ and Rust, and of compiler intrinsics.
const LIBRARIES: [&str; 14] = [
    "std::",
    "void std::",
    "__gnu_cxx::",
    "core::",
    "void core::",
    "alloc::",
    "operator new",
    "operator delete",
    "__rust_",
    "__rdl_",
    "__rg_",
    "_mm_",
    "_mm256_",
    "_mm512_",
];
/// Parts of the paths of their source files, as their releases and distributions have them.
const SOURCES: [&str; 5] =
    ["/library/core/src/", "/library/alloc/src/", "/library/std/src/", "/rust/deps/", "/include/c++/"];
/// Functions of the C library that touch or get memory for others, without leading underscores.
const HELPERS: [&str; 27] = [
    "memset",
    "memcpy",
    "memmove",
    "mempcpy",
    "bzero",
    "explicit_bzero",
    "bcopy",
    "strcpy",
    "strdup",
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "int_malloc",
    "int_free",
    "int_realloc",
    "int_memalign",
    "sysmalloc",
    "mmap",
    "mremap",
    "sbrk",
];
/// Ends of the names of functions that wrap malloc, in lower case.
const ALLOCATOR_ENDS: [&str; 7] =
    ["malloc", "calloc", "realloc", "memalign", "strdup", "strndup", "reallocarray"];
/// Other functions that get memory for their callers: of CPython, NumPy, gcc, glib, PostgreSQL, V8.
const ALLOCATORS: [&str; 24] = [
    "PyDataMem_UserNEW",
    "PyDataMem_UserNEW_ZEROED",
    "PyDataMem_NEW",
    "npy_alloc_cache",
    "npy_alloc_cache_zero",
    "_npy_alloc_cache",
    "allocate_from_new_pool",
    "pymalloc_alloc",
    "pymalloc_pool_extend",
    "_PyObject_GC_New",
    "new_arena",
    "_PyMem_ArenaAlloc",
    "_PyObject_ArenaMmap",
    "ggc_internal_alloc",
    "alloc_page",
    "g_slice_alloc",
    "g_slice_alloc0",
    "x2realloc",
    "x2nrealloc",
    "xnmalloc",
    "palloc",
    "palloc0",
    "AllocSetAlloc",
    "MemoryContextAlloc",
];
/// Prefixes and suffixes of such names.
const BEFORE: [&str; 7] = ["libc_", "GI_", "mi_", "je_", "tc_", "faultless_", "dso_"];
const AFTER: [&str; 12] =
    ["avx", "sse", "ssse3", "evex", "erms", "unaligned", "generic", "zva", "chk", "aarch64", "ifunc", "impl"];

/// The function to be named for each stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touching {
    /// By stack: the frame, and the index of its name.
    found: Vec<Option<(u32, u32)>>,
}

impl Touching {
    /// Finds it for all stacks.
    pub(crate) fn new(stacks: &Stacks) -> Self {
        Self { found: (0..stacks.stacks.len() as u32).map(|stack| find(stacks, stack)).collect() }
    }

    /// Its frame.
    pub(crate) fn frame(&self, stack: u32) -> Option<u32> {
        self.function(stack).map(|(frame, _)| frame)
    }

    /// The frame and the index of the inlined function, by stack.
    pub(crate) fn function(&self, stack: u32) -> Option<(u32, u32)> {
        self.found.get(stack as usize).copied().flatten()
    }
}

fn find(stacks: &Stacks, stack: u32) -> Option<(u32, u32)> {
    if let Some(function) = python(stacks, stack) {
        return Some(function);
    }
    let in_kernel =
        |frame: &Frame| stacks.module(frame).is_some_and(|module| module.short_name() == "[kernel]");
    let leaf = || known(stacks, stack).find(|(_, frame)| !in_kernel(frame));
    own(stacks, stack)
        .next()
        .or_else(|| leaf().or_else(|| known(stacks, stack).next()).map(|(number, _)| (number, 0)))
}

/// The innermost function of Python, if the interpreter named its functions: what it calls in C touches for
/// it. How Python imports modules is no function of the program.
fn python(stacks: &Stacks, stack: u32) -> Option<(u32, u32)> {
    let named = |(number, frame): (u32, &Frame)| {
        let name = frame.names.iter().position(|name| is_python(name) && !is_import(name))?;
        Some((number, name as u32))
    };
    known(stacks, stack).find_map(named)
}

/// A function that a trampoline of CPython names.
pub(crate) fn is_python(name: &Name) -> bool {
    name.function.starts_with("py::")
}

/// The frozen modules with which Python imports others.
pub(crate) fn is_import(name: &Name) -> bool {
    is_python(name) && name.file.as_deref().is_some_and(|file| file.starts_with("<frozen importlib"))
}

/// The program's own functions on a stack, leaf first: frame and index of the inlined function. An unnamed
/// place counts as one.
pub(crate) fn own(stacks: &Stacks, stack: u32) -> impl Iterator<Item = (u32, u32)> {
    known(stacks, stack).filter(|(_, frame)| !is_foreign(stacks, frame)).flat_map(|(number, frame)| {
        let unnamed = frame.names.is_empty().then_some(0);
        let named = frame.names.iter().enumerate().filter(|(_, name)| !is_helper(name));
        unnamed.into_iter().chain(named.map(|(name, _)| name)).map(move |name| (number, name as u32))
    })
}

fn known(stacks: &Stacks, stack: u32) -> impl Iterator<Item = (u32, &Frame)> {
    let frames = stacks.stacks.get(stack as usize).map_or(&[][..], Vec::as_slice);
    frames.iter().filter_map(|&number| Some((number, stacks.frames.get(number as usize)?)))
}

fn is_foreign(stacks: &Stacks, frame: &Frame) -> bool {
    stacks.module(frame).is_some_and(|module| is_runtime(module.short_name()))
}

/// Whether a module with this file name is a runtime library: the C library, the loader, an allocator, or the
/// kernel. Sites skip it, so they never show its lines.
pub fn is_runtime(file_name: &str) -> bool {
    MODULES.iter().any(|begin| file_name.starts_with(begin))
}

fn is_helper(name: &Name) -> bool {
    is_of_library(name) || memory_function(&name.function).is_some() || is_allocator(&name.function)
}

/// Whether a function is of the standard library of C++ or Rust: its name or its source file tells.
pub(crate) fn is_of_library(name: &Name) -> bool {
    let file = name.file.as_deref().unwrap_or_default();
    is_library(&name.function) || SOURCES.iter().any(|part| file.contains(part))
}

/// Whether a function gets memory for whoever calls it: `xmalloc`, `g_malloc0_n`, `_PyObject_Malloc`,
/// `operator new`. C names only: a method called `Pool::malloc` is a design of the program.
pub(crate) fn is_allocator(function: &str) -> bool {
    let bare = function.split(['@', '.']).next().unwrap_or(function);
    if ALLOCATORS.contains(&bare) || bare.starts_with("operator new") {
        return true;
    }
    let lower = bare.to_ascii_lowercase();
    let stem = lower.strip_suffix("_n").unwrap_or(&lower);
    let stem = stem.strip_suffix("_aligned").unwrap_or(stem).trim_end_matches('0');
    let is_c = bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_c && ALLOCATOR_ENDS.iter().any(|end| stem.ends_with(end))
}

/// `<u8 as alloc::vec::SpecFromElem>::from_elem` is the library's, `<mine::Page as core::ops::Drop>::drop` is not.
fn is_library(function: &str) -> bool {
    let begins = |path: &str| LIBRARIES.iter().any(|begin| path.starts_with(begin));
    let path = function.trim_start_matches('<');
    match path.split_once(" as ").filter(|_| path != function) {
        Some((of, trait_)) => begins(trait_) && (begins(of) || !of.contains("::")),
        None => begins(path),
    }
}

/// `memset` for `__memset_avx2_unaligned_erms`; other names as they are.
pub(crate) fn short(function: String) -> String {
    memory_function(&function).map_or(function.clone(), str::to_owned)
}

/// The plain name of `memset`, `__memset_avx2_unaligned_erms`, `__libc_malloc`, `calloc@plt`.
fn memory_function(function: &str) -> Option<&'static str> {
    let bare = function.split('@').next().unwrap_or(function).trim_start_matches('_');
    let bare = BEFORE.iter().find_map(|before| bare.strip_prefix(before)).unwrap_or(bare);
    HELPERS.iter().copied().find(|helper| {
        bare.strip_prefix(helper).is_some_and(|rest| {
            let rest = rest.trim_start_matches('_');
            rest.is_empty() || AFTER.iter().any(|after| rest.starts_with(after))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Module;

    fn frame(module: u32, names: &[&str]) -> Frame {
        let name = |function: &&str| Name { function: (*function).to_owned(), ..Name::default() };
        Frame { module: Some(module), address: 0x10, names: names.iter().map(name).collect() }
    }

    fn named(frames: Vec<Frame>) -> Option<(u32, u32)> {
        let module = |path: &str| Module { path: path.to_owned(), ..Module::default() };
        let stacks = Stacks {
            modules: ["/usr/bin/program", "/lib/libc.so.6", "/var/cache/faultless/preload-86a4.so"]
                .map(module)
                .to_vec(),
            stacks: vec![(0..frames.len() as u32).collect()],
            frames,
        };
        Touching::new(&stacks).function(0)
    }

    #[test]
    fn who_called_memset_is_named() {
        let own = frame(0, &["fill"]);
        assert_eq!(named(vec![frame(1, &["__memset_avx2_unaligned_erms"]), own.clone()]), Some((1, 0)));
        assert_eq!(named(vec![frame(1, &[]), own.clone()]), Some((1, 0)), "a stripped C library");
        assert_eq!(named(vec![frame(0, &["memset"]), own.clone()]), Some((1, 0)), "linked statically");
        assert_eq!(named(vec![frame(0, &["core::ptr::write_bytes", "fill"])]), Some((0, 1)), "inlined");
        assert_eq!(named(vec![own.clone(), frame(0, &["main"])]), Some((0, 0)));
        let interposed = vec![frame(1, &["_int_realloc"]), frame(2, &[]), own];
        assert_eq!(named(interposed), Some((2, 0)), "faultless's own interposer between the two");
    }

    #[test]
    fn the_source_file_tells_a_library_where_the_name_does_not() {
        let name = |function: &str, file: &str| Name {
            function: function.to_owned(),
            file: Some(file.to_owned()),
            line: Some(1),
        };
        for file in ["/rustc/0123/library/core/src/ptr/mod.rs", "/usr/include/c++/12/bits/stl_vector.h"] {
            let names = vec![name("copy<u64>", file), name("fill", "src/main.rs")];
            assert_eq!(named(vec![Frame { names, ..frame(0, &[]) }]), Some((0, 1)), "{file}");
        }
    }

    #[test]
    fn functions_that_are_only_named_alike_are_the_programs_own() {
        for name in ["memset_pages", "malloc_buffers", "my_memcpy", "free_list_push"] {
            assert!(memory_function(name).is_none(), "{name}");
            assert!(!is_allocator(name), "{name}");
        }
        assert!(!is_allocator("Pool::malloc") && !is_allocator("main"));
        for name in ["__libc_calloc", "_int_malloc", "malloc@plt", "__memcpy_chk", "mi_malloc"] {
            assert!(memory_function(name).is_some(), "{name}");
        }
    }

    #[test]
    fn who_called_a_wrapper_of_malloc_is_named() {
        for wrapper in [
            "xmalloc",
            "do_xmalloc",
            "g_malloc0_n",
            "_PyObject_Malloc",
            "default_malloc",
            "zmalloc",
            "operator new(unsigned long)",
            "xstrdup",
            "_PyMem_RawMalloc.part.0",
        ] {
            assert_eq!(named(vec![frame(0, &[wrapper]), frame(0, &["parse"])]), Some((1, 0)), "{wrapper}");
        }
    }

    #[test]
    fn a_function_of_python_is_named_for_what_it_calls() {
        let python = |function: &str, file: &str| Frame {
            names: vec![Name { function: function.into(), file: Some(file.into()), line: None }],
            ..frame(0, &[])
        };
        let compute = python("py::compute", "/srv/a.py");
        let import = python("py::_call_with_frames_removed", "<frozen importlib._bootstrap>");
        assert_eq!(
            named(vec![frame(0, &["DOUBLE_add"]), compute.clone(), frame(0, &["main"])]),
            Some((1, 0))
        );
        assert_eq!(named(vec![frame(0, &["mmap_read"]), import.clone(), compute]), Some((2, 0)));
        assert_eq!(named(vec![frame(0, &["mmap_read"]), import, frame(0, &["main"])]), Some((0, 0)));
    }

    #[test]
    fn functions_of_libraries_are_told_from_the_programs_own() {
        for library in [
            "core::ptr::write_bytes",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "<alloc::vec::Vec<T>>::push",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "std::vector<int, std::allocator<int> >::resize(unsigned long)",
            "_mm256_store_si256",
        ] {
            assert!(is_library(library), "{library}");
        }
        let own = ["main", "<mine::Page as core::ops::drop::Drop>::drop", "fill(std::vector<int>&)"];
        for own in own.into_iter().chain(["<alloc::vec::Vec<T> as mine::Fill>::fill"]) {
            assert!(!is_library(own), "{own}");
        }
    }

    #[test]
    fn where_all_is_library_the_leaf_is_named() {
        assert_eq!(named(vec![frame(1, &["_dl_relocate_object"]), frame(1, &["_dl_start"])]), Some((0, 0)));
        assert_eq!(named(vec![]), None);
    }
}
