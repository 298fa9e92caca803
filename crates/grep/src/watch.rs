//! `faultless index watch`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use faultless_grepdb::engine::{TreeWatcher, WatchEvent, threads};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::databases::Which;
use crate::progress::{counted, tell};
use crate::service::Service;
use faultless_console::{Failure, Outcome};

/// Keep the database up to date until Ctrl-C.
///
/// From the moment of a change, searches read a changed file from the disk. The database is updated when
/// nothing has changed for the time in --quiet. Searches from this tree are answered by this process, which has the
/// database open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Update after this time without changes, such as 500ms.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    quiet: Duration,
    /// Use N threads for an update [default: one per processor].
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let [chosen] = &args.which.chosen()?[..] else {
        return Err(Failure("watch is for one database; start one for each project".into()));
    };
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, ended.clone())?;
    }
    let watch = TreeWatcher {
        location: &chosen.location,
        quiet: args.quiet,
        threads: threads(args.threads),
        is_stopped: &|| ended.load(Ordering::Relaxed),
    };
    let mut service = None;
    watch.run(&mut |event| match event {
        WatchEvent::Started(folders) => {
            eprintln!("watching {}; Ctrl-C ends it", counted(folders as u64, "folder"));
            match Service::begin(chosen) {
                Ok(begun) => service = Some(begun),
                Err(failure) => eprintln!("faultless: {failure}"),
            }
        }
        WatchEvent::Marked(files) => eprintln!("{} changed", counted(files as u64, "file")),
        WatchEvent::Updated(updated) => tell(&updated, None),
        WatchEvent::EventsLost => eprintln!("too much happened at once; checking everything"),
        WatchEvent::Busy => eprintln!("another process is updating the database; waiting for it"),
    })?;
    drop(service);
    Ok(ExitCode::SUCCESS)
}
