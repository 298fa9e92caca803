//! The verbs: each in its own file with its flags, its help and its function.

mod advise;
mod attach;
mod bench;
mod compare;
mod diff;
mod doctor;
mod export;
mod filter;
mod flame;
mod glibc;
mod man;
mod record;
mod report;
mod run;
mod stat;
mod status;
mod timeline;
mod top;
mod trace_file;
mod warm;
mod workload;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use faultless_console::{Failure, Outcome, pages};

use crate::programs::{self, Words};

const COMPLETIONS: &str = "EXAMPLES\n  faultless completions bash >~/.local/share/bash-completion/completions/faultless\n  \
                           faultless completions fish >~/.config/fish/completions/faultless.fish";

/// Find, measure and remove the time that programs lose to page faults.
#[derive(Debug, Parser)]
#[command(name = "faultless", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Stat(stat::Args),
    Record(record::Args),
    Top(top::Args),
    Run(run::Args),
    Advise(advise::Args),
    Compare(compare::Args),
    Workload(workload::Args),
    Doctor(doctor::Args),
    Export(export::Args),
    Timeline(timeline::Args),
    Flame(flame::Args),
    Diff(diff::Args),
    Report(report::Args),
    /// Run the experiments of the five documents on this machine [program: faultless-lab].
    #[command(disable_help_flag = true)]
    Lab(Words),
    /// Search a tree with regular expressions, through an index [program: faultless-grep].
    #[command(disable_help_flag = true)]
    Grep(Words),
    /// Make the database that `grep` searches, and keep it up to date [program: faultless-grep].
    #[command(disable_help_flag = true)]
    Index(Words),
    #[command(
        after_help = "EXAMPLES\n  faultless man | man -l -\n  faultless man --dir ~/.local/share/man/man1"
    )]
    Man(pages::ManArgs),
    #[command(after_help = COMPLETIONS)]
    Completions(pages::CompletionsArgs),
}

/// Parses the command line. Help and version end the process here.
///
/// # Errors
/// A mistake in the words, in one line.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Args, Failure> {
    faultless_console::parse(words)
}

/// Runs the chosen verb.
pub(crate) fn run(args: Args) -> Outcome {
    match args.verb {
        Verb::Stat(args) => stat::run(args),
        Verb::Record(args) => record::run(args),
        Verb::Top(args) => top::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Advise(args) => advise::run(args),
        Verb::Compare(args) => compare::run(args),
        Verb::Workload(args) => workload::run(args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Export(args) => export::run(args),
        Verb::Timeline(args) => timeline::run(args),
        Verb::Flame(args) => flame::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Report(args) => report::run(args),
        Verb::Lab(words) => programs::LAB.start(&words),
        Verb::Grep(words) => programs::GREP.start(&words),
        Verb::Index(words) => programs::INDEX.start(&words),
        Verb::Man(args) => man::man(args, Args::command()),
        Verb::Completions(args) => man::completions(args, Args::command()),
    }
}
