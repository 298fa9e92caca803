//! The flags of a search: ripgrep's names and meanings, and a few of our own.
//!
//! In: the command line. Out: [`Args`].
//!
//! What it does not do: act on them.

pub(super) mod engine;
pub(super) mod looks;
pub(super) mod pattern;
pub(super) mod quick;
pub(super) mod which;

use std::ffi::OsString;

/// What a search is told.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Regular expression; with -e or -f this is a path, too.
    #[arg(allow_hyphen_values = false)]
    pub(super) pattern: Option<OsString>,
    /// Files and folders; all below the current folder where none is named; `-` is standard input.
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,
    #[command(flatten)]
    pub(super) matching: pattern::Flags,
    #[command(flatten)]
    pub(super) which: which::Flags,
    #[command(flatten)]
    pub(super) looks: looks::Flags,
    #[command(flatten)]
    pub(super) engine: engine::Flags,
}
