//! How the library is linked: as the interposer, and with mimalloc's calls of the C library redirected.

#![allow(clippy::print_stdout)]

// A link to the interposer's build script; a published crate has a copy.
mod interposer;

/// What `calls`, `fork` and `region` define for mimalloc.
const WRAPPED: [&str; 19] = [
    "__errno_location",
    "access",
    "clock_gettime",
    "close",
    "getrusage",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "open",
    "prctl",
    "pthread_mutex_destroy",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_setspecific",
    "read",
    "sleep",
    "syscall",
    "sysinfo",
];

fn main() {
    interposer::main();
    // The targets of --wrap are exported. A program that wraps the same functions must not replace them.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    for function in WRAPPED {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={function}");
    }
}
