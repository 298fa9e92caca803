//! The verbs: each in its own file with its flags, its help and its function.

mod advise;
mod attach;
mod bench;
mod check;
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
mod rounds;
mod run;
mod stat;
mod status;
mod symbolize;
mod timeline;
mod top;
mod trace_file;
mod workload;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use faultless_console::program::Words;
use faultless_console::{Failure, Outcome, pages};

use crate::programs;

const COMPLETIONS: &str =
    "EXAMPLES\n  source <(faultless completions bash)\n  faultless completions fish | source";

const ORDER: &str = "\
BEGIN WITH
  faultless advise -- python3 script.py     which cure helps, and by how much
THEN
  faultless run -- python3 script.py        the same program with its large blocks from the pool
  faultless stat -- python3 script.py       how many faults, what they cost, how many are avoidable
  faultless record -- python3 script.py     who takes them; `faultless report` shows the call sites
  faultless doctor                          what page faults cost here, and what to change
EXIT STATUS
  stat, record, run                         the program's own; 126 or 127 if it can't be executed or found
  others                                    0; 1 if nothing was found or a limit is exceeded; 2 for an error";

/// Find, measure and remove the time that programs lose to page faults.
#[derive(Debug, Parser)]
#[command(name = "faultless", version, arg_required_else_help = true, after_help = ORDER)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Doctor(doctor::Args),
    Stat(stat::Args),
    Record(record::Args),
    Report(report::Args),
    Flame(flame::Args),
    Timeline(timeline::Args),
    Diff(diff::Args),
    Export(export::Args),
    Symbolize(symbolize::Args),
    Top(top::Args),
    Advise(advise::Args),
    Run(run::Args),
    Compare(compare::Args),
    Check(check::Args),
    Workload(workload::Args),
    /// Run the experiments of the five documents on this machine [program: faultless-lab].
    #[command(disable_help_flag = true)]
    Lab(Words),
    /// Search a tree with regular expressions, through an index [program: faultless-grep].
    #[command(disable_help_flag = true)]
    Grep(Words),
    /// Make the database that `grep` searches, and keep it up to date [program: faultless-grep].
    #[command(disable_help_flag = true)]
    Index(Words),
    /// Watch a whole machine for Prometheus or OpenTelemetry [program: faultless-agent].
    #[command(disable_help_flag = true)]
    Agent(Words),
    #[command(
        after_help = "EXAMPLES\n  faultless man | man -l -\n  mkdir -p pages && faultless man --dir pages"
    )]
    Man(pages::ManArgs),
    #[command(after_help = COMPLETIONS)]
    Completions(pages::CompletionsArgs),
}

/// Why a word is no process id.
const NO_PID: &str = "not a process id; `pidof NAME` or `ps -e` gives them";

/// A process id on the command line.
fn pid(word: &str) -> Result<u32, String> {
    word.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| NO_PID.to_owned())
}

/// Parses the command line. Help and version end the process here.
///
/// # Errors
/// A mistake in the words, in one line.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Args, Failure> {
    let is_after_dashes = words.get(1).is_some_and(|word| word == "--");
    let first = 1 + usize::from(is_after_dashes);
    match words.get(first).filter(|word| run::find(word).is_ok()) {
        Some(word) if is_after_dashes || Args::command().find_subcommand(word).is_none() => {
            let all = words[first..].iter().map(|word| word.to_string_lossy());
            // A word with a NUL, which no command line has, can't be quoted.
            let quoted =
                all.map(|word| shlex::try_quote(&word).map_or_else(|_| word.to_string(), Into::into));
            Err(Failure(format!(
                "{}: a program, not a verb; `faultless advise -- {}` finds what cures its page faults",
                word.to_string_lossy(),
                quoted.collect::<Vec<_>>().join(" ")
            )))
        }
        _ => faultless_console::parse(words),
    }
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
        Verb::Check(args) => check::run(args),
        Verb::Workload(args) => workload::run(args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Export(args) => export::run(args),
        Verb::Symbolize(args) => symbolize::run(args),
        Verb::Timeline(args) => timeline::run(args),
        Verb::Flame(args) => flame::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Report(args) => report::run(args),
        Verb::Lab(words) => programs::LAB.start(&words),
        Verb::Agent(words) => programs::AGENT.start(&words),
        Verb::Grep(words) => programs::GREP.start(&words),
        Verb::Index(words) => programs::INDEX.start(&words),
        Verb::Man(args) => man::man(args, Args::command()),
        Verb::Completions(args) => man::completions(args, Args::command()),
    }
}
