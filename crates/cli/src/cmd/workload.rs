//! `faultless workload`.

/// Run one of the standing workloads.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> super::Outcome {
    Err(super::Failure("not built yet".into()))
}
