//! Counts matching lines for a limited time: another thread cancels the search.
//!
//! ```sh
//! cargo run --release -p faultless-grepdb --example cancel -- FOLDER PATTERN MILLISECONDS
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::ops::ControlFlow::Continue;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use faultless_grepdb::{Error, Index, SearchOptions};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, pattern, milliseconds] = &words[..] else {
        eprintln!("usage: cancel FOLDER PATTERN MILLISECONDS");
        return ExitCode::from(2);
    };
    let time = Duration::from_millis(milliseconds.parse().unwrap_or(100));
    match count(folder, pattern, time) {
        Ok((lines, true)) => println!("{lines} lines"),
        Ok((lines, false)) => println!("at least {lines} lines; the time is up"),
        Err(error) => {
            eprintln!("cancel: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// The number of matching lines that were found in time, and whether these are all.
fn count(folder: &str, pattern: &str, time: Duration) -> Result<(u64, bool), Error> {
    let index = Index::open(folder)?;
    let options = SearchOptions::default();
    let token = options.cancel.clone();
    thread::spawn(move || {
        thread::sleep(time);
        token.cancel();
    });
    let summary = index.search(pattern, &options, |_| Continue(()))?;
    Ok((summary.matches, summary.is_complete))
}
