//! Flags -> how matches are printed.
//!
//! In: [`Args`]. Out: [`Looks`], with one of ripgrep's printers. This module does not print.

use grep_printer::{
    ColorSpecs, HyperlinkConfig, HyperlinkEnvironment, JSONBuilder, StandardBuilder, SummaryBuilder,
    SummaryKind,
};

use faultless_grepdb::engine::{LineFormat, OutputFormat, PlainFormat};

use crate::caller::Caller;
use crate::flags::Args;
use crate::flags::looks::{Color, Flags, Format, Sort};
use crate::scope::Scope;
use faultless_console::Failure;

pub(crate) struct Looks {
    pub(crate) format: OutputFormat,
    /// Separates the output of two files.
    pub(crate) separator: Vec<u8>,
    pub(crate) color: bool,
    pub(crate) line_number: bool,
    /// Whether totals follow the matches.
    pub(crate) stats: bool,
    /// Nothing is printed, so the first match is enough.
    pub(crate) only_whether: bool,
    /// Whether each line is written at once.
    pub(crate) at_once: bool,
    /// Whether files without a match matter.
    pub(crate) every_file: bool,
}

/// How the matches of `scope` are printed.
pub(crate) fn looks(args: &Args, scope: &Scope, caller: &Caller) -> Result<Looks, Failure> {
    let terminal = caller.sees_output();
    let flags = &args.looks;
    let vs = flags.format == Some(Format::Vs);
    let heading = !flags.vimgrep && !vs && !flags.no_heading && (flags.pretty || flags.heading || terminal);
    let column = flags.column || flags.vimgrep && !flags.no_column;
    let with_filename = flags.with_filename || !flags.no_filename && (flags.vimgrep || !scope.one_file);
    let summary = summary(args);
    let stats = flags.stats || flags.json;
    let line_number = if flags.no_line_number {
        false
    } else {
        let only_stdin = scope.one_file && scope.stdin.is_some();
        let standard = terminal && !only_stdin || column || flags.vimgrep || flags.pretty || vs;
        flags.line_number || flags.json || summary.is_none() && standard
    };
    let mut specs = grep_printer::default_color_specs();
    specs.extend(flags.colors.iter().cloned());
    let specs = ColorSpecs::new(&specs);
    let links = hyperlinks(flags);
    let terminator = (flags.null || vs).then_some(0);
    let path_separator = match &flags.path_separator {
        Some(separator) => one_byte(separator)?,
        None => vs.then_some(b'\\'),
    };
    let context = flags.context.unwrap_or(0).max(flags.before_context.unwrap_or(0));
    let context = context.max(flags.after_context.unwrap_or(0));
    let separator =
        |given: &Option<String>, usual| given.as_deref().map_or_else(|| usual, grep_cli::unescape);
    let context_separator =
        (!flags.no_context_separator).then(|| separator(&flags.context_separator, b"--".to_vec()));
    let between = separator(&flags.field_match_separator, b":".to_vec());
    let file_separator = match summary {
        None if heading && !flags.json => Some(Vec::new()),
        None if context > 0 && !flags.passthru && !flags.json => context_separator.clone(),
        _ => None,
    };
    // Only the printer of a sorted search knows the line end: ripgrep writes the separators of parallel searches
    // elsewhere.
    let line_end: &[u8] = match flags.sort {
        Sort::Path if args.matching.null_data => b"\0",
        Sort::Path if args.matching.crlf => b"\r\n",
        _ => b"\n",
    };
    let replacement = flags.replace.clone().map(String::into_bytes);
    let format = if let Some(kind) = summary {
        let mut builder = SummaryBuilder::new();
        builder
            .color_specs(specs)
            .exclude_zero(!flags.include_zero)
            .hyperlink(links)
            .kind(kind)
            .path(with_filename)
            .path_terminator(flags.null.then_some(0))
            .separator_field(b":".to_vec())
            .separator_path(path_separator)
            .stats(stats);
        let plain = match kind {
            SummaryKind::Count => Some(PlainFormat::Count { path: with_filename }),
            SummaryKind::PathWithMatch => Some(PlainFormat::Path),
            SummaryKind::QuietWithMatch => Some(PlainFormat::Nothing),
            _ => None,
        };
        let plain = plain.filter(|_| !stats && !flags.null && path_separator.is_none());
        OutputFormat::summary(builder, plain)
    } else if flags.json {
        let mut builder = JSONBuilder::new();
        builder.replacement(replacement);
        OutputFormat::json(builder)
    } else {
        let is_plain = !(flags.byte_offset
            || column
            || heading
            || flags.only_matching
            || flags.vimgrep
            || stats
            || flags.trim
            || flags.passthru
            || args.matching.crlf
            || args.matching.multiline
            || args.matching.null_data)
            && context == 0
            && flags.max_columns.is_none_or(|columns| columns == 0)
            && terminator.is_none()
            && replacement.is_none()
            && path_separator.is_none()
            && between == b":";
        let plain = is_plain.then_some(LineFormat { path: with_filename, number: line_number });
        let mut builder = StandardBuilder::new();
        builder
            .byte_offset(flags.byte_offset)
            .color_specs(specs)
            .column(column)
            .heading(heading)
            .hyperlink(links)
            .max_columns(flags.max_columns.filter(|&columns| columns > 0))
            .max_columns_preview(flags.max_columns_preview)
            .only_matching(flags.only_matching)
            .path(with_filename)
            .path_terminator(terminator)
            .per_match_one_line(true)
            .per_match(flags.vimgrep)
            .replacement(replacement)
            .separator_context(context_separator)
            .separator_field_context(separator(&flags.field_context_separator, b"-".to_vec()))
            .separator_field_match(between)
            .separator_path(path_separator)
            .separator_search(file_separator.clone())
            .stats(stats)
            .trim_ascii(flags.trim);
        OutputFormat::standard(builder, plain)
    };
    Ok(Looks {
        format,
        separator: file_separator.map_or(Vec::new(), |separator| [&separator[..], line_end].concat()),
        color: color(flags, caller),
        line_number,
        stats,
        at_once: flags.line_buffered || terminal && !flags.block_buffered && scope.stdin.is_some(),
        only_whether: flags.quiet && !stats,
        every_file: flags.files_without_match || flags.include_zero,
    })
}

