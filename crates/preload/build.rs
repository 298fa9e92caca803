//! How the interposer, and the allocator behind it, are linked. Every interposed process pays for its pages and relocations.
//!
//! Out: linker arguments, and the folder of the sources, from which the build script of `cli` builds this crate.
//!
//! Code and constants are one mapping. No page becomes read-only after relocation, because the pointers to the next
//! malloc are in writable memory anyway. GNU ld is preferred: it drops the standard library's panic machinery, which
//! nothing calls (a fifth of the size, a sixth of the relocations). lld keeps it for the unwind tables.

#![allow(clippy::print_stdout)]

use std::process::Command;

pub(crate) fn main() {
    for argument in ["-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).args(["-fuse-ld=bfd", "-Wl,--version"]).output();
    let said = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned()).unwrap_or_default();
    if said.starts_with("GNU ld") {
        println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,noseparate-code");
    } else if !said.is_empty() {
        // Zig takes the flag and links with lld, which separates no code. Without a personality, nothing is kept for the
        // unwind tables, and an unwinder passes through these frames: a library that aborts on panic has no cleanup.
        let script = format!("{}/no-personality.ld", std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
        std::fs::write(&script, "rust_eh_personality = 0;\n").expect("OUT_DIR can be written");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{script}");
    }
    println!("cargo:folder={}", std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
}
