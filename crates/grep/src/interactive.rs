//! `faultless index interactive`.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::caller::Caller;
use crate::{files, flags, search};
use faultless_console::{Failure, Outcome, no_stdout, one_line};

/// Answer queries from standard input, for editors that would otherwise start a process per query.
///
/// Each line is `search ARGS` or `files ARGS`, quoted as in a shell. An answer ends with a line of a NUL byte
/// and the exit status.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A line of input.
#[derive(Debug, clap::Parser)]
#[command(name = "", no_binary_name = true, disable_help_subcommand = true)]
enum Line {
    /// Search.
    Search(Box<flags::Args>),
    /// Find files.
    Files(files::Args),
}

pub(crate) fn run(_: Args) -> Outcome {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure(format!("standard input: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let status = answer(&line).unwrap_or_else(|failure| {
            eprintln!("faultless: {failure}");
            2
        });
        let mut out = std::io::stdout().lock();
        match writeln!(out, "\0{status}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            written => written.map_err(|error| no_stdout(&error))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(line: &str) -> Result<u8, Failure> {
    let words = shlex::split(line).ok_or_else(|| Failure("a quote has no end; close it".into()))?;
    match Line::try_parse_from(words) {
        Ok(Line::Search(args)) => search::run(*args, &Caller::this_process()?),
        Ok(Line::Files(args)) => files::run(args),
        Err(error) => Err(Failure(one_line(&error, &crate::Search::command(), None))),
    }
}
