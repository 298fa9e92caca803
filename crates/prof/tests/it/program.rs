//! The C program of these tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Compiled once; `None` without a compiler.
#[track_caller]
pub(crate) fn program() -> Option<PathBuf> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("observe-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/observe.c");
        let status = Command::new("cc").args(["-O1", "-pthread", source, "-o"]).arg(&out).status().unwrap();
        assert!(status.success(), "observe.c does not compile");
        out
    };
    faultless_wants::program("cc", "gcc").then(|| PROGRAM.get_or_init(build).clone())
}
