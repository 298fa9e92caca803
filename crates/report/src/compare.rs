//! The answer of `compare`.
//!
//! In: a [`Comparison`]. Out: text, JSON, or a picture. Commands have letters, because they are long. It decides
//! nothing.

use faultless_trace::compare::{Compared, Comparison};
use faultless_trace::measurement::{Count, Nanos, Percent, Seconds};
use faultless_trace::observation::Exit;
use faultless_trace::rounds::{Difference, Figures, Mismatch, Quantity};
use faultless_trace::stat::Interval;

use crate::advice::{bytes, count, has_ends};
use crate::palette::Palette;
use crate::svg::{self, Bar};
use crate::table::{Align, WIDTH, clip, columns, up_to, wrap};
use crate::text;

/// The answer first, then each quantity of each command. At most `columns` wide, but 60 to 100, and `None`: 100.
pub fn text(comparison: &Comparison, colour: bool, columns: Option<usize>) -> String {
    let (palette, width) = (Palette(colour), up_to(WIDTH, columns));
    let mut lines: Vec<String> = answer(comparison)
        .iter()
        .flat_map(|said| wrap("", said, width))
        .map(|line| palette.strong(&line))
        .collect();
    lines.push(String::new());
    for (index, command) in comparison.commands.iter().enumerate() {
        lines.push(format!("  {}  {}", letter(index), clip(&text::escaped(&command.command), width - 5)));
    }
    lines.push(String::new());
    lines.extend(table(comparison, palette, width));
    lines.extend(failures(comparison).iter().flat_map(|failure| wrap("", failure, width)));
    for note in &comparison.notes {
        lines.extend(wrap("", &format!("note: {note}"), width));
    }
    lines.join("\n") + "\n"
}

/// The elapsed time of each command as bars with 95 % intervals.
pub fn svg(comparison: &Comparison) -> String {
    let bars: Vec<Bar> = comparison
        .commands
        .iter()
        .enumerate()
        .map(|(index, command)| {
            let Figures { wall_ns, faults, .. } = &command.figures;
            let wall = finite(wall_ns.median).times(1e-6);
            let faults = count(faults.median.value);
            Bar {
                label: format!("{}  {}", letter(index), text::escaped(&command.command)),
                value: wall.value,
                low: wall.low,
                high: wall.high,
                note: format!("{}, {}", Nanos(wall.value * 1e6), faults.of("fault")),
                highlight: difference(wall_ns) == Some(Difference::Less),
            }
        })
        .collect();
    let subtitle = format!("medians with 95 % intervals, {}", rounds(comparison));
    svg::bars("Wall time of each command, ms", &subtitle, &bars)
}

/// A sentence for each command but the first.
fn answer(comparison: &Comparison) -> Vec<String> {
    let Some(base) = comparison.commands.first() else { return vec!["Nothing was compared.".into()] };
    if comparison.rounds == 0 {
        return vec!["No verdict, for no round was finished. The figures are those of the warm-up.".into()];
    }
    let others = comparison.commands.iter().enumerate().skip(1);
    others.map(|(index, command)| sentence(index, command, base)).collect()
}

/// "B takes 0.31 times as long as A (0.30 to 0.33), with 1 204 instead of 61 440 faults."
fn sentence(index: usize, command: &Compared, base: &Compared) -> String {
    let name = letter(index);
    let Figures { wall_ns, faults, .. } = &command.figures;
    let ratio = wall_ns.ratio.map(times).unwrap_or_default();
    if base.figures.mismatch.is_some() {
        return format!("{name}: no verdict, for runs of A ended differently.");
    }
    if let Some(Mismatch { runs, exit }) = command.figures.mismatch {
        let all = Count(command.figures.runs.len() as u64).of("run");
        let (own, others) = (exit.unwrap_or_default(), base.figures.runs[0].exit);
        return format!(
            "{name}: no verdict, for {runs} of {all} ended with {own}, those of A with {others}."
        );
    }
    let mut said = match difference(wall_ns) {
        None => return format!("{name}: too few rounds for a verdict."),
        Some(Difference::Less | Difference::More) => format!("{name} takes {ratio} as long as A"),
        Some(Difference::None) => format!("{name} takes as long as A ({ratio})"),
        Some(Difference::NotCertain) => {
            format!("No difference in time is shown between {name} and A ({ratio})")
        }
    };
    if matches!(difference(faults), Some(Difference::Less | Difference::More)) {
        let [own, others] = [faults, &base.figures.faults].map(|faults| count(faults.median.value));
        said += &format!(", with {own} instead of {others} faults");
    }
    if command.computes() {
        said += "; page faults are not the reason, for the system time does not follow";
    }
    said + "."
}

