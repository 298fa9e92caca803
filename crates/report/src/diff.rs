//! What changed between recordings.
//!
//! In: a [`Diff`]. Out: text, JSON, or a page whose rows can be sorted, searched and filtered by class. It
//! decides nothing: the [`Diff`] holds every figure.

mod kernel;
mod page;

use faultless_trace::diff::{BeforeAfter, Cause, Class, Diff, DiffRow, Pair, Price, PriceSource};
use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::stat::Interval;

use crate::palette::Palette;
use crate::selected;
use crate::table::{Align, fitting, folded, shorten, wrap};
use crate::text::{self, plain};

pub use kernel::{kernel_json, kernel_text};
pub use page::html;

/// The answer, then the rows of the classes `only`, two lines each. At most `columns` wide, but 60 to 160. `None`: 100.
pub fn text(diff: &Diff, only: &[Class], colour: bool, columns: Option<usize>) -> String {
    let (palette, width) = (Palette(colour), fitting(columns));
    let mut lines: Vec<String> =
        wrap(" ", &answer(diff), width).into_iter().map(|line| palette.strong(&line)).collect();
    for line in [shown(diff), major(diff), machine(diff), reading(diff)].into_iter().flatten() {
        lines.extend(wrap(" ", &line, width).into_iter().map(|line| palette.faint(&line)));
    }
    for warning in &diff.warnings {
        lines.extend(wrap(" warning: ", warning, width).into_iter().map(|line| palette.warn(&line)));
    }
    let rows: Vec<&DiffRow> = diff.rows.iter().filter(|row| only.contains(&row.class)).collect();
    if !rows.is_empty() {
        lines.push(String::new());
        lines.extend(figures(diff, &rows, palette, width));
    }
    lines.join("\n") + "\n"
}

/// The [`Diff`] as JSON, with the rows of the classes `only`.
pub fn json(diff: &Diff, only: &[Class]) -> String {
    let mut diff = diff.clone();
    diff.rows.retain(|row| only.contains(&row.class));
    text::json(&diff)
}

/// "3 of 7 call sites changed: 1 added, 2 grown. Page faults take 2.10 s instead of 1.90 s (+200 ms ± 30 ms)."
fn answer(diff: &Diff) -> String {
    if diff.rows.is_empty() {
        return "No page fault was recorded in either, so there is nothing to compare.".to_owned();
    }
    let changed = diff.rows.len() - diff.count(Class::Unchanged);
    let counts = Class::ALL[..4].iter().map(|class| (diff.count(*class), class.word()));
    let counts: Vec<String> =
        counts.filter(|found| found.0 > 0).map(|(found, word)| format!("{found} {word}")).collect();
    let noun = diff.by.noun(diff.rows.len());
    let what = match changed {
        0 if diff.faults.significant => {
            format!("The count changed, and in which of {} {noun} is not known.", diff.rows.len())
        }
        0 => format!("None of {} {noun} changed.", diff.rows.len()),
        _ => format!("{changed} of {} {noun} changed: {}.", diff.rows.len(), counts.join(", ")),
    };
    let (faults, time) = (&diff.faults, &diff.time_ns);
    let count = |value: f64| Count(value.round() as u64);
    let times = format!("{} instead of {}", Nanos(time.after.value), Nanos(time.before.value));
    let time = if !is_timed(diff) {
        "How long page faults take is not known, ".to_owned()
    } else if let Some(more) = diff.untimed {
        let which = if more > 0.0 { "more" } else { "fewer" };
        format!(
            "Timed page faults take {times}, but {} {which} faults in system calls are untimed, so what all take is not known; ",
            count(more.abs())
        )
    } else if is_told(time) {
        format!("Page faults take {times} ({}), ", change(time, nanos))
    } else {
        format!("Page faults take {times}, which chance explains, ")
    };
    format!(
        "{what} {time}{} faults instead of {} ({}).",
        count(faults.after.value),
        count(faults.before.value),
        change(faults, number)
    )
}

