//! `faultless lab kernel`: builds the kernels of `kernel/`, boots them in QEMU, and reports what was counted.
//!
//! In: a checkout of this repository and a kernel source. Out: a work folder with kernels, guest programs and plugin; a
//! record; tables. The programs of others (make, cc, patch, QEMU) are started here, and nowhere else in the lab.

mod build;
mod commands;
mod diff;
mod report;
mod run;
mod source;

use std::path::PathBuf;

use clap::Subcommand;
use faultless_console::Outcome;

/// Folder of kernels and programs, unless it is named.
const WORK: &str = "faultless-kernel";
/// Folder of the record, unless it is named.
const RECORD: &str = "faultless-kernel-record";

/// The three steps, and a comparison.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Build the kernels, the guest's programs and the plugin.
    ///
    /// Needs a checkout of the repository, and Debian's kernel source. An existing work folder is built
    /// incrementally. The patched kernel is built if the source is the version that kernel/prezero is for.
    #[command(after_help = "EXAMPLES\n  faultless lab kernel build --fetch\n  \
                      faultless lab kernel build --fetch=6.1 -o k61")]
    Build(build::Args),
    /// Boot every arm in QEMU and record what was counted.
    ///
    /// The emulated clock counts instructions, so two runs give the same bytes. --twice checks it.
    #[command(after_help = "EXAMPLES\n  faultless lab kernel run --twice\n  \
                      faultless lab kernel run --work k61 --arms base -o record-61")]
    Run(run::Args),
    /// Print the tables of a record and write its HTML page.
    Report(report::Args),
    /// Name the kernel's functions that two records, or two arms, differ in.
    #[command(after_help = "EXAMPLES\n  faultless lab kernel diff record-61 record-612\n  \
                      faultless lab kernel diff record-612 --arms base,on")]
    Diff(diff::Args),
}

/// Carries out one of them.
pub(crate) fn run(action: &Action) -> Outcome {
    match action {
        Action::Build(args) => build::run(args),
        Action::Run(args) => run::run(args),
        Action::Report(args) => report::run(args),
        Action::Diff(args) => diff::run(args),
    }
}

/// The files of a work folder.
#[derive(Clone, Debug)]
struct Work(PathBuf);

impl Work {
    /// Folder of a kernel's build.
    fn kernel(&self, is_patched: bool) -> PathBuf {
        self.0.join(if is_patched { "patched" } else { "base" })
    }

    fn image(&self, is_patched: bool) -> PathBuf {
        self.kernel(is_patched).join("arch/x86/boot/bzImage")
    }

    fn map(&self, is_patched: bool) -> PathBuf {
        self.kernel(is_patched).join("System.map")
    }

    fn guest(&self, program: &str) -> PathBuf {
        self.0.join("guest").join(program)
    }

    fn plugin(&self) -> PathBuf {
        self.0.join("counts.so")
    }

    /// What was built, as `name: value` lines.
    fn facts(&self) -> PathBuf {
        self.0.join("build.txt")
    }
}

/// The guest's programs; the first is PID 1.
const PROGRAMS: [&str; 4] = ["init", "pft", "kinds", "pool"];
