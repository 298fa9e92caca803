//! A record as one HTML document: all claims with their verdicts, the machine, and each experiment with its question, plots,
//! claims, cells, how it was measured, and the command to repeat it.

use faultless_trace::verdict::Verdict;
use maud::{Markup, PreEscaped, html};

use super::figure::{Figure, name, range, shown};
use super::frame;
use crate::svg::{self, Plot};

/// A record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// What it was asked for, in words.
    pub asked: String,
    /// What was measured, in words: cells, samples, rounds.
    pub measured: String,
    /// Why it is not whole, if it is not.
    pub unfinished: Option<String>,
    /// The machine: names and values.
    pub machine: Vec<(String, String)>,
    /// Counts, checksums and times that can't be right, a line each.
    pub violations: Vec<String>,
    /// What the documents claim, document by document.
    pub claims: Vec<Claim>,
    /// The experiments.
    pub experiments: Vec<Experiment>,
}

/// What a document claims, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// A fixed name.
    pub id: String,
    /// The document's title.
    pub document: String,
    /// The experiment that answers it.
    pub experiment: String,
    /// The claim in one sentence.
    pub says: String,
    /// The document's own words.
    pub quote: String,
    /// Its figure there.
    pub there: String,
    /// Its figure here; empty where there is none.
    pub here: String,
    /// What became of it.
    pub verdict: Verdict,
    /// One line: why it differs, or what was not measured.
    pub why: String,
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Refuted => "refuted",
        Verdict::Modelled => "modelled",
        Verdict::CannotSay => "unknown",
    }
}

/// One experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub question: String,
    /// Titles of the documents that the question comes from.
    pub sources: Vec<String>,
    /// Its pictures.
    pub plots: Vec<Plot>,
    /// The document's tables, with our rows.
    pub tables: Vec<Table>,
    /// Names of the parameters of its cells.
    pub parameters: Vec<String>,
    /// A row for each phase of each cell.
    pub rows: Vec<Row>,
    /// How it was measured, a sentence each.
    pub how: Vec<String>,
    /// Cells that the machine can't do: which, and why.
    pub refused: Vec<String>,
    /// The command that measures it again.
    pub command: String,
}

/// A table of a document, with our rows beside its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A fixed name, for files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Its columns; the first says whose a row is.
    pub heads: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<TableRow>,
    /// How to read it.
    pub remark: String,
}

/// One row of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// Whether the document says so; else it was measured.
    pub is_document: bool,
    /// One for each column.
    pub texts: Vec<String>,
}

/// A table for other programs.
pub fn csv(table: &Table) -> String {
    let rows = table.rows.iter().map(|row| &row.texts);
    let lines = std::iter::once(&table.heads).chain(rows);
    let line = |texts: &Vec<String>| {
        let texts: Vec<String> = texts.iter().map(|text| svg::quoted(text)).collect();
        texts.join(",") + "\n"
    };
    lines.map(line).collect()
}

/// One phase of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// A value for each of the experiment's parameters; empty where the cell has none.
    pub parameters: Vec<String>,
    /// The phase.
    pub phase: String,
    /// Samples.
    pub samples: usize,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// The least and the most faults that it must take.
    pub faults: Option<(f64, f64)>,
    /// What was wrong with it, if anything.
    pub violations: Vec<String>,
}

/// Columns of their own where there is such a figure; the other quantities share one.
const TIMES: [&str; 4] = ["wall_ns", "cpu_ns", "user_ns", "system_ns"];
const MINOR: &str = "minor_faults";
const MAJOR: &str = "major_faults";
/// More rows than this are folded.
const FOLDED_FROM: usize = 25;
/// Leaves only the rows of one verdict.
const FILTERS: &str = "#verdict-reproduced:checked~* tr.claim:not(.reproduced),#verdict-refuted:checked~* tr.claim:not(.refuted),\
#verdict-modelled:checked~* tr.claim:not(.modelled),\
#verdict-unknown:checked~* tr.claim:not(.unknown){display:none}";

