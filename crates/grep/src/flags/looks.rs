//! What is printed.

use grep_printer::{HyperlinkFormat, UserColorSpec};

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "What is printed")]
pub(crate) struct Flags {
    /// Print only paths of files with a match.
    #[arg(short = 'l', long, overrides_with_all = ["files_without_match", "count", "count_matches", "json"])]
    pub(crate) files_with_matches: bool,
    /// Print only paths of files without a match.
    #[arg(long, overrides_with_all = ["files_with_matches", "count", "count_matches", "json"], hide_short_help = true)]
    pub(crate) files_without_match: bool,
    /// Print the number of matching lines per file.
    #[arg(short = 'c', long, overrides_with_all = ["files_with_matches", "files_without_match", "count_matches", "json"])]
    pub(crate) count: bool,
    /// Print the number of matches per file.
    #[arg(long, overrides_with_all = ["files_with_matches", "files_without_match", "count", "json"], hide_short_help = true)]
    pub(crate) count_matches: bool,
    /// Print JSON, one object per line, as ripgrep does.
    #[arg(long, overrides_with_all = ["files_with_matches", "files_without_match", "count", "count_matches"], hide_short_help = true)]
    pub(crate) json: bool,
    /// Include files without a match in -c.
    #[arg(long, hide_short_help = true)]
    pub(crate) include_zero: bool,
    /// Print nothing; exit with 0 if anything matched.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print only the matching parts of lines.
    #[arg(short, long)]
    pub(crate) only_matching: bool,
    /// Print TEXT in place of each match; $1 is a group.
    ///
    /// $1 and $name stand for the text that a group has matched.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) replace: Option<String>,
    /// Show NUM lines after each match.
    #[arg(short = 'A', long, value_name = "NUM", overrides_with = "passthru")]
    pub(crate) after_context: Option<usize>,
    /// Show NUM lines before each match.
    #[arg(short = 'B', long, value_name = "NUM", overrides_with = "passthru")]
    pub(crate) before_context: Option<usize>,
    /// Show NUM lines before and after each match.
    #[arg(short = 'C', long, value_name = "NUM", overrides_with = "passthru")]
    pub(crate) context: Option<usize>,
    /// Print all lines, with matches highlighted.
    #[arg(long, visible_alias = "passthrough", overrides_with_all = ["after_context", "before_context", "context"], hide_short_help = true)]
    pub(crate) passthru: bool,
    /// Show line numbers (the default on a terminal).
    #[arg(short = 'n', long, overrides_with = "no_line_number")]
    pub(crate) line_number: bool,
    /// Omit line numbers.
    #[arg(short = 'N', long, overrides_with = "line_number", hide_short_help = true)]
    pub(crate) no_line_number: bool,
    /// Show the column of the first match, from 1, in bytes.
    #[arg(long, overrides_with = "no_column", hide_short_help = true)]
    pub(crate) column: bool,
    /// Omit columns.
    #[arg(long, overrides_with = "column", hide_short_help = true)]
    pub(crate) no_column: bool,
    /// Show byte offsets of lines, or with -o of matches.
    #[arg(short, long, hide_short_help = true)]
    pub(crate) byte_offset: bool,
    /// Show paths (the default with several files).
    #[arg(short = 'H', long, overrides_with = "no_filename", hide_short_help = true)]
    pub(crate) with_filename: bool,
    /// Omit paths.
    #[arg(short = 'I', long, overrides_with = "with_filename", hide_short_help = true)]
    pub(crate) no_filename: bool,
    /// Print paths above their matches (the default on a terminal).
    #[arg(long, overrides_with = "no_heading", hide_short_help = true)]
    pub(crate) heading: bool,
    /// Print the path in each line.
    #[arg(long, overrides_with = "heading", hide_short_help = true)]
    pub(crate) no_heading: bool,
    /// Print as on a terminal: --color=always --heading --line-number.
    #[arg(short, long, hide_short_help = true)]
    pub(crate) pretty: bool,
    /// Print one line per match, with line and column.
    #[arg(long, hide_short_help = true)]
    pub(crate) vimgrep: bool,
    /// Print lines in the format of an editor, which can jump to them.
    #[arg(long, value_enum, value_name = "FORMAT", hide_short_help = true)]
    pub(crate) format: Option<Format>,
    /// When to use colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: Color,
    /// Set a colour: `{path,line,column,match}:{fg,bg,style}:VALUE`, or `match:none`. Example:
    /// match:fg:green.
    #[arg(long, value_name = "SPEC", hide_short_help = true)]
    pub(crate) colors: Vec<UserColorSpec>,
    /// Turn paths into links: a format, or default, file, vscode and others [default: none].
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    pub(crate) hyperlink_format: Option<HyperlinkFormat>,
    /// End paths with NUL.
    #[arg(short = '0', long, hide_short_help = true)]
    pub(crate) null: bool,
    /// Omit lines of more than NUM bytes; 0 means no limit.
    #[arg(short = 'M', long, value_name = "NUM", hide_short_help = true)]
    pub(crate) max_columns: Option<u64>,
    /// Print the start of lines that -M omits.
    #[arg(long, hide_short_help = true)]
    pub(crate) max_columns_preview: bool,
    /// Strip leading spaces from lines.
    #[arg(long, hide_short_help = true)]
    pub(crate) trim: bool,
    /// Separator between parts of a file [default: --].
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        overrides_with = "no_context_separator",
        hide_short_help = true
    )]
    pub(crate) context_separator: Option<String>,
    /// Print nothing between parts of a file.
    #[arg(long, overrides_with = "context_separator", hide_short_help = true)]
    pub(crate) no_context_separator: bool,
    /// Separator of path, number and text in matching lines [default: ':'].
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, hide_short_help = true)]
    pub(crate) field_match_separator: Option<String>,
    /// Separator of path, number and text in other lines [default: '-'].
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, hide_short_help = true)]
    pub(crate) field_context_separator: Option<String>,
    /// Print BYTE instead of the slash in paths.
    #[arg(long, value_name = "BYTE", hide_short_help = true)]
    pub(crate) path_separator: Option<String>,
    /// Order of files.
    ///
    /// If several paths are named, --sort=path and -j1 search them in the order of the command line.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t, hide_short_help = true)]
    pub(crate) sort: Sort,
    /// Stop after NUM lines in total.
    #[arg(long, value_name = "NUM", hide_short_help = true)]
    pub(crate) limit: Option<u64>,
    /// Write each line at once (the default for stdin on a terminal).
    ///
    /// A file with a match waits until the files before it are searched. Text of a database is written chunk
    /// by chunk. Example: tail -f log | faultless grep --line-buffered error - | cut -c1-80.
    #[arg(long, overrides_with = "block_buffered", hide_short_help = true)]
    pub(crate) line_buffered: bool,
    /// Write in large pieces (the default for files and pipes).
    #[arg(long, overrides_with = "line_buffered", hide_short_help = true)]
    pub(crate) block_buffered: bool,
    /// Print totals after the matches, as ripgrep does.
    ///
    /// Unlike ripgrep, a search with a database counts as searched only files that the index did not rule out.
    #[arg(long, hide_short_help = true)]
    pub(crate) stats: bool,
    /// Suppress messages about files that can't be read.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_messages: bool,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// Never
    Never,
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Like always
    Ansi,
}

/// An order of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// As found; fastest
    #[default]
    None,
    /// By path
    Path,
}

/// A form of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Visual Studio: `path(line):text`
    Vs,
}
