//! Which files.

use std::path::PathBuf;

use crate::databases::Which;
use crate::flags::types::TypeChanges;

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Which files")]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) databases: Which,
    /// Compare with the disk first; search changed files there.
    ///
    /// New and changed files are searched on the disk, and deleted ones are skipped. Without --fresh, only
    /// files with a match are checked: 8,000, and one more for each 192 KiB of candidate text. A message gives
    /// the number of unchecked files, if a checked file had changed or on a terminal.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Search only paths that match GLOB; `!GLOB` excludes.
    ///
    /// Globs work as in .gitignore, and select files of the database. If GLOB names hidden files (`.*`), or
    /// with --no-ignore, other files are read from the disk. Example: -g '*.rs' -g '!tests'. Unlike ripgrep, a
    /// search with a database leaves out ignored files, and hidden files whose dot is matched by `*` or `?`:
    /// to find them would take a walk of the tree.
    #[arg(short, long = "glob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) globs: Vec<String>,
    /// Like -g, but ignore case.
    #[arg(long = "iglob", value_name = "GLOB", allow_hyphen_values = true, hide_short_help = true)]
    pub(crate) iglobs: Vec<String>,
    /// Ignore case in -g.
    #[arg(long, hide_short_help = true)]
    pub(crate) glob_case_insensitive: bool,
    #[command(flatten)]
    pub(crate) types: TypeChanges,
    /// Print the types and their globs.
    #[arg(long, hide_short_help = true)]
    pub(crate) type_list: bool,
    /// Include hidden files, from the disk if necessary.
    #[arg(short = '.', long, overrides_with = "no_hidden")]
    pub(crate) hidden: bool,
    /// Exclude hidden files, overriding --hidden.
    #[arg(long, overrides_with = "hidden", hide_short_help = true)]
    pub(crate) no_hidden: bool,
    /// Include ignored files, from the disk if necessary.
    ///
    /// Ignored files are those that .gitignore, .ignore or .rgignore excludes.
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Include files that .gitignore excludes.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_ignore_vcs: bool,
    /// Include files that .ignore and .rgignore exclude.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_ignore_dot: bool,
    /// Disregard ignore files in parent folders.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_ignore_parent: bool,
    /// Search more: -u adds --no-ignore, -uu also --hidden, -uuu also --binary.
    #[arg(short, long = "unrestricted", action = clap::ArgAction::Count)]
    pub(crate) unrestricted: u8,
    /// Exclude files that FILE names, as .gitignore does; files are read from the disk.
    #[arg(long = "ignore-file", value_name = "FILE", value_hint = clap::ValueHint::FilePath, hide_short_help = true)]
    pub(crate) ignore_files: Vec<PathBuf>,
    /// Search binary files up to the first match, from the disk if necessary.
    #[arg(long, overrides_with = "text", hide_short_help = true)]
    pub(crate) binary: bool,
    /// Search binary files as text, from the disk if necessary.
    #[arg(short = 'a', long, overrides_with = "binary", hide_short_help = true)]
    pub(crate) text: bool,
    /// Follow symbolic links; files are read from the disk.
    #[arg(short = 'L', long, hide_short_help = true)]
    pub(crate) follow: bool,
    /// Descend at most NUM folders.
    #[arg(short = 'd', long, value_name = "NUM", hide_short_help = true)]
    pub(crate) max_depth: Option<usize>,
    /// Skip files larger than SIZE, such as 1M; files are read from the disk.
    #[arg(long, value_name = "SIZE", value_parser = size, hide_short_help = true)]
    pub(crate) max_filesize: Option<u64>,
    /// Stay on one file system; files are read from the disk.
    #[arg(long, hide_short_help = true)]
    pub(crate) one_file_system: bool,
    /// Decode files from ENCODING, or from nothing with `none`; files are read from the disk.
    #[arg(short = 'E', long, value_name = "ENCODING", hide_short_help = true)]
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
}
