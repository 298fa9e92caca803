//! `faultless`: find, measure and remove the time that programs lose to page faults.
//!
//! One match from verb to function. Exit status: 0 yes, 1 no, 2 wrong input or no way to do it. A verb that
//! runs a program passes its status through.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use(eprint, eprintln)]
extern crate faultless_console;

mod cmd;

mod pager;
mod programs;

use std::process::ExitCode;

use faultless_console::{conclude, program};
use programs::{AGENT, GREP, INDEX, LAB};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let run = |args| {
        // A recorder in a script's background has to end on `kill -INT`.
        faultless_os::spawn::heed_ignored_interrupts();
        cmd::run(args)
    };
    conclude(
        program::start_named(&words, &[LAB, GREP, INDEX, AGENT])
            .and_then(|()| cmd::parse(words))
            .and_then(run),
    )
}
