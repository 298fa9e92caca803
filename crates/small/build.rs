//! How the library is linked. Every process pays for its pages and relocations, as for the interposer's.

#![allow(clippy::print_stdout)]

fn main() {
    for argument in ["-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    // The targets of --wrap are exported. A program that wraps the same functions must not replace them.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Rust's standard library, which would name them, is not linked. Before glibc 2.34, threads are a library of their
    // own.
    for library in ["c", "pthread"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    let locks = ["pthread_mutex_lock", "pthread_mutex_unlock"];
    let calls = ["mmap", "munmap", "mprotect", "madvise", "prctl", "syscall", "__errno_location"];
    for function in locks.iter().chain(&calls) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={function}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