/// The interval of the difference excludes 0.
fn is_told(pair: &Pair) -> bool {
    pair.difference.low > 0.0 || pair.difference.high < 0.0
}

fn is_timed(diff: &Diff) -> bool {
    diff.time_ns.before.value > 0.0 || diff.time_ns.after.value > 0.0
}

/// What a filter left of the first recording of each side.
fn shown(diff: &Diff) -> Option<String> {
    let [before, after] = diff.selected.as_ref()?;
    let (figures, later) = (selected::figures(before), selected::figures(after));
    Some(format!("Shown: {}: before {figures}; after {later}.", plain(&before.words)))
}

/// Major faults, which no row holds.
fn major(diff: &Diff) -> Option<String> {
    let BeforeAfter { faults: [before, after], time_ns: [before_ns, after_ns] } = diff.major;
    let count = |value: f64| Count(value.round() as u64);
    (before > 0.0 || after > 0.0).then(|| {
        format!(
            "Of these, {} instead of {} are major faults. They waited {} instead of {} for the disk, which is not in the time \
             above and in no row below.",
            count(after),
            count(before),
            Nanos(after_ns),
            Nanos(before_ns)
        )
    })
}

/// How much dearer the faults of all rows became.
fn machine(diff: &Diff) -> Option<String> {
    let Price { ratio: Interval { value, low, high }, source, .. } = diff.price;
    let whose = match source {
        PriceSource::Rows => "The faults of all rows cost",
        PriceSource::Calibration => "Beside that, a first touch at the start cost",
        PriceSource::None => return None,
    };
    (is_timed(diff) && diff.price.is_told()).then(|| {
        format!(
            "{whose} {value:.2}x as much after as before ({low:.2} to {high:.2}): the machine changed, or what all rows share. \
             Times are as measured; this alone makes no row a changed one."
        )
    })
}

/// How to read the figures.
fn reading(diff: &Diff) -> Option<String> {
    let runs =
        |sides: usize| if sides == 1 { "1 recording".to_owned() } else { format!("{sides} recordings") };
    let (before, after) = (diff.before.len(), diff.after.len());
    let one = match before.max(after) {
        1 => "; how much a program differs from itself is assumed: several recordings a side would tell",
        _ => "",
    };
    let user = if diff.user_only { "; faults of user mode only (:u)" } else { "" };
    (!diff.rows.is_empty()).then(|| {
        format!(
            "{} before, {} after{user}. A row is changed when its difference is more than {} of the whole and more than chance. \
             The ± of rows hold all at once with {} confidence, those of the whole with 95 %{one}.",
            runs(before),
            runs(after),
            Percent(diff.threshold),
            Percent(diff.confidence)
        )
    })
}

/// Two lines a row. The last two sum up all rows that are not shown, so the table adds up to the whole.
fn figures(diff: &Diff, rows: &[&DiffRow], palette: Palette, width: usize) -> Vec<String> {
    const ALIGN: [Align; 9] = [Align::Right; 9];
    let head = ["time before", "after", "difference", "faults before", "after", "difference"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| {
        let count = |interval: &Interval| Count(interval.value.round() as u64).to_string();
        vec![
            timed(row, Nanos(row.time_ns.before.value).to_string()),
            timed(row, Nanos(row.time_ns.after.value).to_string()),
            timed(row, change(&row.time_ns, nanos)),
            count(&row.faults.before),
            count(&row.faults.after),
            change(&row.faults, number),
        ]
    }));
    let others = diff.rows.len() - rows.len();
    if others > 0 {
        cells.push(rest(diff, rows));
    }
    let mut laid = folded(1, &ALIGN[..head.len()], &cells, width).into_iter();
    let mut lines: Vec<String> = laid.next().into_iter().flatten().map(|head| palette.faint(&head)).collect();
    for (row, figures) in rows.iter().zip(laid.by_ref()) {
        let class = format!("{:9}", row.class.word());
        let class = match row.class {
            Class::Added | Class::Grown => palette.bad(&class),
            Class::Removed | Class::Shrunk => palette.good(&class),
            Class::Unchanged => palette.faint(&class),
        };
        let cause = row.cause.map_or(String::new(), |cause| format!("  ({})", why(row.class, cause)));
        let name = shorten(&plain(&row.name), width - 11 - cause.chars().count());
        lines.push(format!(" {class} {}{cause}", palette.strong(&name)));
        lines.extend(figures);
    }
    for figures in laid {
        let untold = others == diff.count(Class::Unchanged);
        let which = if untold { " that cannot be told apart" } else { "" };
        let line = format!(" and {others} other {}{which}", diff.by.noun(others));
        lines.extend(std::iter::once(&line).chain(&figures).map(|line| palette.faint(line)));
    }
    lines
}

