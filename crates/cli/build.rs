//! Builds the malloc interposer, so that `include_bytes!` can put it into the one binary.
//!
//! Out: the environment variables FAULTLESS_PRELOAD, the path of the shared library, and FAULTLESS_PRELOAD_HASH, of its
//! content. The nested cargo has a target
//! directory of its own: the outer one is locked while this runs. It needs no network: the outer build has resolved
//! and fetched what both need.

#![allow(clippy::print_stdout)]

use std::env;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::process::Command;

/// Settings of the outer build that would change or wrap the nested compiler (clippy, coverage, sanitizers).
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
    ] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    let target_dir = PathBuf::from(variable("OUT_DIR")).join("preload");
    let mut command = Command::new(variable("CARGO"));
    command
        .args([
            "build",
            "--quiet",
            "--package",
            "faultless-preload",
            "--profile",
            "preload",
            "--manifest-path",
        ])
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir);
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let mut library = target_dir;
    if host != target {
        command.args(["--target", &target]);
        library.push(&target);
    }
    library.push("preload/libfaultless_preload.so");
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    let status = command.status().expect("cargo can be started again");
    assert!(status.success(), "the interposer could not be built: {command:?} ended with {status}");
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(&library).expect("the interposer that was just built can be read"));
    println!("cargo:rustc-env=FAULTLESS_PRELOAD={}", library.display());
    println!("cargo:rustc-env=FAULTLESS_PRELOAD_HASH={:016x}", hasher.finish());
}
