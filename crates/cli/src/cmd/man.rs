//! `faultless man` and `faultless completions`: generated from the flag definitions that the parser uses.

use std::ffi::OsStr;
use std::process::ExitCode;

use faultless_console::pages::{self, CompletionsArgs, ManArgs};

use faultless_console::{Outcome, emit};

use crate::programs::{AGENT, INDEX, LAB};

/// Prints the page of `faultless`, or writes the pages of all verbs and programs.
pub(crate) fn man(args: ManArgs, command: clap::Command) -> Outcome {
    // `faultless help` has no page of its own.
    let command = command
        .disable_help_subcommand(true)
        .mut_subcommand("workload", |verb| verb.disable_help_subcommand(true));
    let Some(dir) = args.dir else { return emit(&pages::man(command)?, ExitCode::SUCCESS) };
    // The other programs' pages come last: they replace the one-line pages here.
    pages::man_into(command, &dir)?;
    for program in [LAB, INDEX, AGENT] {
        if let Err(failure) = program.output(&[OsStr::new("man"), OsStr::new("--dir"), dir.as_os_str()]) {
            eprintln!("faultless: pages left out: {failure}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the completions of all programs.
pub(crate) fn completions(args: CompletionsArgs, command: clap::Command) -> Outcome {
    let mut script = pages::completions(command, "faultless", args.shell);
    for program in [LAB, INDEX, AGENT] {
        match program.output(&["completions", &args.shell.to_string()]) {
            Ok(theirs) => script.extend(theirs),
            Err(failure) => eprintln!("faultless: completions left out: {failure}"),
        }
    }
    emit(&script, ExitCode::SUCCESS)
}
