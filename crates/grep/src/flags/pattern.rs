//! What matches.

use std::path::PathBuf;

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "What matches")]
pub(crate) struct Flags {
    /// Search for PATTERN, or for any of several.
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) patterns: Vec<String>,
    /// Read patterns from FILE, one per line; - is stdin.
    #[arg(short = 'f', long = "file", value_name = "FILE", allow_hyphen_values = true, value_hint = clap::ValueHint::FilePath, hide_short_help = true)]
    pub(crate) pattern_files: Vec<PathBuf>,
    /// Ignore case.
    #[arg(short, long, overrides_with_all = ["case_sensitive", "smart_case"])]
    pub(crate) ignore_case: bool,
    /// Ignore case unless a pattern has upper case.
    #[arg(short = 'S', long, overrides_with_all = ["case_sensitive", "ignore_case"])]
    pub(crate) smart_case: bool,
    /// Match case (the default).
    #[arg(short = 's', long, overrides_with_all = ["smart_case", "ignore_case"], hide_short_help = true)]
    pub(crate) case_sensitive: bool,
    /// Treat patterns as text, not as expressions.
    #[arg(short = 'F', long)]
    pub(crate) fixed_strings: bool,
    /// Match whole words only.
    #[arg(short, long, overrides_with = "line_regexp")]
    pub(crate) word_regexp: bool,
    /// Match whole lines only.
    #[arg(short = 'x', long, overrides_with = "word_regexp", hide_short_help = true)]
    pub(crate) line_regexp: bool,
    /// Show lines that do not match.
    #[arg(short = 'v', long)]
    pub(crate) invert_match: bool,
    /// Let matches span several lines.
    #[arg(short = 'U', long, overrides_with = "stop_on_nonmatch", hide_short_help = true)]
    pub(crate) multiline: bool,
    /// Let a dot match line ends; needs -U.
    #[arg(long, hide_short_help = true)]
    pub(crate) multiline_dotall: bool,
    /// Accept CR LF as a line end; `$` matches before it.
    #[arg(long, overrides_with = "null_data", hide_short_help = true)]
    pub(crate) crlf: bool,
    /// End lines at NUL instead; files are read from the disk.
    #[arg(long, overrides_with = "crlf", hide_short_help = true)]
    pub(crate) null_data: bool,
    /// Use ASCII and bytes for `\w`, `\b`, `.` and case.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_unicode: bool,
    /// Stop after NUM matching lines per file.
    #[arg(short, long, value_name = "NUM")]
    pub(crate) max_count: Option<u64>,
    /// Stop searching a file at the first non-matching line after a match; overrides -U.
    #[arg(long, overrides_with = "multiline", hide_short_help = true)]
    pub(crate) stop_on_nonmatch: bool,
    /// Limit the size of a compiled pattern, such as 10M.
    #[arg(long, value_name = "SIZE", value_parser = super::which::size, hide_short_help = true)]
    pub(crate) regex_size_limit: Option<u64>,
    /// Limit the cache of its automaton, such as 1G.
    #[arg(long, value_name = "SIZE", value_parser = super::which::size, hide_short_help = true)]
    pub(crate) dfa_size_limit: Option<u64>,
}
