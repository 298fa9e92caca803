//! `faultless doctor`.

/// What this machine does to page faults, measured first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> super::Outcome {
    Err(super::Failure("not built yet".into()))
}