/// The cell for a time of a row, if any of its faults was timed.
fn timed(row: &DiffRow, cell: String) -> String {
    let is_timed = row.time_ns.before.value > 0.0 || row.time_ns.after.value > 0.0;
    if is_timed { cell } else { "-".to_owned() }
}

/// The cells for all rows that are not shown. Their differences have no interval.
fn rest(diff: &Diff, rows: &[&DiffRow]) -> Vec<String> {
    let left = |whole: &Pair, major: [f64; 2], of: fn(&DiffRow) -> &Pair| {
        let shown = |side: fn(&Pair) -> f64| rows.iter().map(|row| side(of(row))).sum::<f64>();
        let before = whole.before.value - major[0] - shown(|pair| pair.before.value);
        let after = whole.after.value - major[1] - shown(|pair| pair.after.value);
        // Rounding can leave a tiny rest.
        [before, after]
            .map(|left| if left < 1e-9 * whole.before.value.max(whole.after.value) { 0.0 } else { left })
    };
    let cells = |[before, after]: [f64; 2], show: fn(f64) -> String| {
        [show(before), show(after), signed(after - before, show)]
    };
    let times = cells(left(&diff.time_ns, [0.0; 2], |row| &row.time_ns), nanos);
    let faults = cells(left(&diff.faults, diff.major.faults, |row| &row.faults), number);
    times.into_iter().chain(faults).collect()
}

/// Why a row has grown or shrunk.
fn why(class: Class, cause: Cause) -> &'static str {
    match (cause, class) {
        (Cause::Faults, Class::Grown) => "more faults",
        (Cause::Faults, _) => "fewer faults",
        (Cause::Price, Class::Grown) => "dearer faults",
        (Cause::Price, _) => "cheaper faults",
        (Cause::Both, _) => "faults and their price",
    }
}

/// `+210 ms ± 20.0 ms`. Counted exactly: `+2 000`. Explained by chance or uneven: `-12.0 ms to +18.0 ms`.
fn change(pair: &Pair, show: fn(f64) -> String) -> String {
    let Interval { value, low, high } = pair.difference;
    let half = show(0.5 * (high - low));
    if is_nothing(&half) {
        signed(value, show)
    } else if is_told(pair) && 0.5 * (high - low) < value.abs() {
        format!("{} ± {half}", signed(value, show))
    } else {
        format!("{} to {}", signed(low, show), signed(high, show))
    }
}

fn is_nothing(shown: &str) -> bool {
    shown == "0" || shown == "0 ns"
}

fn signed(value: f64, show: fn(f64) -> String) -> String {
    let size = show(value.abs());
    match value {
        _ if is_nothing(&size) => size,
        below if below < 0.0 => format!("-{size}"),
        _ => format!("+{size}"),
    }
}

fn nanos(ns: f64) -> String {
    Nanos(ns).to_string()
}

fn number(of: f64) -> String {
    Count(of.round() as u64).to_string()
}