fn table(comparison: &Comparison, palette: Palette, width: usize) -> Vec<String> {
    let confidence = Percent(1.0 - comparison.error);
    let head = ["", "", "median", "95 %", &format!("beside A, {confidence}")].map(String::from);
    let mut cells = vec![head.to_vec()];
    let mut add = |what: &str, show: Show, of: fn(&Figures) -> Option<Quantity>| {
        for (index, command) in comparison.commands.iter().enumerate() {
            let Some(quantity) = of(&command.figures) else { continue };
            let first = if index == 0 { what } else { "" };
            cells.push(row(first, index, quantity, show));
        }
    };
    let nanos: Show = |ns| Nanos(ns).to_string();
    add("wall", nanos, |of| Some(of.wall_ns));
    add("CPU", nanos, |of| Some(of.cpu_ns));
    add("  user", nanos, |of| Some(of.user_ns));
    add("  system", nanos, |of| Some(of.system_ns));
    add(
        "in faults",
        |seconds| Seconds(seconds).to_string(),
        |of| Some(Quantity { median: of.fault_time?.seconds, ratio: None }),
    );
    add("faults", |faults| count(faults).to_string(), |of| Some(of.faults));
    add("peak RSS", |len| bytes(len).to_string(), |of| Some(of.peak_rss_bytes));
    add(
        "  at end",
        |len| bytes(len).to_string(),
        |of| Some(Quantity { median: Interval::around(of.end_bytes? as f64, 0.0), ratio: None }),
    );
    let aligns = [Align::Left, Align::Left, Align::Right, Align::Left, Align::Left];
    let whole = columns(2, &aligns, &cells);
    let fits = whole.iter().all(|line| line.chars().count() <= width);
    let mut rows: Vec<Vec<String>> = if fits {
        whole.into_iter().map(|line| vec![line]).collect()
    } else {
        // What stands beside A goes below.
        let (left, below): (Vec<_>, Vec<_>) = cells.iter().map(|row| (row[..4].to_vec(), &row[4])).unzip();
        let below =
            below.into_iter().map(|beside| Some(format!("{:16}{beside}", "")).filter(|_| !beside.is_empty()));
        columns(2, &aligns[..4], &left)
            .into_iter()
            .zip(below)
            .map(|(line, below)| std::iter::once(line).chain(below).collect())
            .collect()
    };
    rows[0].iter_mut().for_each(|head| *head = palette.faint(head));
    let mut lines = rows.concat();
    lines.push(String::new());
    lines.push(palette.faint(&format!("  {}", rounds(comparison))));
    lines
}

type Show = fn(f64) -> String;

fn difference(of: &Quantity) -> Option<Difference> {
    of.ratio.as_ref().map(Difference::of)
}

fn row(what: &str, index: usize, quantity: Quantity, show: Show) -> Vec<String> {
    let Interval { value, low, high } = quantity.median;
    let range = if has_ends(&quantity.median) && show(low) != show(high) {
        format!("{} to {}", show(low), show(high))
    } else {
        String::new()
    };
    let beside = match (difference(&quantity), quantity.ratio) {
        (Some(Difference::None), Some(ratio)) if ratio.low == ratio.high => "the same".to_owned(),
        (_, Some(ratio)) => times(ratio),
        _ => String::new(),
    };
    vec![what.to_owned(), letter(index), show(value), range, beside]
}

/// "0.31 times (0.30 to 0.33)".
fn times(ratio: Interval) -> String {
    let digits = |value: f64| if value < 0.1 { format!("{value:.3}") } else { format!("{value:.2}") };
    let Interval { value, low, high } = ratio;
    format!("{} times ({} to {})", digits(value), digits(low), digits(high))
}

/// Commands that failed, and those that print something else than the first.
fn failures(comparison: &Comparison) -> Vec<String> {
    let of = |(index, command): (usize, &Compared)| {
        let name = letter(index);
        let failed = command.failure.map(|exit| {
            let how = match exit {
                Exit::Status(status) => format!("with status {status}"),
                other => format!("by {other}"),
            };
            let (failed, all) = (command.failed, command.figures.runs.len());
            format!("warning: {failed} of {all} runs of {name} ended {how}")
        });
        let other = "does not print what A prints: it may not do the same work";
        failed.or_else(|| command.prints_otherwise.then(|| format!("note: {name} {other}")))
    };
    comparison.commands.iter().enumerate().filter_map(of).collect()
}

fn rounds(comparison: &Comparison) -> String {
    format!("{}, commands in shuffled order", Count(u64::from(comparison.rounds)).of("round"))
}

/// A, B, ... Z, then numbers.
fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => (index + 1).to_string(),
    }
}

/// Without the open end of a single run.
fn finite(interval: Interval) -> Interval {
    if has_ends(&interval) {
        interval
    } else {
        Interval { low: interval.value, high: interval.value, ..interval }
    }
}
