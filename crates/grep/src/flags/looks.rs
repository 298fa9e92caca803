//! What is printed.

use grep_printer::{HyperlinkFormat, UserColorSpec};

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "What is printed")]
pub(crate) struct Flags {
    /// Only the paths of files with a match.
    #[arg(short = 'l', long, overrides_with_all = ["files_without_match", "count", "count_matches", "json"])]
    pub(crate) files_with_matches: bool,
    /// Only the paths of files without a match.
    #[arg(long, overrides_with_all = ["files_with_matches", "count", "count_matches", "json"])]
    pub(crate) files_without_match: bool,
    /// Only the number of matching lines of each file.
    #[arg(short = 'c', long, overrides_with_all = ["files_with_matches", "files_without_match", "count_matches", "json"])]
    pub(crate) count: bool,
    /// Only the number of matches of each file.
    #[arg(long, overrides_with_all = ["files_with_matches", "files_without_match", "count", "json"])]
    pub(crate) count_matches: bool,
    /// JSON, an object per line, as ripgrep's.
    #[arg(long, overrides_with_all = ["files_with_matches", "files_without_match", "count", "count_matches"])]
    pub(crate) json: bool,
    /// With -c, also files without a match.
    #[arg(long)]
    pub(crate) include_zero: bool,
    /// Nothing; the exit status tells whether there is a match.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Only the matching parts of lines.
    #[arg(short, long)]
    pub(crate) only_matching: bool,
    /// TEXT instead of each match; $1 and $name are what groups have matched.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) replace: Option<String>,
    /// NUM lines after each match.
    #[arg(short = 'A', long, value_name = "NUM", overrides_with = "passthru")]
    pub(crate) after_context: Option<usize>,
    /// NUM lines before each match.
    #[arg(short = 'B', long, value_name = "NUM", overrides_with = "passthru")]
    pub(crate) before_context: Option<usize>,
    /// NUM lines before and after each match.
    #[arg(short = 'C', long, value_name = "NUM", overrides_with = "passthru")]
    pub(crate) context: Option<usize>,
    /// All lines of files, with matches highlighted.
    #[arg(long, visible_alias = "passthrough", overrides_with_all = ["after_context", "before_context", "context"])]
    pub(crate) passthru: bool,
    /// Line numbers; so it is on a terminal.
    #[arg(short = 'n', long, overrides_with = "no_line_number")]
    pub(crate) line_number: bool,
    /// No line numbers.
    #[arg(short = 'N', long, overrides_with = "line_number")]
    pub(crate) no_line_number: bool,
    /// Columns of first matches, from 1, in bytes.
    #[arg(long, overrides_with = "no_column")]
    pub(crate) column: bool,
    /// No columns.
    #[arg(long, overrides_with = "column")]
    pub(crate) no_column: bool,
    /// Offsets of lines, or with -o of matches, in bytes.
    #[arg(short, long)]
    pub(crate) byte_offset: bool,
    /// Paths; so it is where more than one file is searched.
    #[arg(short = 'H', long, overrides_with = "no_filename")]
    pub(crate) with_filename: bool,
    /// No paths.
    #[arg(short = 'I', long, overrides_with = "with_filename")]
    pub(crate) no_filename: bool,
    /// Paths above their matches; so it is on a terminal.
    #[arg(long, overrides_with = "no_heading")]
    pub(crate) heading: bool,
    /// Paths in each line.
    #[arg(long, overrides_with = "heading")]
    pub(crate) no_heading: bool,
    /// Like on a terminal: --color=always --heading --line-number.
    #[arg(short, long)]
    pub(crate) pretty: bool,
    /// A line per match, with line and column.
    #[arg(long)]
    pub(crate) vimgrep: bool,
    /// `vs`: `path(line):`, which Visual Studio jumps to.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// When there are colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: Color,
    /// Colours: `{path,line,column,match}:{fg,bg,style}:VALUE`, or `match:none`.
    #[arg(long, value_name = "SPEC")]
    pub(crate) colors: Vec<UserColorSpec>,
    /// Paths are links: a format, or default, none, file, vscode and others; none by default.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) hyperlink_format: Option<HyperlinkFormat>,
    /// A NUL byte after paths.
    #[arg(short = '0', long)]
    pub(crate) null: bool,
    /// No lines of more than NUM bytes; 0 is no limit.
    #[arg(short = 'M', long, value_name = "NUM")]
    pub(crate) max_columns: Option<u64>,
    /// The beginnings of such lines.
    #[arg(long)]
    pub(crate) max_columns_preview: bool,
    /// Without the spaces at the beginnings of lines.
    #[arg(long)]
    pub(crate) trim: bool,
    /// Between parts of a file; `--` by default.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, overrides_with = "no_context_separator")]
    pub(crate) context_separator: Option<String>,
    /// Nothing between parts of a file.
    #[arg(long, overrides_with = "context_separator")]
    pub(crate) no_context_separator: bool,
    /// Between path, number and text of a match; `:` by default.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) field_match_separator: Option<String>,
    /// Between path, number and text of other lines; `-` by default.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) field_context_separator: Option<String>,
    /// Instead of the slash in paths.
    #[arg(long, value_name = "BYTE")]
    pub(crate) path_separator: Option<String>,
    /// In which order files come.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: Sort,
    /// At most NUM lines in all.
    #[arg(long, value_name = "NUM")]
    pub(crate) limit: Option<u64>,
    /// What is found in a file is written once it has been searched, to files and pipes, too.
    #[arg(long, overrides_with = "_block_buffered")]
    pub(crate) line_buffered: bool,
    /// Files and pipes are written when there is much to write; so it is by default.
    #[arg(long = "block-buffered", overrides_with = "line_buffered")]
    _block_buffered: bool,
    /// Totals after the matches, as ripgrep's.
    #[arg(long)]
    pub(crate) stats: bool,
    /// Nothing about what could not be read.
    #[arg(long)]
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
    /// The same
    Ansi,
}

/// An order of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// As they are found: the fastest
    #[default]
    None,
    /// By path
    Path,
}

/// A form of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// `path(line):text`
    Vs,
}
