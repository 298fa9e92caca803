//! A record as one HTML document: the claims with their verdicts, the machine, and the experiments.

use faultless_trace::verdict::Verdict;
use maud::{Markup, PreEscaped, html};

use super::quantity::{Quantity, name, range, shown};
use crate::frame;
use crate::svg::{self, Plot};

/// A record, ready to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The name of the record.
    pub name: String,
    /// The effort that was asked for, in words.
    pub asked: String,
    /// What was measured, in words: cells, samples, rounds.
    pub measured: String,
    /// Why the record is incomplete, if it is.
    pub unfinished: Option<String>,
    /// The machine: names and values.
    pub machine: Vec<(String, String)>,
    /// Counts, checksums and times that can't be right, a line each.
    pub violations: Vec<String>,
    /// The claims, document by document.
    pub claims: Vec<Claim>,
    /// The experiments of the record.
    pub experiments: Vec<Experiment>,
}

/// A claim of a document, and its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// A fixed name.
    pub id: String,
    /// The title of the document.
    pub document: String,
    /// The experiment that answers the claim.
    pub experiment: String,
    /// The claim in one sentence.
    pub says: String,
    /// The document's own words.
    pub quote: String,
    /// The document's figure.
    pub there: String,
    /// The figure measured here; empty if there is none.
    pub here: String,
    /// What the record says of the claim.
    pub verdict: Verdict,
    /// One line: why the figures differ, or what was not measured.
    pub why: String,
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Refuted => "refuted",
        Verdict::CannotSay => "unknown",
    }
}

/// An experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// The name of the experiment.
    pub name: String,
    /// The question that it answers.
    pub question: String,
    /// Titles of the documents that ask the question.
    pub sources: Vec<String>,
    /// The pictures of its results.
    pub plots: Vec<Plot>,
    /// The document's tables, with our rows.
    pub tables: Vec<Table>,
    /// Names of its parameters.
    pub parameters: Vec<String>,
    /// A row for each phase of each cell.
    pub rows: Vec<PhaseRow>,
    /// How it was measured, a sentence each.
    pub how: Vec<String>,
    /// Cells that the machine can't measure, with the reason.
    pub refused: Vec<String>,
    /// The command that measures it again.
    pub command: String,
}

/// A document's table, with our rows beside the document's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A fixed name, for files.
    pub id: String,
    /// What the table shows.
    pub title: String,
    /// The columns. The first says whose a row is.
    pub heads: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<TableRow>,
    /// How to read the table.
    pub remark: String,
}

/// A row of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// Whether the row comes from the document; else it was measured.
    pub is_document: bool,
    /// A text for each column.
    pub texts: Vec<String>,
}

/// The table as CSV.
pub fn csv(table: &Table) -> String {
    let rows = table.rows.iter().map(|row| &row.texts);
    let lines = std::iter::once(&table.heads).chain(rows);
    let line = |texts: &Vec<String>| {
        let texts: Vec<String> = texts.iter().map(|text| svg::quoted(text)).collect();
        texts.join(",") + "\n"
    };
    lines.map(line).collect()
}

/// A phase of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseRow {
    /// A value for each parameter of the experiment; empty if the cell lacks that parameter.
    pub parameters: Vec<String>,
    /// The name of the phase.
    pub phase: String,
    /// How many samples there are.
    pub samples: usize,
    /// The quantities that were measured.
    pub quantities: Vec<Quantity>,
    /// The fewest and the most faults that the phase must take.
    pub faults: Option<(f64, f64)>,
    /// What was wrong with the samples.
    pub violations: Vec<String>,
}

