//! The kernel's functions in faults, before and after. In: a [`KernelDiff`]. Out: text or JSON.

use faultless_trace::diff::{Class, KernelDiff, KernelRow, KernelSide};
use faultless_trace::measurement::{Count, Percent};
use faultless_trace::stat::Interval;

use crate::palette::Palette;
use crate::table::{Align, Names, columns, fitting, wrap};
use crate::text::{self, plain};

/// The answer, then the functions of the classes `only`, one line each. Widths as in [`text`](super::text).
pub fn kernel_text(diff: &KernelDiff, only: &[Class], colour: bool, reader: Option<usize>) -> String {
    let (palette, width) = (Palette(colour), fitting(reader));
    let mut lines: Vec<String> =
        wrap(" ", &answer(diff), width).into_iter().map(|line| palette.strong(&line)).collect();
    lines.extend(wrap(" ", &reading(diff), width).into_iter().map(|line| palette.faint(&line)));
    for warning in &diff.warnings {
        lines.extend(wrap(" warning: ", warning, width).into_iter().map(|line| palette.warn(&line)));
    }
    let rows: Vec<&KernelRow> = diff.functions.iter().filter(|row| only.contains(&row.class)).collect();
    if !rows.is_empty() {
        lines.push(String::new());
        lines.extend(figures(&rows, palette, width));
    }
    lines.join("\n") + "\n"
}

/// The [`KernelDiff`] as JSON, with the functions of the classes `only`.
pub fn kernel_json(diff: &KernelDiff, only: &[Class]) -> String {
    let mut diff = diff.clone();
    diff.functions.retain(|row| only.contains(&row.class));
    text::json(&diff)
}

/// "3 of 70 functions of the kernel changed their share of the time in faults: 1 added, 2 grown."
fn answer(diff: &KernelDiff) -> String {
    let all = diff.functions.len();
    let counts = Class::ALL[..4].iter().map(|class| (diff.count(*class), class.word()));
    let counts: Vec<String> =
        counts.filter(|found| found.0 > 0).map(|(found, word)| format!("{found} {word}")).collect();
    match all - diff.count(Class::Unchanged) {
        0 => format!("None of {all} functions of the kernel changed its share of the time in faults."),
        changed => format!(
            "{changed} of {all} functions of the kernel changed their share of the time in faults: {}.",
            counts.join(", ")
        ),
    }
}

/// How to read the figures.
fn reading(diff: &KernelDiff) -> String {
    let side = |runs: &[KernelSide]| {
        let mut kernels: Vec<String> = runs.iter().map(|run| plain(&run.kernel)).collect();
        kernels.dedup();
        let samples: u64 = runs.iter().map(|run| run.samples).sum();
        format!("{} of Linux {}", Count(samples).of("sample"), kernels.join(", "))
    };
    format!(
        "Before: {}; after: {}. A function is changed when its share differs by more than {} of the time and by more than \
         chance; the intervals of all differences hold at once with {} confidence. If one share grows, all others fall.",
        side(&diff.before),
        side(&diff.after),
        Percent(diff.threshold),
        Percent(diff.confidence)
    )
}

fn figures(rows: &[&KernelRow], palette: Palette, width: usize) -> Vec<String> {
    const ALIGN: [Align; 4] = [Align::Left, Align::Right, Align::Right, Align::Right];
    let share = |interval: &Interval| format!("{:.1} %", 100.0 * interval.value);
    let head = ["", "before", "after", "difference"].map(str::to_owned).to_vec();
    let cells = rows.iter().map(|row| {
        let Interval { low, high, .. } = row.share.difference;
        vec![
            row.class.word().to_owned(),
            share(&row.share.before),
            share(&row.share.after),
            format!("{:+.1} to {:+.1} %", 100.0 * low, 100.0 * high),
        ]
    });
    let cells: Vec<Vec<String>> = std::iter::once(head).chain(cells).collect();
    let figures = columns(1, &ALIGN, &cells);
    let names = std::iter::once("function".to_owned()).chain(rows.iter().map(|row| plain(&row.function)));
    let begin = figures.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let line = |(figures, name): (&String, String)| {
        format!("{figures:<begin$}{}", Names::Within(width).fit(&name, begin))
    };
    let mut lines: Vec<String> = figures.iter().zip(names).map(line).collect();
    if let Some(head) = lines.first_mut() {
        *head = palette.faint(head);
    }
    lines
}
