//! `faultless lab kernel`: builds the kernels of `kernel/`, boots them in QEMU, and reports what was counted.
//!
//! In: a checkout of this repository and a kernel source. Out: a work folder with kernels, guest programs and plugin; a
//! record; tables. QEMU emulates the processor, and its clock counts instructions, so two runs give the same bytes. An
//! emulated `rep stosb` counts each byte as an instruction. So path instructions, cleared bytes and cache misses are
//! kept apart from the beginning.
//!
//! | module | in -> out |
//! |---|---|
//! | `build`, `source`, `commands` | a kernel source and the patches -> kernels, by the programs of others |
//! | `plan`, `cpio` | an arm and a plan -> QEMU's arguments and the guest's files |
//! | `run` | kernels -> a record |
//! | `guest`, `counts`, `session` | the guest's console and the plugin's counts -> cells |
//! | `record`, `functions` | cells and their functions <-> files |
//! | `figures`, `limits`, `tables` | a record -> numbers, verdicts, tables |
//! | `report`, `diff` | records -> answers on stdout |
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use(eprintln)]
extern crate faultless_console;

mod build;
mod commands;
mod counts;
mod cpio;
mod diff;
mod figures;
mod functions;
mod guest;
mod limits;
mod plan;
mod record;
mod report;
mod run;
mod session;
mod source;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use faultless_console::{conclude, parse};

/// Folder of kernels and programs, unless it is named.
const WORK: &str = "faultless-kernel";
/// Folder of the record, unless it is named.
const RECORD: &str = "faultless-kernel-record";

/// Count what a page fault costs the kernel with and without zeroed pages, in QEMU.
#[derive(Debug, Parser)]
#[command(
    name = "faultless-kernel-lab",
    bin_name = "faultless lab kernel",
    version,
    arg_required_else_help = true
)]
enum Action {
    /// Build the kernels, the guest's programs and the plugin.
    ///
    /// Needs a checkout of the repository in the current folder or one above, and Debian's kernel source. An existing
    /// work folder is built incrementally. The patched kernel is built if the source is the version that
    /// kernel/prezero is for.
    #[command(after_help = "EXAMPLES\n  faultless lab kernel build --fetch\n  \
                      faultless lab kernel build --fetch=6.1 -o k61")]
    Build(build::Args),
    /// Boot every arm in QEMU and record what was counted.
    ///
    /// The emulated clock counts instructions, so two runs give the same bytes. --twice checks it.
    #[command(after_help = "EXAMPLES\n  faultless lab kernel run --twice\n  \
                      faultless lab kernel run --work k61 --arms base -o record-61")]
    Run(run::Args),
    /// Print the tables of a record.
    Report(report::Args),
    /// Name the kernel's functions that two records, or two arms, differ in.
    #[command(after_help = "EXAMPLES\n  faultless lab kernel diff record-61 record-612\n  \
                      faultless lab kernel diff --only added,removed record-61 record-612\n  \
                      faultless lab kernel diff record-612 --arms base,on")]
    Diff(diff::Args),
}

fn main() -> ExitCode {
    let outcome = parse(std::env::args_os().collect()).and_then(|action| match action {
        Action::Build(args) => build::run(&args),
        Action::Run(args) => run::run(&args),
        Action::Report(args) => report::run(&args),
        Action::Diff(args) => diff::run(&args),
    });
    conclude(outcome)
}

/// One of these on the command line, by its name.
fn one_of<T: Clone + Send + Sync>(
    all: &'static [T],
    name: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = &'static T> {
    let named = move |word: String| all.iter().find(|item| name(item) == word).ok_or("unknown");
    PossibleValuesParser::new(all.iter().map(name)).try_map(named)
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
