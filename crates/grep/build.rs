//! How `faultless-grep` is linked, so that a search starts fast.
//!
//! Out: linker arguments for the ordinary dynamic program. A fully static one starts even faster
//! (CONTRIBUTING.md has the command), but a build script can't ask for it.

#![allow(clippy::print_stdout, reason = "cargo reads stdout")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archive of the unwinder that comes with GCC.
const UNWINDER: &str = "libgcc_eh.a";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A position-independent program relocates its tables at each start: 79 more pages are written. That adds
    // 22 % to the CPU time of a search that finds nothing, and packed relocations (DT_RELR) add as much.
    println!("cargo:rustc-link-arg-bins=-no-pie");
    if let Some(folder) = link_the_unwinder() {
        println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
    }
}

/// Links the unwinder statically if the C compiler has its archive: loading `libgcc_s.so` takes 14 % of such
/// a search. The standard library asks for `libgcc_s`. A linker script of that name in the returned folder
/// refers to the archive.
fn link_the_unwinder() -> Option<PathBuf> {
    let compiler = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let found = Command::new(compiler).arg(format!("-print-file-name={UNWINDER}")).output().ok()?;
    let archive = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    // If the compiler lacks the file, it prints the bare name.
    if !Path::new(&archive).is_file() {
        return None;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("unwinder");
    fs::create_dir_all(&folder).expect("cargo's output folder can be written");
    fs::write(folder.join("libgcc_s.so"), format!("INPUT(-l:{UNWINDER})\n"))
        .expect("cargo's output folder can be written");
    Some(folder)
}
