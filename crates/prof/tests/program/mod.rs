//! The C program of these tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Compiled once; `None` and a printed reason without a compiler.
pub(crate) fn program() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("observe-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/observe.c");
        let status = Command::new("cc").args(["-O1", "-pthread", source, "-o"]).arg(&out).status();
        match status {
            Ok(status) if status.success() => Some(out),
            other => {
                eprintln!("skipped: no C compiler: {other:?}");
                None
            }
        }
    };
    PROGRAM.get_or_init(build).clone()
}
