//! A record as one HTML document and as text: the machine, then for each experiment the document's table with our
//! rows, the plots, and what the document says, with verdicts.

use std::fmt::Write;

use faultless_trace::verdict::Verdict;
use maud::{Markup, PreEscaped, html};

use super::quantity::{Quantity, name, range, shown};
use crate::frame;
use crate::svg::{self, Plot};
use crate::table::{Align, columns, wrap};

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
    /// The document's own words.
    pub quote: String,
    /// The document's figure.
    pub there: String,
    /// The figure measured here; empty if there is none.
    pub here: String,
    /// What the record says of the claim.
    pub verdict: Verdict,
    /// When it holds, how ours is measured, or what is lacking.
    pub why: String,
}

/// What a document says and nothing here decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Unjudged {
    /// The title of the document.
    pub document: String,
    /// The document's own words.
    pub quote: String,
    /// The document's figure.
    pub there: String,
    /// The figure measured here; empty if there is none.
    pub here: String,
    /// Why it is not judged.
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
    /// What the documents say of it.
    pub claims: Vec<Claim>,
    /// What they say that is not judged.
    pub unjudged: Vec<Unjudged>,
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

/// The table as aligned columns, below its title. The remark follows, wrapped. A table without rows has no
/// columns either.
fn text(table: &Table, width: usize) -> String {
    let heads = (!table.rows.is_empty()).then_some(&table.heads);
    let rows: Vec<Vec<String>> =
        heads.into_iter().chain(table.rows.iter().map(|row| &row.texts)).cloned().collect();
    let mut align = vec![Align::Right; table.heads.len()];
    if let Some(first) = align.first_mut() {
        *first = Align::Left;
    }
    let mut lines = vec![table.title.clone()];
    lines.extend(columns(2, &align, &rows));
    if !table.remark.is_empty() {
        lines.extend(wrap("  ", &table.remark, width));
    }
    lines.join("\n") + "\n"
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
/// Verdicts, in the order in which they are told.
const ORDER: [Verdict; 3] = [Verdict::Refuted, Verdict::Reproduced, Verdict::CannotSay];

/// How many claims have each verdict: `1 refuted here, 12 reproduced`.
fn tally<'a>(claims: impl Iterator<Item = &'a Claim> + Clone) -> String {
    let count = |verdict| claims.clone().filter(|claim| claim.verdict == verdict).count();
    let counts = ORDER.map(|verdict| (count(verdict), verdict));
    let told = counts.iter().filter(|(count, _)| *count > 0);
    told.map(|(count, verdict)| format!("{count} {}", verdict.words())).collect::<Vec<_>>().join(", ")
}

impl Report {
    /// The record as one HTML document.
    pub fn html(&self) -> String {
        let title = format!("faultless lab: {}", self.name);
        let body = html! {
            header {
                h1 { (title) }
                p.faint { (self.asked) " " (self.measured) }
                @if let Some(why) = &self.unfinished {
                    div.alarm { p { strong { "Not whole. " } (why) } }
                }
                (violations(&self.violations))
                (frame::facts(&self.machine))
                @if self.claims().next().is_some() { p.lead { "Statements of the documents: " (tally(self.claims())) "." } }
                nav { @for experiment in &self.experiments { a href={ "#" (experiment.name) } { (experiment.name) } } }
            }
            @for experiment in &self.experiments { (section(experiment)) }
        };
        frame::document(&title, &svg::style(), &body)
    }

    fn claims(&self) -> impl Iterator<Item = &Claim> + Clone {
        self.experiments.iter().flat_map(|experiment| &experiment.claims)
    }

