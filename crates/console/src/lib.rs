//! The command line that our programs share: parsing of words, failure messages, the destination of output, and one
//! program that starts another.
//!
//! In: words, a report, an error. Out: text on stdout or stderr, a file that appears whole, an exit status.
//!
//! It knows no verb and measures nothing.
//!
//! ```
//! assert_eq!(faultless_console::span("200ms").unwrap().as_millis(), 200);
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod failure;
pub mod pages;
pub mod program;
pub mod sink;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::error::{ContextKind, ErrorKind as Mistake};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

pub use failure::{Failure, reason};
pub use sink::wants_colour;

/// Prints to stderr, like the standard library's macro, but ignores a stderr that can't be written. Otherwise
/// an unread message would lose measured results and the program's status.
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

/// Exit status after Ctrl-C: 128 and the number of SIGINT.
pub const INTERRUPTED: u8 = 130;

/// The result of a verb.
pub type Outcome = Result<ExitCode, Failure>;

/// The exit status of a program. A failure is printed on stderr in one line, and the status is 2.
pub fn conclude(outcome: Outcome) -> ExitCode {
    outcome.unwrap_or_else(|failure| {
        eprintln!("faultless: {failure}");
        ExitCode::from(2)
    })
}

/// Parses the words of a command line. `--help` and `--version` end the process here.
///
/// # Errors
/// A mistake in the words, in one line.
pub fn parse<P: Parser>(words: Vec<std::ffi::OsString>) -> Result<P, Failure> {
    let verb = words.get(1).and_then(|word| word.to_str()).map(str::to_owned);
    P::try_parse_from(words).map_err(|error| match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (Mistake::MissingRequiredArgument, Some(missing)) => {
            let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
            let usage = usage.trim_start_matches("Usage: ");
            Failure(format!("{missing} is missing; write it like this: {usage}"))
        }
        (Mistake::DisplayHelp | Mistake::DisplayVersion, _) => {
            match error.print().and_then(|()| std::io::stdout().flush()) {
                Err(failed) if failed.kind() != ErrorKind::BrokenPipe => no_stdout(&failed),
                _ => std::process::exit(0),
            }
        }
        (Mistake::DisplayHelpOnMissingArgumentOrSubcommand, _) => error.exit(),
        _ => Failure(one_line(&error, &P::command(), verb.as_deref())),
    })
}

/// A clap error in one line: the mistake, its tips, and the help to read. `verb` is the first word.
pub fn one_line(error: &clap::Error, command: &clap::Command, verb: Option<&str>) -> String {
    let text = error.render().to_string();
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said = said.filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let said: Vec<String> = said.map(expected).collect();
    let said = said.join("; ").replace(":; ", ": ");
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let (command, help) = match verb.and_then(|verb| command.find_subcommand(verb)) {
        Some(verb) => (verb, format!("{name} {} --help", verb.get_name())),
        None => (command, format!("{name} --help")),
    };
    let names = || command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    let is_unknown =
        error.kind() == Mistake::InvalidSubcommand && error.get(ContextKind::SuggestedSubcommand).is_none();
    let there_are = match is_unknown {
        true => format!("; there are {}", names().collect::<Vec<_>>().join(", ")),
        false => String::new(),
    };
    let takes_command = command.get_positionals().any(clap::Arg::is_last_set);
    let tip = if error.kind() == Mistake::UnknownArgument && takes_command {
        "; write -- before the command"
    } else {
        ""
    };
    format!("{}{there_are}{tip}; see `{help}`", said.trim_start_matches("error: "))
}

/// A line of a clap error; where it rejects a value, in words that say which ones it takes.
fn expected(line: &str) -> String {
    const NO_NUMBER: &str = "invalid digit found in string";
    let range = line.split_once(" is not in ").and_then(|(text, range)| {
        let (least, most) = range.split_once("..=")?;
        Some((text.rsplit_once(": ")?.0, least, most))
    });
    let values = line.strip_prefix("[possible values: ").and_then(|values| values.strip_suffix(']'));
    match (range, values) {
        (Some((text, least, most)), _) => format!("{text}: expected a number from {least} to {most}"),
        (_, Some(values)) => format!("expected one of {values}"),
        (None, None) => line.replace(NO_NUMBER, "expected a whole number"),
    }
}

/// A time as every flag takes it: `200ms` or `1s`.
///
/// # Errors
/// It is none, with the expected form.
pub fn span(text: &str) -> Result<Duration, String> {
    let (number, unit_ms) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or(""), 1000),
    };
    let number: u32 = number.parse().map_err(|_| "expected a time such as 200ms or 1s".to_string())?;
    Ok(Duration::from_millis(u64::from(number) * unit_ms))
}

/// A name as a part of a path or a URL: all but letters, digits and `-._` is percent-encoded, as Hive, Spark and DuckDB
/// decode it.
pub fn encoded(name: &str) -> PercentEncode<'_> {
    const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
    utf8_percent_encode(name, PLAIN)
}

/// Writes to stdout, and returns `status`. A reader that closes the pipe early (`| head`) is no failure.
///
/// # Errors
/// Standard output can't be written.
pub fn emit<T>(text: &[u8], status: T) -> Result<T, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(no_stdout(&error)),
        _ => Ok(status),
    }
}

/// Writes a report into its file, or to stdout if it has none.
///
/// # Errors
/// The file or standard output can't be written.
pub fn deliver(report: &str, file: Option<sink::Sink>) -> Outcome {
    match file {
        Some(file) => file.write(report).map(|()| ExitCode::SUCCESS),
        None => emit(report.as_bytes(), ExitCode::SUCCESS),
    }
}

/// The failure when standard output can't be written.
pub fn no_stdout(error: &std::io::Error) -> Failure {
    Failure(format!("standard output: {}; send it to a file or pipe that can be written", reason(error)))
}
