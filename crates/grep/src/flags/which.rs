//! Which files.

use std::path::PathBuf;

use crate::databases::Which;

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Which files")]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) databases: Which,
    /// Compare with the disk first: what is new or other is searched there, and what is gone is not.
    ///
    /// Without it only files that are about to be named are looked at, some 10 000: for 20 ms or 5 % of the search, whichever is longer.
    /// How many were not is said on a terminal, and where others have changed.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Only files whose paths match GLOB, as in .gitignore; with `!` before it, not these.
    ///
    /// Chooses among the files of the database. Where GLOB names hidden files (`.*`), or --no-ignore is given, others are read from the
    /// disk.
    #[arg(short, long = "glob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) globs: Vec<String>,
    /// The same; case does not matter.
    #[arg(long = "iglob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) iglobs: Vec<String>,
    /// Case does not matter in -g either.
    #[arg(long)]
    pub(crate) glob_case_insensitive: bool,
    /// Only files of TYPE, such as c, py, rust; see --type-list. Of a database: hidden ones with --hidden.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// No files of TYPE.
    #[arg(short = 'T', long = "type-not", value_name = "TYPE")]
    pub(crate) types_not: Vec<String>,
    /// One more type, or glob of a type: `name:glob`, `name:include:other`.
    #[arg(long = "type-add", value_name = "TYPE")]
    pub(crate) types_add: Vec<String>,
    /// TYPE has no globs, but those of --type-add.
    #[arg(long = "type-clear", value_name = "TYPE")]
    pub(crate) types_clear: Vec<String>,
    /// Print the types, and search nothing.
    #[arg(long)]
    pub(crate) type_list: bool,
    /// Also hidden files; those that the database leaves out are read from the disk.
    #[arg(short = '.', long, overrides_with = "no_hidden")]
    pub(crate) hidden: bool,
    /// No hidden files, whatever FAULTLESS_GREP_OPTIONS says.
    #[arg(long, overrides_with = "hidden")]
    pub(crate) no_hidden: bool,
    /// Also what .gitignore, .ignore and .rgignore leave out; that is read from the disk.
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Also what .gitignore leaves out.
    #[arg(long)]
    pub(crate) no_ignore_vcs: bool,
    /// Also what .ignore and .rgignore leave out.
    #[arg(long)]
    pub(crate) no_ignore_dot: bool,
    /// Also what files in folders above leave out.
    #[arg(long)]
    pub(crate) no_ignore_parent: bool,
    /// Once: --no-ignore. Twice: and --hidden. Three times: and --binary.
    #[arg(short, long = "unrestricted", action = clap::ArgAction::Count)]
    pub(crate) unrestricted: u8,
    /// Leave out what FILE names, as .gitignore does; files are read from the disk.
    #[arg(long = "ignore-file", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) ignore_files: Vec<PathBuf>,
    /// Search binary files until the first match; what the database leaves out is read from the disk.
    #[arg(long, overrides_with = "text")]
    pub(crate) binary: bool,
    /// Search binary files as if they were text; what the database leaves out is read from the disk.
    #[arg(short = 'a', long, overrides_with = "binary")]
    pub(crate) text: bool,
    /// Follow symbolic links; files are read from the disk.
    #[arg(short = 'L', long)]
    pub(crate) follow: bool,
    /// At most NUM folders deep.
    #[arg(short = 'd', long, value_name = "NUM")]
    pub(crate) max_depth: Option<usize>,
    /// No larger files; files are read from the disk.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_filesize: Option<u64>,
    /// No other file systems; files are read from the disk.
    #[arg(long)]
    pub(crate) one_file_system: bool,
    /// Files are in this encoding, or `none`: as they are; files are read from the disk.
    #[arg(short = 'E', long, value_name = "ENCODING")]
    pub(crate) encoding: Option<String>,
}

/// Parses a number of bytes, such as 64K.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    grep_cli::parse_human_readable_size(text).map_err(|error| error.to_string())
}

impl Flags {
    /// Whether hidden files are searched.
    pub(crate) fn asks_hidden(&self) -> bool {
        self.hidden || self.unrestricted > 1 && !self.no_hidden
    }

    /// Whether ignored files are searched.
    pub(crate) fn asks_ignored(&self) -> bool {
        self.no_ignore
            || self.no_ignore_vcs
            || self.no_ignore_dot
            || self.no_ignore_parent
            || self.unrestricted > 0
    }

    /// Whether binary files are searched.
    pub(crate) fn asks_binary(&self) -> bool {
        self.binary || self.unrestricted > 2
    }

    /// Whether the flags fix the encoding of files.
    pub(crate) fn names_encoding(&self) -> bool {
        self.encoding.as_deref().is_some_and(|name| name != "auto")
    }

    /// Whether a flag forces reading from disk: the database can't tell which files are meant, or has their
    /// text in another form.
    pub(crate) fn is_beyond_databases(&self) -> bool {
        self.beyond_databases().is_some()
    }

    /// The first such flag.
    pub(crate) fn beyond_databases(&self) -> Option<&'static str> {
        let flags = [
            ("--follow", self.follow),
            ("--max-filesize", self.max_filesize.is_some()),
            ("--one-file-system", self.one_file_system),
            ("--ignore-file", !self.ignore_files.is_empty()),
            ("--encoding", self.names_encoding()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}