/// The summary that is printed for each file. `None` if lines are printed.
fn summary(args: &Args) -> Option<SummaryKind> {
    let flags = &args.looks;
    let inverted = args.matching.invert_match;
    Some(if flags.quiet && flags.files_without_match {
        SummaryKind::QuietWithoutMatch
    } else if flags.quiet {
        SummaryKind::QuietWithMatch
    } else if flags.files_with_matches {
        SummaryKind::PathWithMatch
    } else if flags.files_without_match {
        SummaryKind::PathWithoutMatch
    } else if (flags.count_matches || flags.count && flags.only_matching) && !inverted {
        SummaryKind::CountMatches
    } else if flags.count || flags.count_matches {
        SummaryKind::Count
    } else {
        return None;
    })
}

fn color(flags: &Flags, caller: &Caller) -> bool {
    match flags.color {
        Color::Always | Color::Ansi => true,
        Color::Never => false,
        Color::Auto if flags.pretty => true,
        Color::Auto => caller.sees_output() && caller.likes_colour,
    }
}

fn hyperlinks(flags: &Flags) -> HyperlinkConfig {
    let Some(format) = &flags.hyperlink_format else { return HyperlinkConfig::default() };
    let mut environment = HyperlinkEnvironment::new();
    let host = grep_cli::hostname().ok().and_then(|host| host.into_string().ok());
    environment.host(host);
    HyperlinkConfig::new(environment, format.clone())
}

fn one_byte(separator: &str) -> Result<Option<u8>, Failure> {
    match grep_cli::unescape(separator)[..] {
        [] => Ok(None),
        [byte] => Ok(Some(byte)),
        _ => Err(Failure(format!("--path-separator {separator}: more than one byte; name one, such as /"))),
    }
}