    /// The record for a terminal of so many columns: machine, tables, statements with their verdicts. If `is_brief`,
    /// verdicts are only counted.
    pub fn text(&self, width: usize, is_brief: bool) -> String {
        let fact = |name: &&str| {
            self.machine.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        let machine: Vec<&str> =
            ["cpu", "kernel", "memory", "page", "hypervisor"].iter().filter_map(fact).collect();
        let mut text = wrap("", &machine.join("; "), width).join("\n") + "\n";
        for experiment in &self.experiments {
            text += &format!(
                "\n{}\n",
                wrap(&format!("{}: ", experiment.name), &experiment.question, width).join("\n")
            );
            for table in &experiment.tables {
                text += &format!("\n{}", self::text(table, width));
            }
            if experiment.claims.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\nStatements: {}", tally(experiment.claims.iter()));
            if !is_brief {
                in_order(&experiment.claims).for_each(|claim| text += &told(claim, width));
            }
        }
        text
    }
}

/// Claims by verdict.
fn in_order(claims: &[Claim]) -> impl Iterator<Item = &Claim> {
    ORDER.into_iter().flat_map(move |verdict| claims.iter().filter(move |claim| claim.verdict == verdict))
}

/// A claim as text: verdict and quote, then both figures and the reason.
fn told(claim: &Claim, width: usize) -> String {
    let here = if claim.here.is_empty() { "-" } else { &claim.here };
    let first = wrap(&format!("{:<14}", claim.verdict.words()), &format!("\"{}\"", claim.quote), width);
    let rest = wrap(&" ".repeat(14), &format!("there {}; here {here}; {}", claim.there, claim.why), width);
    format!("{}\n{}\n", first.join("\n"), rest.join("\n"))
}

fn section(experiment: &Experiment) -> Markup {
    html! {
        section.part id=(experiment.name) {
            h2 { (experiment.name) }
            p.lead { (experiment.question) }
            p.faint { "from " (experiment.sources.join("; ")) }
            @for found in &experiment.tables { (table(found)) }
            @if !experiment.plots.is_empty() {
                div.charts {
                    @for plot in &experiment.plots { figure { (PreEscaped(svg::inline(plot))) } }
                }
            }
            @if !experiment.claims.is_empty() {
                h3 { "What the documents say: " (tally(experiment.claims.iter())) }
                div.scroll { (claims(&experiment.claims)) }
            }
            @if !experiment.unjudged.is_empty() {
                h3 { "Not judged here, and why" }
                div.scroll { (unjudged(&experiment.unjudged)) }
            }
            (measured(experiment))
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

/// All cells with all quantities; many are folded.
fn measured(experiment: &Experiment) -> Markup {
    let rows = html! { div.scroll { (cells(experiment)) } };
    html! {
        h3 { "Cells: medians with their intervals, faults beside those that must be" }
        @match experiment.rows.len() {
            0 => p.faint { "Nothing was measured." },
            1..FOLDED_FROM => (rows),
            count => details { summary { "all " (count) " rows" } (rows) },
        }
    }
}

pub(super) fn table(table: &Table) -> Markup {
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

/// A claim is a row: its verdict, the document's words with its figure, ours, and the reason.
fn claims(claims: &[Claim]) -> Markup {
    html! {
        table.cards {
            thead { tr { th { "verdict" } th { "the document" } th { "there" } th { "here" } th { "why" } } }
            tbody {
                @for claim in in_order(claims) {
                    tr.claim.(class(claim.verdict)) id=(claim.id) {
                        td { span.verdict { (claim.verdict.words()) } }
                        td { q { (claim.quote) } small { (claim.document) " " (claim.id) } }
                        td data-name="there:" { (claim.there) }
                        td data-name="here:" { (or_none(&claim.here)) }
                        td { (claim.why) }
                    }
                }
            }
        }
    }
}

fn unjudged(rows: &[Unjudged]) -> Markup {
    html! {
        table.cards {
            thead { tr { th { "the document" } th { "there" } th { "here" } th { "why it is not judged" } } }
            tbody {
                @for row in rows {
                    tr {
                        td { q { (row.quote) } small { (row.document) } }
                        td data-name="there:" { (row.there) }
                        td data-name="here:" { (or_none(&row.here)) }
                        td { (row.why) }
                    }
                }
            }
        }
    }
}

fn or_none(figure: &str) -> &str {
    if figure.is_empty() { "-" } else { figure }
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
