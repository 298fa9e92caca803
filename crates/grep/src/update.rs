//! `faultless index update`.

use std::process::ExitCode;

use faultless_grepdb::Database;

use crate::done;
use crate::place::Which;
use faultless_console::Outcome;

/// Bring the database up to date: what is new or other is read, what is gone is dropped, what a search found damaged is made anew.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Workers; as many as there are processors where none are named.
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> Outcome {
    for chosen in args.which.chosen()? {
        let threads = crate::threads(args.threads);
        let rules = chosen.project.as_ref().map(|(_, rules)| rules);
        // Only its manifest: what of the rest is damaged is made anew.
        let root = Database::root_at(&chosen.place)?.ok_or_else(|| chosen.missing())?;
        let (updated, seconds) = done::with_bar("updating", |progress| match rules {
            // Its paths begin elsewhere now.
            Some(rules) if root != chosen.place.root => {
                Database::build(&chosen.place, rules, threads, progress)
            }
            rules => Database::update(&chosen.place, rules, threads, progress),
        })?;
        done::tell(&updated, seconds);
    }
    Ok(ExitCode::SUCCESS)
}
