//! Two records beside each other: what the machines are, and per cell, phase and quantity how many times the first the second is.

mod text;

use maud::{Markup, html};

use faultless_trace::stat::Interval;

use super::figure::{name, range, shown, times};
use super::frame;

pub use text::text;

/// Two records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Their names.
    pub names: [String; 2],
    /// Machine, kernel, settings, versions: those that differ first.
    pub facts: Vec<Fact>,
    /// What was compared: what changed most first.
    pub changes: Vec<Change>,
    /// How to read it, a sentence each.
    pub how: Vec<String>,
}

/// One fact about both; empty where it is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// Its values.
    pub values: [String; 2],
}

/// What became of a figure, or of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// More than before, beyond noise.
    More,
    /// Less than before, beyond noise.
    Less,
    /// Only in the second.
    Added,
    /// Only in the first.
    Removed,
    /// The same as far as can be told.
    Alike,
}

/// A figure of both, or what only one has.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What became of it.
    pub kind: Kind,
    /// The experiment.
    pub experiment: String,
    /// The cell's parameters, as words.
    pub cell: String,
    /// The phase; empty for a whole cell.
    pub phase: String,
    /// The quantity; empty for a whole cell.
    pub quantity: String,
    /// Medians with their intervals.
    pub figures: [Option<Interval>; 2],
    /// How many times the first the second is; none where the first is nothing.
    pub ratio: Option<Interval>,
}

impl Kind {
    const ALL: [Self; 5] = [Self::More, Self::Less, Self::Added, Self::Removed, Self::Alike];

    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Alike => "alike",
        }
    }
}

impl Change {
    /// Whether it got worse, where that can be said of its quantity.
    fn is_worse(&self) -> Option<bool> {
        let is_rate = self.quantity.ends_with("_per_s");
        let is_cost = ["_ns", "_faults", "_bytes"].iter().any(|unit| self.quantity.ends_with(unit));
        match self.kind {
            Kind::More if is_rate || is_cost => Some(is_cost),
            Kind::Less if is_rate || is_cost => Some(is_rate),
            _ => None,
        }
    }

    fn tint(&self) -> &'static str {
        match self.is_worse() {
            Some(true) => "refuted",
            Some(false) => "reproduced",
            None => "unknown",
        }
    }

    fn times(&self) -> String {
        match &self.ratio {
            Some(ratio) => times(ratio.value),
            None => "-".to_owned(),
        }
    }

    fn interval(&self) -> String {
        match &self.ratio {
            Some(ratio) if ratio.high >= f64::MAX => "one sample".to_owned(),
            Some(ratio) if times(ratio.low) != times(ratio.high) => {
                format!("{} to {}", times(ratio.low), times(ratio.high))
            }
            _ => String::new(),
        }
    }
}

impl Comparison {
    fn count(&self, kind: Kind) -> usize {
        self.changes.iter().filter(|change| change.kind == kind).count()
    }

    /// What changed, in one sentence.
    fn tally(&self) -> String {
        let [more, less, added, removed, alike] = Kind::ALL.map(|kind| self.count(kind));
        let whole =
            |kind| self.changes.iter().filter(move |c| c.kind == kind && c.quantity.is_empty()).count();
        let figures = more + less + alike;
        let cells = match (added, removed) {
            (0, 0) => "the same cells in both".to_owned(),
            _ => format!("cells: {} added, {} removed", whole(Kind::Added), whole(Kind::Removed)),
        };
        format!(
            "{} of {figures} figures changed beyond noise ({more} more, {less} less); {cells}.",
            more + less
        )
    }

    /// The whole document.
    pub fn html(&self) -> String {
        let [a, b] = &self.names;
        let title = format!("faultless lab: {a} and {b}");
        let differs = self.changes.len() - self.count(Kind::Alike);
        let mut choices = vec![
            ("differs", format!("what differs {differs}")),
            ("all", format!("all {}", self.changes.len())),
        ];
        choices.extend(Kind::ALL.map(|kind| (kind.word(), format!("{} {}", kind.word(), self.count(kind)))));
        let body = html! {
            header {
                h1 { (title) }
                p.lead { (self.tally()) }
                @for sentence in &self.how { p.faint { (sentence) } }
            }
            section.part { h2 { "The two records" } (self.facts()) }
            section.part id="changes" {
                h2 { "B over A: how many times as much" }
                (frame::filter("kind", &choices, 0))
                input type="search" hidden placeholder="words that a row must have" aria-label="words that a row must have"
                    data-of="changes";
                div.scroll { (self.table()) }
            }
        };
        frame::document(&title, &filters(), &body)
    }

    fn facts(&self) -> Markup {
        html! {
            div.scroll {
                table {
                    thead { tr { th { "" } th { "A" } th { "B" } } }
                    tbody {
                        @for Fact { name, values: [a, b] } in &self.facts {
                            tr.differing[a != b] { td.faint { (name) } td { (a) } td { (b) } }
                        }
                    }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            table.figures {
                thead {
                    tr {
                        th { "" } th.right { "B / A" } th.right { "A" } th.right { "B" } th { "quantity" } th { "phase" }
                        th { "experiment" } th { "cell" }
                    }
                }
                tbody { @for change in &self.changes { (row(change)) } }
            }
        }
    }
}

fn row(change: &Change) -> Markup {
    let [a, b] = &change.figures;
    html! {
        tr.change.(change.kind.word()).(change.tint()) {
            td { span.verdict { (change.kind.word()) } }
            td.right { (change.times()) small { (change.interval()) } }
            @for found in [a, b] {
                td.right {
                    @if let Some(found) = found {
                        (shown(&change.quantity, found.value)) small { (range(&change.quantity, found)) }
                    }
                }
            }
            td { (name(&change.quantity)) } td { (change.phase) } td { (change.experiment) } td { (change.cell) }
        }
    }
}

/// Leaves only the rows of one kind.
fn filters() -> String {
    let mut styles =
        "#kind-differs:checked~* tr.alike{display:none}.differing td{font-weight:600}".to_owned();
    for kind in Kind::ALL {
        let word = kind.word();
        styles += &format!("#kind-{word}:checked~* tr.change:not(.{word}){{display:none}}");
    }
    styles
}
