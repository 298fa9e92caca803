//! Another program in place of this one, found beside it or on PATH, as git and cargo do.
//!
//! In: the words of the command line. Out: this process becomes the other program, or one line names the command that
//! installs it.
//!
//! It does not read the other program's words.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, Outcome, reason};

/// The words for another program, unparsed.
#[derive(Debug, clap::Args)]
pub struct Words {
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// A program that this one starts.
#[derive(Debug)]
pub struct Program {
    /// The word that starts it, such as `lab` in `faultless lab`.
    pub verb: &'static str,
    /// Its file.
    pub file: &'static str,
    /// The name that it sees as its own.
    pub name: &'static str,
    /// The folder of its package in a checkout.
    pub package: &'static str,
}

/// Starts the program that the first word names, before any word is parsed. Returns if the word names none.
///
/// # Errors
/// The program is not installed, or can't be started.
pub fn start_named(words: &[OsString], programs: &[Program]) -> Result<(), Failure> {
    let named = |word: &OsString| programs.iter().find(|program| word == program.verb);
    match words {
        [_, verb, rest @ ..] if verb != "help" => {
            named(verb).map_or(Ok(()), |program| Err(program.become_it(rest)))
        }
        [_, _, verb] => named(verb).map_or(Ok(()), |program| Err(program.become_it(&["--help"]))),
        _ => Ok(()),
    }
}

impl Program {
    /// Starts the program in place of this process.
    ///
    /// # Errors
    /// The program is not installed, or can't be started.
    pub fn start(&self, words: &Words) -> Outcome {
        Err(self.become_it(&words.words))
    }

    fn become_it<W: AsRef<OsStr>>(&self, words: &[W]) -> Failure {
        self.failure(&self.command().args(words).exec())
    }

    /// The program's output for `words`.
    ///
    /// # Errors
    /// The program is not installed, can't be started, or failed.
    pub fn output<W: AsRef<OsStr>>(&self, words: &[W]) -> Result<Vec<u8>, Failure> {
        let output = self.command().args(words).output().map_err(|error| self.failure(&error))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(Failure(said.trim_end().replace("faultless: ", "")))
        }
    }

    /// The command that starts it: the file beside this program, else the one on PATH.
    pub fn command(&self) -> Command {
        // Without /proc a program knows its own file only by the path that it was started with.
        let started =
            || Some(PathBuf::from(std::env::args_os().next()?)).filter(|own| own.components().count() > 1);
        let own = std::env::current_exe().ok().or_else(started);
        let beside = own.map(|own| own.with_file_name(self.file)).filter(|file| file.exists());
        let mut command = Command::new(beside.unwrap_or_else(|| self.file.into()));
        command.arg0(self.name);
        command
    }

    fn failure(&self, error: &std::io::Error) -> Failure {
        let Self { file, package, .. } = self;
        Failure(match error.kind() {
            ErrorKind::NotFound => format!(
                "{file} is not installed, neither beside this program nor on PATH; in a checkout, `cargo install --path {package}` installs it"
            ),
            _ => format!("{file}: {}; install it again", reason(error)),
        })
    }
}
