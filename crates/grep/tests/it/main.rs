//! `faultless-grep` from outside. One test program for all: each has to be linked after every change.

mod corpus;
mod index;
mod killed;
mod queries;
mod ripgrep_cases;
mod same_lines;
mod search;
mod service;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_faultless-grep");
const VERBS: [&str; 10] =
    ["init", "build", "update", "files", "filter", "info", "projects", "change", "watch", "interactive"];

/// A search, without the user's flags.
fn grep() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_remove("FAULTLESS_GREP_OPTIONS");
    command
}

/// The same program under the name that manages databases.
fn index() -> Command {
    let mut command = grep();
    command.arg0("faultless-index");
    command
}

/// `index` if the first word is one of its verbs, else a search.
fn either(words: &[&str]) -> Command {
    let mut command = if words.first().is_some_and(|word| VERBS.contains(word)) { index() } else { grep() };
    command.args(words);
    command
}

/// A link in `folder` that starts `index`, for shells.
fn index_link(folder: &Path) -> PathBuf {
    let link = folder.join("faultless-index");
    std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
    link
}
