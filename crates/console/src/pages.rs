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
    Ok(page(&clap_mangen::Man::new(command))?)
}

/// A page whose examples, and what follows them, are sections: lines of capitals are their titles. Lines stay as they are
/// (`.nf`).
fn page(man: &clap_mangen::Man) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page).into_owned();
    let Some((before, extra)) = page.split_once(".SH EXTRA\n") else { return Ok(page.into_bytes()) };
    let is_title = |line: &str| {
        line.contains(char::is_alphabetic) && line.chars().all(|c| c.is_ascii_uppercase() || c == ' ')
    };
    let line = |line: &str| if is_title(line) { format!(".SH {line}\n.nf\n") } else { format!("{line}\n") };
    let extra: String = extra.lines().map(line).collect();
    let more = if extra.starts_with(".SH") { "" } else { ".SH MORE\n.nf\n" };
    Ok(format!("{before}{more}{extra}").into_bytes())
}

/// Writes the pages of a program and of all its verbs.
///
/// # Errors
/// The folder can't be written.
pub fn man_into(command: clap::Command, dir: &Path) -> Result<(), Failure> {
    fn write(command: clap::Command, dir: &Path) -> std::io::Result<()> {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            write(verb.clone(), dir)?;
        }
        let man = clap_mangen::Man::new(command);
        std::fs::write(dir.join(man.get_filename()), page(&man)?)
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write(command, dir).map_err(|error| {
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
