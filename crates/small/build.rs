//! How the library is linked: see the interposer's build script, whose pages and relocations it adds to.

#![allow(clippy::print_stdout)]

fn main() {
    for argument in ["-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    // Without Rust's standard library nobody names them. Before glibc 2.34 threads are a library of their own.
    for library in ["c", "pthread"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    for function in ["pthread_mutex_lock", "pthread_mutex_unlock"] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={function}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
