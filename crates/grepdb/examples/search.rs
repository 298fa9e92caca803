//! Prints matching lines as `PATH:NUMBER:LINE`.
//!
//! ```sh
//! cargo run --release -p faultless-grepdb --example search -- FOLDER PATTERN
//! ```
//! If no folder from FOLDER upwards has a database, it makes one in FOLDER.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow::{Break, Continue};
use std::process::ExitCode;

use faultless_grepdb::{Case, Error, Index, Match, Rules, SearchOptions};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, pattern] = &words[..] else {
        eprintln!("usage: search FOLDER PATTERN");
        return ExitCode::from(2);
    };
    match search(folder, pattern) {
        Ok(0) => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("search: {error}");
            ExitCode::from(2)
        }
    }
}

/// The number of matching lines.
fn search(folder: &str, pattern: &str) -> Result<u64, Error> {
    let index = match Index::open(folder) {
        Err(Error::Missing(_)) => Index::build(folder, &Rules::default(), |_| Continue(()))?.0,
        index => index?,
    };
    let mut out = BufWriter::new(io::stdout());
    let mut print = |found: &Match<'_>| {
        write!(out, "{}:{}:", found.path.display(), found.line_number)?;
        out.write_all(found.line)?;
        if found.line.ends_with(b"\n") { Ok(()) } else { out.write_all(b"\n") }
    };
    let options = SearchOptions { case: Case::Smart, sorted: true, ..SearchOptions::default() };
    let summary = index.search(pattern, &options, |found| match print(found) {
        Ok(()) => Continue(()),
        // The reader has seen enough.
        Err(_) => Break(()),
    })?;
    summary.notices.iter().for_each(|notice| eprintln!("search: {notice}"));
    summary.trouble.iter().for_each(|trouble| eprintln!("search: {trouble}"));
    Ok(summary.matches)
}
