//! `faultless stat`.

/// Run a program and tell what its page faults cost.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> super::Outcome {
    Err(super::Failure("not built yet".into()))
}
