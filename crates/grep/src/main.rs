//! `faultless-grep`: searches a tree through a database of its text. Under the name `faultless-index` it
//! manages that database.
//!
//! In: the words of a search, or a verb. Out: matches or a report on stdout; exit status 0 with a match, 1
//! without, 2 for a failure. `--stat` counts the page faults of this process; it measures nothing else.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use(eprint, eprintln)]
extern crate faultless_console;

mod build;
mod caller;
mod change;
mod databases;
mod disk;
mod files;
mod filter;
mod flags;
mod index;
mod info;
mod init;
mod interactive;
mod job;
mod matching;
mod measure;
mod out;
mod patterns;
mod printing;
mod progress;
mod projects;
mod scope;
mod search;
mod service;
mod skipped;
mod stdin;
mod totals;
mod update;
mod watch;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use faultless_console::{Failure, Outcome, conclude, parse};

use caller::Caller;

/// The name under which this program manages databases.
const INDEX: &str = "faultless-index";

/// Search a tree with regular expressions, through an index.
///
/// Flags have ripgrep's names and meanings. The search uses the database of the nearest parent folder that
/// has one; `faultless index init` makes it. Without a database it reads the files. FAULTLESS_GREP_OPTIONS
/// holds flags for every search.
#[derive(Debug, Parser)]
#[command(
    name = "faultless-grep",
    bin_name = "faultless grep",
    version,
    after_help = "`faultless grep --help` shows all flags.",
    after_long_help = "EXAMPLES\n  faultless grep -i 'todo|fixme'\n  faultless grep -w -t rust unwrap crates"
)]
struct Search {
    #[command(flatten)]
    search: flags::Args,
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_index =
        words.first().and_then(|program| Path::new(program).file_name()).is_some_and(|name| name == INDEX);
    conclude(if is_index { index::run(words) } else { search(words) })
}

fn search(mut words: Vec<OsString>) -> Outcome {
    words.splice(1.min(words.len())..1.min(words.len()), options()?);
    if let Some(status) = words.get(1..).and_then(service::ask) {
        return Ok(ExitCode::from(status));
    }
    // Building clap's description takes as long as the index takes to find a word.
    let args = match words.get(1..).and_then(flags::quick::read) {
        Some(args) => args,
        None => parse::<Search>(words)?.search,
    };
    search::run(args, &Caller::this_process()?).map(ExitCode::from)
}

fn options() -> Result<Vec<OsString>, Failure> {
    let Some(options) = std::env::var_os("FAULTLESS_GREP_OPTIONS") else { return Ok(Vec::new()) };
    let options = options.into_string().map_err(|options| {
        let options = options.display();
        Failure(format!("FAULTLESS_GREP_OPTIONS: {options}: not UTF-8; write flags in UTF-8"))
    })?;
    let options = shlex::split(&options).ok_or_else(|| {
        Failure("FAULTLESS_GREP_OPTIONS: a quotation mark is missing; write flags as in a shell".into())
    })?;
    Ok(options.into_iter().map(OsString::from).collect())
}
