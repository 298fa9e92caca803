//! Queries for paths or lines, and how their hits are printed.

use std::io::IsTerminal;

use faultless_grepdb::engine::{PathFilter, PathMatch, PathQueryKind};

use faultless_console::Failure;

/// How a query is meant.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Way {
    /// Regular expression for the whole path (qgrep's fp).
    #[default]
    Path,
    /// Regular expression for the name after the last slash (fn).
    Name,
    /// Words in the name, all required; a word with a slash may be anywhere in the path (fs).
    Words,
    /// Letters in this order; best results first (ff).
    Fuzzy,
}

/// When there is colour.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Color {
    /// On a terminal.
    #[default]
    Auto,
    Always,
    Never,
}

/// A query's options.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Matching {
    /// Kind of query.
    #[arg(long, value_name = "WAY", default_value = "path")]
    by: Way,
    /// Ignore case.
    #[arg(short, long)]
    ignore_case: bool,
    /// Show at most N results.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// When to highlight the matching parts.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// A line that matches a query.
pub(crate) struct Hit {
    pub(crate) line: Vec<u8>,
    found: PathMatch,
}

impl Matching {
    /// The filter of a query. The empty query matches all lines.
    pub(crate) fn filter(&self, query: &str) -> Result<PathFilter, Failure> {
        let by = match self.by {
            Way::Path => PathQueryKind::Path,
            Way::Name => PathQueryKind::Name,
            Way::Words => PathQueryKind::Words,
            Way::Fuzzy => PathQueryKind::Fuzzy,
        };
        Ok(PathFilter::new(query, by, self.ignore_case)?.spans(self.colors()))
    }

    /// The matching `lines` that pass `kept`, up to the limit: in their order, or the best first.
    pub(crate) fn hits(
        &self,
        filter: &mut PathFilter,
        lines: impl Iterator<Item = Vec<u8>>,
        kept: impl FnMut(&Hit) -> bool,
    ) -> Vec<Hit> {
        let most = self.limit.unwrap_or(usize::MAX);
        let hits = lines.filter_map(|line| Some(Hit { found: filter.find(&line)?, line }));
        match self.by {
            Way::Fuzzy => best(hits.collect()).into_iter().filter(kept).take(most).collect(),
            _ => hits.filter(kept).take(most).collect(),
        }
    }

    /// Sorts hits of several databases, the best first if the query ranks them. Keeps as many as the limit
    /// allows.
    pub(crate) fn best(&self, mut hits: Vec<Hit>) -> Vec<Hit> {
        if matches!(self.by, Way::Fuzzy) {
            hits = best(hits);
        }
        hits.truncate(self.limit.unwrap_or(usize::MAX));
        hits
    }

    pub(crate) fn show(&self, hit: &Hit, end: u8, out: &mut Vec<u8>) {
        let mut at = 0;
        if self.colors() {
            for span in &hit.found.spans {
                out.extend_from_slice(&hit.line[at..span.start]);
                out.extend_from_slice(b"\x1b[1m\x1b[31m");
                out.extend_from_slice(&hit.line[span.clone()]);
                out.extend_from_slice(b"\x1b[0m");
                at = span.end;
            }
        }
        out.extend_from_slice(&hit.line[at..]);
        out.push(end);
    }

    fn colors(&self) -> bool {
        match self.color {
            Color::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            Color::Always => true,
            Color::Never => false,
        }
    }
}

/// The best first. Of two equally good ones the shorter comes first.
fn best(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by(|a, b| (b.found.score, a.line.len()).cmp(&(a.found.score, b.line.len())));
    hits
}
