//! Manual pages and shell completions, generated from the flag definitions that the parser uses.

use std::path::{Path, PathBuf};

use clap_complete::Shell;

use crate::failure::{Failure, reason};

/// Print the manual page, or write the pages of all verbs into a folder.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write the pages of all verbs into this folder instead.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Print the completions for a shell.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell.
    pub shell: Shell,
}

/// The page of a program.
///
/// # Errors
/// None in practice: the page is written to memory.
pub fn man(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

/// Writes the pages of a program and of all its verbs.
///
/// # Errors
/// The folder can't be written.
pub fn man_into(command: clap::Command, dir: &Path) -> Result<(), Failure> {
    clap_mangen::generate_to(command, dir).map_err(|error| {
        Failure(format!(
            "{}: {}; name a folder that exists and can be written",
            dir.display(),
            reason(&error)
        ))
    })
}

/// The completion script for the program called `name`.
pub fn completions(mut command: clap::Command, name: &str, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}
