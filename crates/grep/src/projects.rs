//! `faultless index projects`.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::databases::{self, Which};
use crate::progress::{counted, megabytes};
use faultless_console::{Outcome, emit};

/// List the projects: name, number of files, size of text, and configuration file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: Args) -> Outcome {
    let mut out = String::new();
    let mut code = ExitCode::SUCCESS;
    let names = databases::names()?;
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for name in &names {
        let path = databases::file(name)?;
        let state = match state(name) {
            Ok(state) => state,
            Err(failure) => {
                eprintln!("faultless: {failure}");
                code = ExitCode::from(2);
                continue;
            }
        };
        let _ = writeln!(out, "{name:<width$}  {state:<30}  {}", path.display());
    }
    if names.is_empty() {
        eprintln!("faultless: there are no projects; `faultless index init --name NAME PATH` makes one");
        code = ExitCode::from(1);
    }
    emit(out.as_bytes(), code)
}

fn state(name: &str) -> Result<String, faultless_console::Failure> {
    let mut states = Vec::new();
    for chosen in (Which { project: vec![name.to_owned()] }).chosen()? {
        states.push(match faultless_grepdb::engine::Database::open(&chosen.location)? {
            Some(database) => {
                let info = database.info()?;
                format!("{}, {}", counted(info.files, "file"), megabytes(info.text_bytes))
            }
            None => "no database".into(),
        });
    }
    Ok(states.join("; "))
}
