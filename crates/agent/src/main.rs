//! `faultless-agent`: page faults of a whole machine by service, for the monitoring that is there already.
//!
//! In: flags. Out: metrics over HTTP, and pushed to a collector, until a signal ends it. Exit status: 0 after SIGTERM
//! or SIGINT, 2 if it could not start.
//!
//! `watch` polls and counts, `record` starts `faultless` to find out why, `families` names the metrics, `serve` answers
//! scrapes, `push` sends.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use(eprintln)]
extern crate faultless_console;

mod amounts;
mod args;
mod board;
mod count;
mod families;
mod found;
mod identity;
mod ledger;
mod machine;
mod members;
mod own;
mod pace;
mod push;
mod record;
mod secrets;
mod serve;
mod text;
mod tuning;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use faultless_console::{Outcome, conclude, emit, pages, parse};

use args::{Action, Args};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    conclude(parse::<Args>(words).and_then(run))
}

fn run(args: Args) -> Outcome {
    match args.action {
        Some(Action::Man(args)) => match args.dir {
            Some(dir) => pages::man_into(Args::command(), &dir).map(|()| ExitCode::SUCCESS),
            None => emit(&pages::man(Args::command())?, ExitCode::SUCCESS),
        },
        Some(Action::Completions(args)) => {
            emit(&pages::completions(Args::command(), "faultless-agent", args.shell), ExitCode::SUCCESS)
        }
        None => watch::run(&args.options),
    }
}
