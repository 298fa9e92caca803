//! Two records side by side: facts about the machines, and for each quantity the ratio of the second to the
//! first.

use maud::{Markup, html};

use faultless_trace::change::{Change, Direction};
use faultless_trace::stat::Interval;

use super::page::{named, small};
use super::quantity::{name, range, shown, times};
use crate::frame;
use crate::table::{Align, columns};

/// A comparison of two records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The names of the records.
    pub names: [String; 2],
    /// Machine, kernel, settings, versions: differing ones first.
    pub facts: Vec<Fact>,
    /// What was compared: the largest change first.
    pub changes: Vec<Change>,
    /// What is wrong with a record or missing in it, a sentence each.
    pub caveats: Vec<String>,
    /// How to read the comparison, a sentence each.
    pub how: Vec<String>,
}

/// A fact about both records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fact {
    /// The name of the fact.
    pub name: String,
    /// Its value in each record; empty if unknown.
    pub values: [String; 2],
}

/// Whether the quantity got worse. `None` if neither direction is worse.
fn is_worse(change: &Change) -> Option<bool> {
    let is_rate = change.quantity.ends_with("_per_s");
    let is_cost = ["_ns", "_faults", "_bytes"].iter().any(|unit| change.quantity.ends_with(unit));
    match change.kind {
        Direction::More if is_rate || is_cost => Some(is_cost),
        Direction::Less if is_rate || is_cost => Some(is_rate),
        _ => None,
    }
}

fn tint(change: &Change) -> &'static str {
    match is_worse(change) {
        Some(true) => "refuted",
        Some(false) => "reproduced",
        None => "unknown",
    }
}

fn ratio(change: &Change) -> String {
    change.ratio.as_ref().map_or_else(|| "-".to_owned(), |ratio| times(ratio.value))
}

fn interval(change: &Change) -> String {
    match &change.ratio {
        Some(ratio) if ratio.high >= f64::MAX => "one sample".to_owned(),
        Some(ratio) if times(ratio.low) != times(ratio.high) => {
            format!("{} to {}", times(ratio.low), times(ratio.high))
        }
        _ => String::new(),
    }
}

impl Comparison {
    fn count(&self, kind: Direction) -> usize {
        self.changes.iter().filter(|change| change.kind == kind).count()
    }

    /// The changes in one sentence.
    fn tally(&self) -> String {
        let [more, less, added, removed, alike] = Direction::ALL.map(|kind| self.count(kind));
        let whole =
            |kind| self.changes.iter().filter(move |c| c.kind == kind && c.quantity.is_empty()).count();
        let figures = more + less + alike;
        let cells = match (added, removed) {
            (0, 0) => "the same cells in both".to_owned(),
            _ => format!("cells: {} added, {} removed", whole(Direction::Added), whole(Direction::Removed)),
        };
        format!(
            "{} of {figures} figures changed beyond noise ({more} more, {less} less); {cells}.",
            more + less
        )
    }

    /// The comparison as one HTML document.
    pub fn html(&self) -> String {
        let [a, b] = &self.names;
        let title = format!("faultless lab: {a} and {b}");
        let differs = self.changes.len() - self.count(Direction::Alike);
        let mut choices = vec![
            ("differs", format!("what differs {differs}")),
            ("all", format!("all {}", self.changes.len())),
        ];
        choices.extend(
            Direction::ALL.map(|kind| (kind.word(), format!("{} {}", kind.word(), self.count(kind)))),
        );
        let body = html! {
            header {
                h1 { (title) }
                p.lead { (self.tally()) }
                @if !self.caveats.is_empty() {
                    div.alarm { @for sentence in &self.caveats { p { (sentence) } } }
                }
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
            table.figures.cards {
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
        tr.change.(change.kind.word()).(tint(change)) {
            td { span.verdict { (change.kind.word()) } }
            (named("B / A", &html! { (ratio(change)) (small(&interval(change))) }))
            @for (record, found) in [("A", a), ("B", b)] { (named(record, &figure(&change.quantity, found.as_ref()))) }
            td { (name(&change.quantity)) } td { (change.phase) } td { (change.experiment) } td.cell { (change.cell) }
        }
    }
}

fn figure(quantity: &str, found: Option<&Interval>) -> Markup {
    html! {
        @if let Some(found) = found { (shown(quantity, found.value)) (small(&range(quantity, found))) }
    }
}

/// CSS that hides all rows but those of the chosen kind.
fn filters() -> String {
    let mut styles =
        "#kind-differs:checked~* tr.alike{display:none}.differing td{font-weight:600}".to_owned();
    for kind in Direction::ALL {
        let word = kind.word();
        styles += &format!("#kind-{word}:checked~* tr.change:not(.{word}){{display:none}}");
    }
    styles
}

/// The comparison as text for a terminal. It lists differences; equal facts are only counted.
pub fn text(comparison: &Comparison) -> String {
    let [a, b] = &comparison.names;
    let mut lines = vec![format!("A  {a}"), format!("B  {b}"), String::new()];
    let (differ, same): (Vec<_>, Vec<_>) =
        comparison.facts.iter().partition(|fact| fact.values[0] != fact.values[1]);
    for fact in &differ {
        lines.push(format!("{}: {} | {}", fact.name, known(&fact.values[0]), known(&fact.values[1])));
    }
    let same: Vec<&str> = same.iter().map(|fact| fact.name.as_str()).collect();
    if !same.is_empty() {
        lines.push(format!("the same in both: {}", same.join(", ")));
    }
    lines.extend(comparison.caveats.iter().cloned());
    lines.extend([String::new(), comparison.tally()]);
    let changed =
        comparison.changes.iter().filter(|change| matches!(change.kind, Direction::More | Direction::Less));
    let rows: Vec<Vec<String>> = changed
        .map(|change| {
            let [a, b] = change.figures.map(|found| {
                found.map_or_else(|| "-".to_owned(), |found| shown(&change.quantity, found.value))
            });
            let what = format!("{} {}", name(&change.quantity), change.phase);
            vec![
                ratio(change),
                interval(change),
                a,
                b,
                what,
                format!("{} {}", change.experiment, change.cell),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let heads = ["B / A", "interval", "A", "B", "what", "cell"].map(str::to_owned).to_vec();
        let align = [Align::Right, Align::Left, Align::Right, Align::Right, Align::Left, Align::Left];
        lines.extend(columns(2, &align, &[vec![heads], rows].concat()));
    }
    for kind in [Direction::Added, Direction::Removed] {
        for change in comparison.changes.iter().filter(|change| change.kind == kind) {
            let figure = format!("{} {}", change.phase, change.quantity);
            let line = format!("{}: {} {} {figure}", kind.word(), change.experiment, change.cell);
            lines.push(line.trim_end().to_owned());
        }
    }
    lines.extend(comparison.how.iter().cloned());
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn known(value: &str) -> &str {
    if value.is_empty() { "unknown" } else { value }
}
