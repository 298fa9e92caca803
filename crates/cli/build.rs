//! Builds the malloc interposer and the small-object allocator behind it, so that `include_bytes!` can put them into the
//! one binary.
//!
//! Out: for each the environment variables FAULTLESS_<NAME>, the path of the shared library, and FAULTLESS_<NAME>_HASH, of
//! its content. The nested cargo has a target directory of its own: the outer one is locked while this runs. What the
//! outer build of the workspace has fetched it does not fetch again. And how the binary is linked.

#![allow(clippy::print_stdout)]

use std::env;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
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

/// The libraries: what the variables call them, and their packages.
const LIBRARIES: [(&str, &str); 2] = [("PRELOAD", "faultless-preload"), ("SMALL", "faultless-small")];

/// Flags for mimalloc's C compiler. Without the first, mimalloc frees all memory at exit in case its library is
/// unloaded; ours never is. Without the second, it initializes itself in every process, also where the program keeps
/// another allocator.
const MIMALLOC: &str = "-DMI_SKIP_COLLECT_ON_EXIT -DMI_PRIM_HAS_PROCESS_ATTACH";

fn main() {
    // Linked to its address: 100 pages of pointers that would have to be relocated, copied at each start, stay in the page cache. That is
    // a quarter of the page faults of a short run.
    println!("cargo:rustc-link-arg-bins=-no-pie");
    // Or the linker would offer the functions of `math`, which the C library has too, to all that is loaded with the program.
    println!("cargo:rustc-link-arg-bins=-Wl,--exclude-libs,ALL");
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    link_the_unwinder(&PathBuf::from(variable("OUT_DIR")));
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
    let target_dir = PathBuf::from(variable("OUT_DIR")).join("preload");
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

/// Links the unwinder into the binary, where the C compiler has it as an archive: a library that needs not be mapped and relocated is
/// 7 to 9 % of a short search. The standard library asks for `libgcc_s.so`; what the linker finds under that name refers it to the archive.
fn link_the_unwinder(out: &Path) {
    const ARCHIVE: &str = "libgcc_eh.a";

    let compiler = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let Ok(found) = Command::new(compiler).arg(format!("-print-file-name={ARCHIVE}")).output() else {
        return;
    };
    let archive = String::from_utf8_lossy(&found.stdout);
    let archive = Path::new(archive.trim());
    // What it does not find it names as it was asked.
    if archive.is_file() {
        let folder = out.join("unwinder");
        std::fs::create_dir_all(&folder).expect("a folder can be made where cargo says");
        // Found as all libraries are, by what the link is told.
        let script = format!("INPUT(-l:{ARCHIVE})\n");
        std::fs::write(folder.join("libgcc_s.so"), script).expect("a file can be written where cargo says");
        println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
        println!("cargo:rustc-env=FAULTLESS_LINKS_UNWINDER=1");
    }
}
