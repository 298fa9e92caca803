//! How the interposer, and the allocator behind it, are linked. Every interposed process pays for its pages and relocations.
//!
//! Out: linker arguments, and the folder of the sources, from which the build script of `cli` builds this crate.
//!
//! Code and constants are one mapping. No page becomes read-only after relocation, because the pointers to the next
//! malloc are in writable memory anyway. GNU ld is preferred: it drops the standard library's panic machinery, which
//! nothing calls (a fifth of the size, a sixth of the relocations). lld keeps it for the unwind tables.

#![allow(clippy::print_stdout)]

use std::process::{Command, Stdio};

pub(crate) fn main() {
    for argument in ["-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let mut asked = Command::new(linker);
    asked.args(["-fuse-ld=bfd", "-Wl,--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if asked.status().is_ok_and(|status| status.success()) {
        println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    }
    println!("cargo:folder={}", std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
}
