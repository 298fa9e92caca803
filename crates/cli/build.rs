//! Builds the malloc interposer and the small-object allocator behind it. `include_bytes!` puts both into the
//! one binary.
//!
//! Out: for each library, the environment variables FAULTLESS_<NAME> (its path) and FAULTLESS_<NAME>_HASH (a
//! hash of its content). The nested cargo has its own target directory, because the outer cargo holds a lock
//! on the first one. Clippy and the compiler share it. It fetches nothing that the outer build has fetched already.

#![allow(clippy::print_stdout)]

use std::env;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::process::Command;

/// Settings of the outer build that would change or wrap the nested compiler: clippy, coverage, sanitizers.
const NOT_INHERITED: [&str; 8] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
];

/// The libraries: the name in the variables, and the package.
const LIBRARIES: [(&str, &str); 2] = [("PRELOAD", "faultless-preload"), ("SMALL", "faultless-small")];

/// Flags for mimalloc's C compiler. Without the first, mimalloc frees all memory at exit in case its library is
/// unloaded; ours never is. Without the second, it initializes itself in every process, also where the program keeps
/// another allocator.
const MIMALLOC: &str = "-DMI_SKIP_COLLECT_ON_EXIT -DMI_PRIM_HAS_PROCESS_ATTACH";

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    for input in [
        "Cargo.toml",
        "Cargo.lock",
        "crates/os",
        "crates/pool/src",
        "crates/pool/Cargo.toml",
        "crates/preload",
        "crates/small",
    ] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    // OUT_DIR is PROFILE/build/NAME/out, with another NAME under Clippy.
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    let target_dir = out_dir.ancestors().nth(3).unwrap_or(&out_dir).join("preload");
    let mut command = Command::new(variable("CARGO"));
    command.args(["build", "--quiet", "--profile", "preload"]);
    for (_, package) in LIBRARIES {
        command.args(["--package", package]);
    }
    command.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--target-dir").arg(&target_dir);
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let mut built = target_dir;
    if host != target {
        command.args(["--target", &target]);
        built.push(&target);
    }
    built.push("preload");
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    if target.contains("musl") {
        // Else programs of musl are static, and a library can't be.
        command.env("RUSTFLAGS", "-C target-feature=-crt-static");
    }
    command.env("CFLAGS", format!("{} {MIMALLOC}", env::var("CFLAGS").unwrap_or_default()));
    println!("cargo:rerun-if-env-changed=CFLAGS");
    let status = command.status().expect("cargo can be started again");
    assert!(status.success(), "the interposer could not be built: {command:?} ended with {status}");
    for (name, package) in LIBRARIES {
        let library = built.join(format!("lib{}.so", package.replace('-', "_")));
        let mut hasher = DefaultHasher::new();
        hasher.write(&std::fs::read(&library).expect("the library that was just built can be read"));
        println!("cargo:rustc-env=FAULTLESS_{name}={}", library.display());
        println!("cargo:rustc-env=FAULTLESS_{name}_HASH={:016x}", hasher.finish());
    }
}
