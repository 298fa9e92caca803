//! The command line that the three programs share: how words are read, how failures are told, and where output goes.
//!
//! In: words, a report, an error. Out: text on stdout or stderr, a file that appears whole, an exit status.
//!
//! What it does not do: know any verb, or measure.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod pages;
pub mod sink;

use std::fmt;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ErrorKind as Mistake};

/// Prints to stderr, like the standard library's macro, but ignores a stderr that can't be written: measured results and the program's
/// own status must not be lost because nobody reads the messages.
#[macro_export]
macro_rules! eprint {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($words)*);
    }};
}

/// Prints a line to stderr; see [`eprint`].
#[macro_export]
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

/// A failure as the user reads it: what, where, and the remedy, in one line.
#[derive(Debug)]
pub struct Failure(pub String);

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

/// Exit status after Ctrl-C: 128 and the number of SIGINT.
pub const INTERRUPTED: u8 = 130;

/// The result of a verb.
pub type Outcome = Result<ExitCode, Failure>;

/// The exit status of a program: a failure is told on stderr in one line, and is 2.
pub fn conclude(outcome: Outcome) -> ExitCode {
    outcome.unwrap_or_else(|failure| {
        eprintln!("faultless: {failure}");
        ExitCode::from(2)
    })
}

/// Reads the words of a command line. `--help` and `--version` end the process here.
///
/// # Errors
/// What is wrong with the words, in one line.
pub fn parse<P: Parser>(words: Vec<std::ffi::OsString>) -> Result<P, Failure> {
    let verb = words.get(1).and_then(|word| word.to_str()).map(str::to_owned);
    P::try_parse_from(words).map_err(|error| match (error.kind(), error.get(ContextKind::InvalidArg)) {
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
        _ => Failure(one_line(&error, &P::command(), verb.as_deref())),
    })
}

/// Joins the lines of a clap error: the mistake, its tips, and the help to read. `verb` is the first word.
pub fn one_line(error: &clap::Error, command: &clap::Command, verb: Option<&str>) -> String {
    let text = error.render().to_string();
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said: Vec<&str> = said.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let said = said.join("; ").replace(":; ", ": ");
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let help = match verb.filter(|verb| command.find_subcommand(verb).is_some()) {
        Some(verb) => format!("{name} {verb} --help"),
        None => format!("{name} --help"),
    };
    format!("{}; see `{help}`", said.trim_start_matches("error: "))
}

/// Writes to stdout. A reader that closed the pipe (`| head`) is no failure.
///
/// # Errors
/// Standard output can't be written.
pub fn emit(text: &[u8], code: ExitCode) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(no_stdout(&error)),
        _ => Ok(code),
    }
}

/// The failure to write standard output.
pub fn no_stdout(error: &std::io::Error) -> Failure {
    let reason = sink::reason(error);
    Failure(format!("standard output: {reason}; send it to a file or pipe that can be written"))
}
