//! How the library is linked: see the interposer's build script, whose pages and relocations it adds to.

#![allow(clippy::print_stdout)]

fn main() {
    for argument in ["-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    // The names that --wrap leads to are exported: a program that wraps the same functions must not take them over.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Without Rust's standard library nobody names them. Before glibc 2.34 threads are a library of their own.
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
