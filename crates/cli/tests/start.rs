//! What a process of `faultless` loads before it does anything. Guards against libraries that each start has to map and relocate: two of
//! them were a fifth of a search that finds nothing.

#![allow(clippy::print_stderr, reason = "skips print their reason")]

use std::process::Command;

#[test]
fn the_program_needs_the_c_library_alone() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_faultless")).unwrap();
    // GNU ld asks what a library is needed for before it leaves out what nobody calls.
    if !program.windows(11).any(|bytes| bytes == b"Linker: LLD") {
        eprintln!("skipped: the program was not linked by LLD, which rustc brings along for x86-64");
        return;
    }
    let loaded = Command::new(env!("CARGO_BIN_EXE_faultless"))
        // ld.so(8): the dynamic linker lists what it would load, and the program is not run.
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .unwrap();
    let loaded = String::from_utf8(loaded.stdout).unwrap();
    assert!(loaded.contains("libc.so"), "{loaded}");
    assert!(!loaded.contains("libm.so"), "what `math` does not define: nm -D --undefined-only\n{loaded}");
    if option_env!("FAULTLESS_LINKS_UNWINDER").is_some() {
        assert!(!loaded.contains("libgcc_s.so"), "{loaded}");
    } else {
        eprintln!("skipped: the C compiler has no libgcc_eh.a");
    }
}
