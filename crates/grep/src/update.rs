//! `faultless index update`.

use std::process::ExitCode;

use faultless_grepdb::engine::{Database, threads};

use crate::databases::Which;
use crate::progress::with_line;
use faultless_console::Outcome;

/// Update the database: read new and changed files, drop deleted ones, and repair damage that a search found.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Use N threads [default: one per processor].
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
}

pub(crate) fn run(args: Args) -> Outcome {
    for chosen in args.which.chosen()? {
        let threads = threads(args.threads);
        let rules = chosen.project.as_ref().map(|(_, rules)| rules);
        // Reads only the manifest: other files may be damaged, and the update makes them anew.
        let (root, _) = Database::root_and_rules(&chosen.location)?.ok_or_else(|| chosen.missing())?;
        with_line("updating", |progress| match rules {
            // The project's root has moved, so all tree paths are wrong.
            Some(rules) if root != chosen.location.root => {
                Database::build(&chosen.location, rules, threads, progress)
            }
            rules => Database::update(&chosen.location, rules, threads, progress),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
