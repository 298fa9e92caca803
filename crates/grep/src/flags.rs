//! The flags of a search: ripgrep's names and meanings, and a few of our own.
//!
//! In: the command line. Out: [`Args`]. This module does not act on them.

pub(crate) mod engine;
pub(crate) mod looks;
pub(crate) mod pattern;
pub(crate) mod quick;
pub(crate) mod types;
pub(crate) mod which;

use std::ffi::OsString;

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Regular expression. With -e or -f it is a PATH instead.
    #[arg(allow_hyphen_values = false)]
    pub(crate) pattern: Option<OsString>,
    /// Files and folders [default: .]; - is stdin.
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<OsString>,
    #[command(flatten)]
    pub(crate) matching: pattern::Flags,
    #[command(flatten)]
    pub(crate) which: which::Flags,
    #[command(flatten)]
    pub(crate) looks: looks::Flags,
    #[command(flatten)]
    pub(crate) engine: engine::Flags,
}

impl Args {
    /// The first flag that forces reading from disk: the database can't tell which files are meant, or has their text
    /// in another form.
    pub(crate) fn beyond_databases(&self) -> Option<&'static str> {
        let which = &self.which;
        let flags = [
            ("--follow", which.follow),
            ("--max-filesize", which.max_filesize.is_some()),
            ("--one-file-system", which.one_file_system),
            ("--ignore-file", !which.ignore_files.is_empty()),
            ("--encoding", which.names_encoding()),
            ("--null-data", self.matching.null_data),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}
