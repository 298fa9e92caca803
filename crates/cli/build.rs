//! Builds the malloc interposer and the small-object allocator behind it. `include_bytes!` puts both into the
//! one binary.
//!
//! In: the folders of both crates, which their build scripts tell. Out: for each library, the environment variables
//! FAULTLESS_<NAME> (its path) and FAULTLESS_<NAME>_HASH (a hash of its content). The nested cargo has its own target
//! directory, because the outer cargo holds a lock on the first one. Clippy and the compiler share it. It fetches nothing
//! that the outer build has fetched already: both crates are dependencies, which nothing links.

#![allow(clippy::print_stdout)]

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
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
    let folder = |name: &str| PathBuf::from(variable(&format!("DEP_FAULTLESS_{name}_FOLDER")));
    let (preload, small) = (folder("PRELOAD"), folder("SMALL"));
    // OUT_DIR is PROFILE/build/NAME/out, with another NAME under Clippy.
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    let target_dir = out_dir.ancestors().nth(3).unwrap_or(&out_dir).join("preload");
    // Cargo adds this file to what it publishes.
    let is_published = preload.join("Cargo.toml.orig").exists();
    let root = if is_published { workspace(&out_dir, &preload, &small) } else { preload.join("../..") };
    let inputs: &[&str] = match is_published {
        true => &["Cargo.toml"],
        false => &[
            "Cargo.toml",
            "Cargo.lock",
            "crates/os",
            "crates/pool/src",
            "crates/pool/Cargo.toml",
            "crates/preload",
            "crates/small",
        ],
    };
    for input in inputs {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    println!("cargo:rerun-if-env-changed=CFLAGS");
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let mut built = target_dir.clone();
    if host != target {
        built.push(&target);
    }
    for (name, package) in LIBRARIES {
        let mut command = Command::new(variable("CARGO"));
        // Only a library that is nothing but a cdylib is optimized as a whole.
        command.args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--package", package]);
        command.args(["--profile", "preload", "--config"]).arg(preload.join("profile.toml"));
        command.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--target-dir").arg(&target_dir);
        if host != target {
            command.args(["--target", &target]);
        }
        if is_published {
            command.arg("--offline");
        }
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        if target.contains("musl") {
            // Else programs of musl are static, and a library can't be.
            command.env("RUSTFLAGS", "-C target-feature=-crt-static");
        }
        command.env("CFLAGS", format!("{} {MIMALLOC}", env::var("CFLAGS").unwrap_or_default()));
        let status = command.status().expect("cargo can be started again");
        assert!(status.success(), "the interposer could not be built: {command:?} ended with {status}");
        let library = built.join("preload").join(format!("lib{}.so", package.replace('-', "_")));
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(&library).expect("the library that was just built can be read"));
        println!("cargo:rustc-env=FAULTLESS_{name}={}", library.display());
        println!("cargo:rustc-env=FAULTLESS_{name}_HASH={:016x}", hasher.finish());
    }
}

/// Makes a workspace of the published crates. Without a Cargo.lock, cargo takes the versions that the outer build fetched.
/// `os` and `pool` are taken from beside them, in a registry that cargo makes only to check what it publishes.
fn workspace(out_dir: &Path, preload: &Path, small: &Path) -> PathBuf {
    let root = out_dir.join("interposer");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir(&root).expect("cargo's output folder can be written");
    for (folder, name) in [(preload, "preload"), (small, "small")] {
        symlink(folder, root.join(name)).expect("cargo's output folder takes links");
    }
    let mut manifest =
        "[workspace]\nmembers = [\"preload\", \"small\"]\nresolver = \"3\"\n\n[patch.crates-io]\n".to_owned();
    for name in ["faultless-os", "faultless-pool"] {
        let beside = preload.with_file_name(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
        if beside.exists() {
            manifest += &format!("{name} = {{ path = {beside:?} }}\n");
        }
    }
    fs::write(root.join("Cargo.toml"), manifest).expect("cargo's output folder can be written");
    root
}
