//! The verbs: each in its own file with its flags, its help and its function.

mod advise;
mod diff;
mod doctor;
mod export;
mod flame;
mod grep;
mod lab;
mod man;
mod record;
mod report;
mod run;
mod sink;
mod stat;
mod timeline;
mod top;
mod trace_file;
mod warm;
mod workload;

use std::fmt;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind as Mistake};
use clap::{CommandFactory, Parser, Subcommand};

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
    Workload(workload::Args),
    Doctor(doctor::Args),
    Export(export::Args),
    Lab(lab::Args),
    Timeline(timeline::Args),
    Flame(flame::Args),
    Grep(Box<grep::Args>),
    Diff(diff::Args),
    Report(report::Args),
    Man(man::ManArgs),
    Completions(man::CompletionsArgs),
}

/// A failure as the user reads it: what, where, and the remedy, in one line.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Exit status when somebody asked to end: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// What a verb answers.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// Reads the words of the command line. Help and version end the process here.
///
/// # Errors
/// What is wrong with the words, in one line.
pub(crate) fn parse() -> Result<Args, Failure> {
    let words = grep::words(std::env::args_os().collect())?;
    if let Some(search) = grep::Args::search(&words) {
        return Ok(Args { verb: Verb::Grep(Box::new(search)) });
    }
    Args::try_parse_from(words).map_err(|error| match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (Mistake::MissingRequiredArgument, Some(missing)) => {
            let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
            let usage = usage.trim_start_matches("Usage: ");
            Failure(format!("{missing} is missing; write it like this: {usage}"))
        }
        (
            Mistake::DisplayHelp
            | Mistake::DisplayHelpOnMissingArgumentOrSubcommand
            | Mistake::DisplayVersion,
            _,
        ) => error.exit(),
        _ => Failure(one_line(&error)),
    })
}

/// What clap says in several lines: the mistake, its tips, and where to read on.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said: Vec<&str> = said.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let said = said.join("; ").replace(":; ", ": ");
    let verb = std::env::args().nth(1).filter(|word| Args::command().find_subcommand(word).is_some());
    let help = verb.map_or_else(|| "faultless --help".into(), |verb| format!("faultless {verb} --help"));
    format!("{}; see `{help}`", said.trim_start_matches("error: "))
}

/// Runs the chosen verb.
pub(crate) fn run(args: Args) -> Outcome {
    match args.verb {
        Verb::Stat(args) => stat::run(args),
        Verb::Record(args) => record::run(args),
        Verb::Top(args) => top::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Advise(args) => advise::run(args),
        Verb::Workload(args) => workload::run(args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Export(args) => export::run(args),
        Verb::Lab(args) => lab::run(args),
        Verb::Timeline(args) => timeline::run(args),
        Verb::Flame(args) => flame::run(args),
        Verb::Grep(args) => grep::run(*args),
        Verb::Diff(args) => diff::run(args),
        Verb::Report(args) => report::run(args),
        Verb::Man(args) => man::man(args),
        Verb::Completions(args) => man::completions(args),
    }
}

/// Writes to stdout. A reader that has seen enough (`| head`) is no failure.
fn emit(text: &[u8], code: ExitCode) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(no_stdout(&error)),
        _ => Ok(code),
    }
}

/// Standard output can't be written.
fn no_stdout(error: &std::io::Error) -> Failure {
    let reason = sink::reason(error);
    Failure(format!("standard output: {reason}; send it to a file or pipe that can be written"))
}
