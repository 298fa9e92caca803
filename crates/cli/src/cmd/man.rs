//! `faultless man` and `faultless completions`: written from the same flag definitions that are parsed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use super::{Failure, Outcome};

/// Print the manual page, or write the pages of all verbs into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  faultless man | man -l -\n  faultless man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write faultless.1, faultless-stat.1 and so on here, instead of printing the first.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Print the completions for a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless completions bash >~/.local/share/bash-completion/completions/faultless\n  \
                  faultless completions fish >~/.config/fish/completions/faultless.fish"
)]
pub(crate) struct CompletionsArgs {
    /// Which shell.
    shell: clap_complete::Shell,
}

/// Prints or writes the manual.
pub(crate) fn man(args: ManArgs) -> Outcome {
    // `faultless help` has no page of its own.
    let command = super::Args::command()
        .disable_help_subcommand(true)
        .mut_subcommand("workload", |verb| verb.disable_help_subcommand(true))
        .mut_subcommand("grep", |verb| verb.disable_help_subcommand(true));
    match args.dir {
        Some(dir) => clap_mangen::generate_to(command, &dir).map_err(|error| {
            let reason = super::sink::reason(&error);
            Failure(format!("{}: {reason}; name a folder that exists and can be written", dir.display()))
        })?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            return super::emit(&page, ExitCode::SUCCESS);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the completions.
pub(crate) fn completions(args: CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Args::command(), "faultless", &mut script);
    super::emit(&script, ExitCode::SUCCESS)
}
