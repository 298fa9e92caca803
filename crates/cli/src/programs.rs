//! The programs behind `faultless lab`, `grep`, `index` and `agent`. Each replaces this process.

use faultless_console::program::Program;

/// `faultless-lab`.
pub(crate) const LAB: Program =
    Program { verb: "lab", file: "faultless-lab", name: "faultless-lab", package: "crates/lab" };
/// `faultless-agent`.
pub(crate) const AGENT: Program =
    Program { verb: "agent", file: "faultless-agent", name: "faultless-agent", package: "crates/agent" };
/// `faultless-grep`.
pub(crate) const GREP: Program =
    Program { verb: "grep", file: "faultless-grep", name: "faultless-grep", package: "crates/grep" };
/// `faultless-grep` under the name that makes it manage its database.
pub(crate) const INDEX: Program =
    Program { verb: "index", file: "faultless-grep", name: "faultless-index", package: "crates/grep" };
