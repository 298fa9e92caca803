//! `faultless run`.

/// Run a program, unchanged, with large blocks from the pool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> super::Outcome {
    Err(super::Failure("not built yet".into()))
}