impl Report {
    /// The whole document.
    pub fn html(&self) -> String {
        let title = format!("faultless lab: {}", self.name);
        let body = html! {
            header {
                h1 { (title) }
                p.lead { (self.tally()) }
                p.faint { (self.asked) " " (self.measured) }
                @if let Some(why) = &self.unfinished {
                    div.alarm { p { strong { "Not whole. " } (why) } }
                }
                (violations(&self.violations))
                nav {
                    a href="#claims" { "claims" } a href="#machine" { "machine" }
                    @for experiment in &self.experiments {
                        a href={ "#" (experiment.name) } { (experiment.name) }
                    }
                }
            }
            section.part id="claims" {
                h2 { "What the documents claim, and what this machine says" }
                (self.filter())
                div.scroll { (claims(&self.claims.iter().collect::<Vec<_>>(), true)) }
            }
            section.part id="machine" { h2 { "The machine" } (frame::facts(&self.machine)) }
            @for experiment in &self.experiments { (self.experiment(experiment)) }
        };
        frame::document(&title, &format!("{}{FILTERS}", svg::style()), &body)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }

    fn tally(&self) -> String {
        let counts = Verdict::ALL.map(|verdict| format!("{} {}", self.count(verdict), verdict.words()));
        format!("{} claims: {}.", self.claims.len(), counts.join(", "))
    }

    fn filter(&self) -> Markup {
        let mut choices = vec![("all", format!("all {}", self.claims.len()))];
        let each = Verdict::ALL.map(|v| (class(v), format!("{} {}", self.count(v), v.words())));
        choices.extend(each);
        frame::filter("verdict", &choices, 0)
    }

    fn experiment(&self, experiment: &Experiment) -> Markup {
        let own: Vec<&Claim> =
            self.claims.iter().filter(|claim| claim.experiment == experiment.name).collect();
        let cells = html! {
            div.scroll { (cells(experiment)) }
        };
        let summary = format!("all {} rows", experiment.rows.len());
        html! {
            section.part id=(experiment.name) {
                h2 { (experiment.name) }
                p.lead { (experiment.question) }
                p.faint { "from " (experiment.sources.join("; ")) }
                @if !experiment.plots.is_empty() {
                    div.charts {
                        @for plot in &experiment.plots { figure { (PreEscaped(svg::inline(plot))) } }
                    }
                }
                @for found in &experiment.tables { (table(found)) }
                @if !own.is_empty() { h3 { "Claims" } div.scroll { (claims(&own, false)) } }
                h3 { "Cells: medians with their intervals, faults beside those that must be" }
                @match experiment.rows.len() {
                    0 => p.faint { "Nothing was measured." },
                    1..FOLDED_FROM => (cells),
                    _ => details { summary { (summary) } (cells) },
                }
                @if !experiment.refused.is_empty() {
                    details {
                        summary { "Left out: " (experiment.refused.len()) }
                        ul { @for line in &experiment.refused { li { (line) } } }
                    }
                }
                h3 { "How it was measured" }
                @for sentence in &experiment.how { p { (sentence) } }
                p { "To repeat it:" }
                pre { (experiment.command) }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        h3 { (table.title) }
        div.scroll {
            table.figures.cards {
                thead { tr { @for head in &table.heads { th.right { (head) } } } }
                tbody {
                    @for row in &table.rows {
                        tr.theirs[row.is_document] {
                            @for (head, text) in table.heads.iter().zip(&row.texts) {
                                @if head.is_empty() { td { (text) } } @else { (named(head, &html! { (text) })) }
                            }
                        }
                    }
                }
            }
        }
        @if !table.remark.is_empty() { p.faint { (table.remark) } }
    }
}

/// A figure with its column's name, which is said where there are no columns; nothing where there is none.
pub(super) fn named(name: &str, shown: &Markup) -> Markup {
    html! {
        @if shown.0.is_empty() { td {} } @else { td.right data-name={ (name) ":" } { (shown) } }
    }
}

fn violations(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            div.alarm {
                p { strong { "Samples that can't be right: " (lines.len()) ". " } "They are left out of all figures." }
                @for line in lines.iter().take(FOLDED_FROM) { p { (line) } }
                @if lines.len() > FOLDED_FROM { p { "and " (lines.len() - FOLDED_FROM) " more" } }
            }
        }
    }
}

