//! The same for a terminal: what differs, line by line.

use faultless_trace::change::Kind;

use super::{Comparison, interval, ratio};
use crate::lab::figure::{name, shown};
use crate::table::{Align, columns};

/// What differs; what is alike is only counted.
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
    let changed = comparison.changes.iter().filter(|change| matches!(change.kind, Kind::More | Kind::Less));
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
    for kind in [Kind::Added, Kind::Removed] {
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