/// Quantities with a column of their own. All others share one column.
const TIMES: [&str; 4] = ["wall_ns", "cpu_ns", "user_ns", "system_ns"];
const MINOR: &str = "minor_faults";
const MAJOR: &str = "major_faults";
/// Tables with more rows are folded.
const FOLDED_FROM: usize = 25;
/// CSS that hides all claims but those with the chosen verdict.
const FILTERS: &str = "#verdict-reproduced:checked~* tr.claim:not(.reproduced),#verdict-refuted:checked~* tr.claim:not(.refuted),\
#verdict-unknown:checked~* tr.claim:not(.unknown){display:none}";

impl Report {
    /// The record as one HTML document.
    pub fn html(&self) -> String {
        let title = format!("faultless lab: {}", self.name);
        let has_claims = !self.claims.is_empty() || self.experiments.is_empty();
        let body = html! {
            header {
                h1 { (title) }
                @if has_claims { p.lead { (self.tally()) } }
                p.faint { (self.asked) " " (self.measured) }
                @if let Some(why) = &self.unfinished {
                    div.alarm { p { strong { "Not whole. " } (why) } }
                }
                (violations(&self.violations))
                nav {
                    @if has_claims { a href="#claims" { "claims" } }
                    a href="#machine" { "machine" }
                    @for experiment in &self.experiments {
                        a href={ "#" (experiment.name) } { (experiment.name) }
                    }
                }
            }
            @if has_claims {
                section.part id="claims" {
                    h2 { "What the documents claim, and what this machine says" }
                    (self.filter())
                    div.scroll { (claims(&self.claims.iter().collect::<Vec<_>>(), true)) }
                }
            }
            section.part id="machine" { h2 { "The machine" } (frame::facts(&self.machine)) }
            @for experiment in &self.experiments { (self.experiment(experiment)) }
        };
        frame::document(&title, &format!("{}{FILTERS}", svg::style()), &body)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }

    /// The verdicts that there are: `49 reproduced`.
    fn counts(&self) -> impl Iterator<Item = (Verdict, String)> {
        let each = Verdict::ALL.into_iter().map(|verdict| (verdict, self.count(verdict)));
        let found = each.filter(|(_, count)| *count > 0);
        found.map(|(verdict, count)| (verdict, format!("{count} {}", verdict.words())))
    }

    fn tally(&self) -> String {
        let counts: Vec<String> = self.counts().map(|(_, text)| text).collect();
        format!("{} claims: {}.", self.claims.len(), counts.join("; "))
    }

    fn filter(&self) -> Markup {
        let mut choices = vec![("all", format!("all {}", self.claims.len()))];
        choices.extend(self.counts().map(|(verdict, text)| (class(verdict), text)));
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

/// A figure with its column's name, which shows where a narrow screen has no columns. Empty if there is no
/// figure.
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

/// The claims as a table. If it is the whole table, documents head their claims.
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
    let figures = || experiment.rows.iter().flat_map(|row| &row.quantities);
    let is_there = |quantity: &&str| figures().any(|figure| figure.name == *quantity);
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

fn cell(row: &PhaseRow, parameters: &[String], times: &[&str]) -> Markup {
    let find = |quantity: &str| row.quantities.iter().find(|figure| figure.name == quantity);
    let besides = row.quantities.iter().filter(|figure| {
        let is_major = figure.name == MAJOR && figure.interval.high == 0.0;
        !is_major && figure.name != MINOR && !TIMES.contains(&figure.name.as_str())
    });
    let must = row.faults.map(|(least, most)| {
        let [least, most] = [least, most].map(|faults| shown(MINOR, faults));
        if least == most { least } else { format!("{least} to {most}") }
    });
    let besides: Vec<String> = besides
        .map(|figure| format!("{} {}", name(&figure.name), shown(&figure.name, figure.interval.value)))
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

fn figure(found: Option<&Quantity>) -> Markup {
    html! {
        @if let Some(Quantity { name, interval }) = found {
            (shown(name, interval.value)) (small(&range(name, interval)))
        }
    }
}

/// Small print below a figure.
pub(super) fn small(text: &str) -> Markup {
    html! { @if !text.is_empty() { small { (text) } } }
}
