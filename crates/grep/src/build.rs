//! `faultless index build`.

use std::path::PathBuf;
use std::process::ExitCode;

use faultless_grepdb::Rules;
use faultless_grepdb::engine::{Database, Location, threads};

use crate::caller;
use crate::databases::{Chosen, Which};
use crate::progress::with_line;
use faultless_console::{Failure, Outcome};

/// Rebuild the database from scratch, with the rules that it has.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Root of the tree [default: that of the current folder].
    #[arg(value_hint = clap::ValueHint::DirPath, conflicts_with = "project")]
    root: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
    /// Use N threads [default: one per processor].
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let here = caller::here()?;
    let chosen = match &args.root {
        Some(root) => {
            let root = root
                .canonicalize()
                .map_err(|error| Failure(format!("{}: {error}; name a folder", root.display())))?;
            vec![Chosen { location: Location::in_tree(&root), project: None }]
        }
        // The folder may have no database yet.
        None if args.which.project.is_empty() && Database::find_root(&here).is_none() => {
            vec![Chosen { location: Location::in_tree(&here), project: None }]
        }
        None => args.which.chosen()?,
    };
    for Chosen { location, project } in chosen {
        let rules = match project {
            Some((_, rules)) => rules,
            None => match Database::root_and_rules(&location) {
                Ok(known) => known.map_or_else(Rules::default, |(_, rules)| rules),
                Err(error) => {
                    let taken = "what belongs to it is taken to be what a new one would have";
                    eprintln!("faultless: {error}; {taken}");
                    Rules::default()
                }
            },
        };
        let threads = threads(args.threads);
        with_line("building", |progress| Database::build(&location, &rules, threads, progress))?;
    }
    Ok(ExitCode::SUCCESS)
}