/// A table of claims, with the documents as heads of their parts where all are shown.
fn claims(claims: &[&Claim], is_whole: bool) -> Markup {
    html! {
        table.cards {
            thead {
                tr { th { "verdict" } th { "claim" } th { "there" } th { "here" } th { "why" } }
            }
            tbody {
                @for (index, claim) in claims.iter().enumerate() {
                    @if is_whole && (index == 0 || claims[index - 1].document != claim.document) {
                        tr.document { td colspan="5" { (claim.document) } }
                    }
                    tr.claim.(class(claim.verdict)) {
                        td { span.verdict { (claim.verdict.words()) } }
                        td title=(claim.quote) {
                            (claim.says)
                            @if is_whole { small { a href={ "#" (claim.experiment) } { (claim.experiment) } " " (claim.id) } }
                        }
                        td data-name="there:" { (claim.there) }
                        td data-name="here:" { @if claim.here.is_empty() { "-" } @else { (claim.here) } }
                        td { (claim.why) }
                    }
                }
            }
        }
    }
}

fn cells(experiment: &Experiment) -> Markup {
    let figures = || experiment.rows.iter().flat_map(|row| &row.figures);
    let is_there = |quantity: &&str| figures().any(|figure| figure.quantity == *quantity);
    let times: Vec<&str> = TIMES.into_iter().filter(is_there).collect();
    html! {
        table.figures.cards.dense {
            thead {
                tr {
                    @for parameter in &experiment.parameters { th { (parameter) } }
                    th { "phase" } th.right { "rounds" }
                    @for quantity in &times { th.right { (name(quantity)) } }
                    th.right { "faults" } th.right { "must be" } th { "besides" }
                }
            }
            tbody { @for row in &experiment.rows { (cell(row, &experiment.parameters, &times)) } }
        }
    }
}

fn cell(row: &Row, parameters: &[String], times: &[&str]) -> Markup {
    let find = |quantity: &str| row.figures.iter().find(|figure| figure.quantity == quantity);
    let besides = row.figures.iter().filter(|figure| {
        let is_major = figure.quantity == MAJOR && figure.found.high == 0.0;
        !is_major && figure.quantity != MINOR && !TIMES.contains(&figure.quantity.as_str())
    });
    let must = row.faults.map(|(least, most)| {
        let [least, most] = [least, most].map(|faults| shown(MINOR, faults));
        if least == most { least } else { format!("{least} to {most}") }
    });
    let besides: Vec<String> = besides
        .map(|figure| format!("{} {}", name(&figure.quantity), shown(&figure.quantity, figure.found.value)))
        .collect();
    html! {
        tr.wrong[!row.violations.is_empty()] title=[row.violations.first()] {
            @for (name, value) in parameters.iter().zip(&row.parameters) {
                @if value.is_empty() { td {} } @else { td data-name={ (name) ":" } { (value) } }
            }
            td data-name="phase:" { (row.phase) }
            (named("rounds", &html! { (row.samples) }))
            @for quantity in times { (named(&name(quantity), &figure(find(quantity)))) }
            (named("faults", &figure(find(MINOR))))
            (named("must be", &html! { (must.unwrap_or_default()) }))
            @if besides.is_empty() { td {} } @else { td.faint.besides data-name="besides:" { (besides.join(", ")) } }
        }
    }
}

fn figure(found: Option<&Figure>) -> Markup {
    html! {
        @if let Some(Figure { quantity, found }) = found {
            (shown(quantity, found.value)) (small(&range(quantity, found)))
        }
    }
}

/// A line below a figure, where there is something to say.
pub(super) fn small(text: &str) -> Markup {
    html! { @if !text.is_empty() { small { (text) } } }
}
