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

/// Whatever flags add to lines, counts and paths. ripgrep's printers get it from here alone. So where it is the default,
/// there is nothing but lines, counts or paths, and no flag is forgotten.
#[derive(Debug, Default, PartialEq)]
struct Extras {
    color: bool,
    stats: bool,
    include_zero: bool,
    byte_offset: bool,
    column: bool,
    heading: bool,
    only_matching: bool,
    per_match: bool,
    trim: bool,
    /// Lines around a match.
    context: bool,
    max_columns: Option<u64>,
    max_columns_preview: bool,
    path_terminator: Option<u8>,
    path_separator: Option<u8>,
    replacement: Option<Vec<u8>>,
    match_separator: Option<Vec<u8>>,
    context_field_separator: Option<Vec<u8>>,
}

/// How the matches of `scope` are printed.
pub(crate) fn looks(args: &Args, scope: &Scope, caller: &Caller) -> Result<Looks, Failure> {
    let terminal = caller.sees_output();
    let flags = &args.looks;
    let vs = flags.format == Some(Format::Vs);
    let with_filename = flags.with_filename || !flags.no_filename && (flags.vimgrep || !scope.one_file);
    let summary = summary(args);
    let extras = extras(flags, caller, summary)?;
    let line_number = if flags.no_line_number {
        false
    } else {
        let only_stdin = scope.one_file && scope.stdin.is_some();
        let standard = terminal && !only_stdin || extras.column || flags.vimgrep || flags.pretty || vs;
        flags.line_number || flags.json || summary.is_none() && standard
    };
    let context_separator = match flags.no_context_separator {
        true => None,
        false => Some(flags.context_separator.as_deref().map_or(b"--".to_vec(), grep_cli::unescape)),
    };
    let file_separator = match summary {
        None if extras.heading && !flags.json => Some(Vec::new()),
        None if extras.context && !flags.passthru && !flags.json => context_separator.clone(),
        _ => None,
    };
    // Only the printer of a sorted search knows the line end: ripgrep writes the separators of parallel searches
    // elsewhere.
    let line_end: &[u8] = match flags.sort {
        Sort::Path if args.matching.null_data => b"\0",
        Sort::Path if args.matching.crlf => b"\r\n",
        _ => b"\n",
    };
    let lines = LineFormat { path: with_filename, number: line_number };
    let is_plain = extras == Extras::default();
    let format =
        match (summary, summary.map_or(Some(PlainFormat::Lines(lines)), |kind| plain(kind, with_filename))) {
            (None, _) if flags.json => {
                let mut builder = JSONBuilder::new();
                builder.replacement(extras.replacement);
                OutputFormat::Json(builder)
            }
            (_, Some(plain)) if is_plain => OutputFormat::Plain(plain),
            (Some(kind), _) => OutputFormat::Summary {
                builder: counts(flags, &extras, kind, with_filename),
                color: extras.color,
            },
            (None, _) => {
                let mut builder = standard(flags, &extras, with_filename);
                builder.separator_context(context_separator).separator_search(file_separator.clone());
                OutputFormat::Standard { builder, color: extras.color }
            }
        };
    Ok(Looks {
        format,
        separator: file_separator.map_or(Vec::new(), |separator| [&separator[..], line_end].concat()),
        line_number,
        stats: extras.stats,
        at_once: flags.line_buffered || terminal && !flags.block_buffered && scope.stdin.is_some(),
        only_whether: flags.quiet && !extras.stats,
        every_file: flags.files_without_match || flags.include_zero,
    })
}

fn extras(flags: &Flags, caller: &Caller, summary: Option<SummaryKind>) -> Result<Extras, Failure> {
    let vs = flags.format == Some(Format::Vs);
    let separator = |given: &Option<String>| given.as_deref().map(grep_cli::unescape);
    let in_lines = summary.is_none();
    let context = [flags.context, flags.before_context, flags.after_context];
    Ok(Extras {
        color: color(flags, caller),
        stats: flags.stats || flags.json,
        include_zero: flags.include_zero,
        byte_offset: flags.byte_offset,
        column: flags.column || flags.vimgrep && !flags.no_column,
        heading: !flags.vimgrep
            && !vs
            && !flags.no_heading
            && (flags.pretty || flags.heading || caller.sees_output()),
        only_matching: flags.only_matching,
        per_match: flags.vimgrep,
        trim: flags.trim,
        context: context.into_iter().flatten().any(|lines| lines > 0),
        max_columns: flags.max_columns.filter(|&columns| columns > 0),
        max_columns_preview: flags.max_columns_preview,
        path_terminator: (flags.null || vs && in_lines).then_some(0),
        path_separator: match &flags.path_separator {
            Some(separator) => one_byte(separator)?,
            None => vs.then_some(b'\\'),
        },
        replacement: flags.replace.clone().map(String::into_bytes),
        match_separator: separator(&flags.field_match_separator),
        context_field_separator: separator(&flags.field_context_separator),
    })
}

/// The printer of lines, without the separators of files and of their parts.
fn standard(flags: &Flags, extras: &Extras, path: bool) -> StandardBuilder {
    let separator = |given: &Option<Vec<u8>>, usual: &[u8]| given.clone().unwrap_or_else(|| usual.to_vec());
    let mut builder = StandardBuilder::new();
    builder
        .byte_offset(extras.byte_offset)
        .color_specs(color_specs(flags))
        .column(extras.column)
        .heading(extras.heading)
        .hyperlink(hyperlinks(flags))
        .max_columns(extras.max_columns)
        .max_columns_preview(extras.max_columns_preview)
        .only_matching(extras.only_matching)
        .path(path)
        .path_terminator(extras.path_terminator)
        .per_match_one_line(true)
        .per_match(extras.per_match)
        .replacement(extras.replacement.clone())
        .separator_field_context(separator(&extras.context_field_separator, b"-"))
        .separator_field_match(separator(&extras.match_separator, b":"))
        .separator_path(extras.path_separator)
        .stats(extras.stats)
        .trim_ascii(extras.trim);
    builder
}

/// The printer of counts and paths.
fn counts(flags: &Flags, extras: &Extras, kind: SummaryKind, path: bool) -> SummaryBuilder {
    let mut builder = SummaryBuilder::new();
    builder
        .color_specs(color_specs(flags))
        .exclude_zero(!extras.include_zero)
        .hyperlink(hyperlinks(flags))
        .kind(kind)
        .path(path)
        .path_terminator(extras.path_terminator)
        .separator_field(b":".to_vec())
        .separator_path(extras.path_separator)
        .stats(extras.stats);
    builder
}

/// A summary that can be printed without a printer.
fn plain(kind: SummaryKind, path: bool) -> Option<PlainFormat> {
    match kind {
        SummaryKind::Count => Some(PlainFormat::Count { path }),
        SummaryKind::PathWithMatch => Some(PlainFormat::Path),
        SummaryKind::QuietWithMatch => Some(PlainFormat::Nothing),
        _ => None,
    }
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

fn color_specs(flags: &Flags) -> ColorSpecs {
    let mut specs = grep_printer::default_color_specs();
    specs.extend(flags.colors.iter().cloned());
    ColorSpecs::new(&specs)
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
