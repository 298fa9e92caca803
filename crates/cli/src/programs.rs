//! The programs behind `faultless lab`, `faultless grep` and `faultless index`. Each replaces this process.

use faultless_console::program::Program;

/// `faultless-lab`.
pub(crate) const LAB: Program =
    Program { verb: "lab", file: "faultless-lab", name: "faultless-lab", package: "crates/lab" };
/// `faultless-grep`.
pub(crate) const GREP: Program =
    Program { verb: "grep", file: "faultless-grep", name: "faultless-grep", package: "crates/grep" };
/// `faultless-grep` under the name that makes it manage its database.
pub(crate) const INDEX: Program =
    Program { verb: "index", file: "faultless-grep", name: "faultless-index", package: "crates/grep" };
