//! What matches.

use std::path::PathBuf;

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "What matches")]
pub(crate) struct Flags {
    /// Lines that match this, or any other pattern.
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) patterns: Vec<String>,
    /// The patterns in FILE, one per line; `-` is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE", allow_hyphen_values = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) pattern_files: Vec<PathBuf>,
    /// Case does not matter.
    #[arg(short, long, overrides_with_all = ["case_sensitive", "smart_case"])]
    pub(crate) ignore_case: bool,
    /// Case matters where a pattern has an upper case letter.
    #[arg(short = 'S', long, overrides_with_all = ["case_sensitive", "ignore_case"])]
    pub(crate) smart_case: bool,
    /// Case matters; so it does by default.
    #[arg(short = 's', long, overrides_with_all = ["smart_case", "ignore_case"])]
    pub(crate) case_sensitive: bool,
    /// Patterns are text, not regular expressions.
    #[arg(short = 'F', long)]
    pub(crate) fixed_strings: bool,
    /// Matches are whole words.
    #[arg(short, long, overrides_with = "line_regexp")]
    pub(crate) word_regexp: bool,
    /// Matches are whole lines.
    #[arg(short = 'x', long, overrides_with = "word_regexp")]
    pub(crate) line_regexp: bool,
    /// Lines that do not match.
    #[arg(short = 'v', long)]
    pub(crate) invert_match: bool,
    /// Matches may go over several lines.
    #[arg(short = 'U', long)]
    pub(crate) multiline: bool,
    /// With -U, a dot matches line ends.
    #[arg(long)]
    pub(crate) multiline_dotall: bool,
    /// Lines may end in CR LF, and `$` matches before both.
    #[arg(long, overrides_with = "null_data")]
    pub(crate) crlf: bool,
    /// Lines end in NUL; files are read from the disk.
    #[arg(long, overrides_with = "crlf")]
    pub(crate) null_data: bool,
    /// `\w`, `\b`, `.` and case are those of ASCII and bytes.
    #[arg(long)]
    pub(crate) no_unicode: bool,
    /// At most NUM matching lines per file.
    #[arg(short, long, value_name = "NUM")]
    pub(crate) max_count: Option<u64>,
    /// No more of a file once a line does not match after one that did.
    #[arg(long)]
    pub(crate) stop_on_nonmatch: bool,
    /// Most memory for a compiled pattern.
    #[arg(long, value_name = "SIZE", value_parser = super::which::size)]
    pub(crate) regex_size_limit: Option<u64>,
    /// Most memory for the cache of its automaton.
    #[arg(long, value_name = "SIZE", value_parser = super::which::size)]
    pub(crate) dfa_size_limit: Option<u64>,
}
