//! The answer of `advise`.
//!
//! In: an [`Advice`]. Out: text, JSON, or a picture. It decides nothing.

use std::fmt::Write;

use faultless_trace::advice::{Advice, Reason, Score, Standing};
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent, Seconds};
use faultless_trace::rounds::{FaultTime, Figures, Quantity};
use faultless_trace::stat::Interval;

use crate::svg::{self, Bar};
use crate::table::{Room, WIDTH, flowing, wrap};
use crate::text;

/// The answer first, then times, faults and labels of each arm, then how to adopt the winner. At most `columns` wide,
/// but 60 to 100, and `None`: 100. The command to copy alone is never broken.
pub fn text(advice: &Advice, colour: bool, columns: Option<usize>) -> String {
    let style = Style::of(advice, colour, Room::of(columns).up_to(WIDTH));
    let mut out = String::new();
    let mut say = |first: &str, text: &str, begin: &str, end: &str| {
        for line in wrap(first, text, style.columns) {
            let _ = writeln!(out, "{begin}{line}{end}");
        }
    };
    say("", &headline(advice), style.bold, style.plain);
    if let Some(choice) = &advice.choice {
        say("", choice, "", "");
    }
    times(&mut out, advice, &style);
    faults(&mut out, advice, &style);
    labels(&mut out, advice, &style);
    if let Some(winner) = advice.winner {
        let winner = &advice.scores[winner];
        let _ = writeln!(out, "\nTo adopt it:\n\n    {}{}{}\n", style.bold, winner.arm.adopt, style.plain);
        let _ = writeln!(out, "It costs {}.", memory_cost(winner, &advice.scores[0]));
    }
    for note in &advice.notes {
        let _ = writeln!(out, "{}", wrap("note: ", note, style.columns).join("\n"));
    }
    out
}

/// Widths and escape sequences.
struct Style {
    /// Of a line.
    columns: usize,
    /// Of the arms' names.
    width: usize,
    bold: &'static str,
    green: &'static str,
    dim: &'static str,
    plain: &'static str,
}

impl Style {
    fn of(advice: &Advice, colour: bool, columns: usize) -> Self {
        let width = advice.scores.iter().map(|score| score.arm.name.len()).max().unwrap_or(0);
        let [bold, green, dim, plain] =
            if colour { ["\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[0m"] } else { [""; 4] };
        Self { columns, width, bold, green, dim, plain }
    }

    /// The winner's row is marked.
    fn row(&self, out: &mut String, advice: &Advice, index: usize, lines: &[String]) {
        let won = advice.winner == Some(index);
        let (mark, begin, end) = if won { ("*", self.green, self.plain) } else { (" ", "", "") };
        let (name, width) = (&advice.scores[index].arm.name, self.width);
        let lines = lines.join(&format!("\n  {:width$}  ", ""));
        let _ = writeln!(out, "{begin}{mark} {name:width$}  {lines}{end}");
    }

    /// Room beside the names.
    fn room(&self) -> usize {
        self.columns.saturating_sub(self.width + 4)
    }

    /// The figures of each arm below a head, in columns of these widths. Where that is too wide, a row takes several
    /// lines, and a column that belongs to the one before stays beside it.
    fn table(&self, out: &mut String, advice: &Advice, heads: &[Head], rows: &[Vec<String>]) {
        let longest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let least = |at: usize| longest(at).max(heads[at].name.len());
        let wide: Vec<usize> = (0..heads.len()).map(|at| least(at).max(heads[at].width)).collect();
        let fits = wide.iter().sum::<usize>() + 2 * (wide.len() - 1) <= self.room();
        let widths = if fits { wide } else { (0..heads.len()).map(least).collect() };
        let lines = |cells: &[&str]| -> Vec<String> {
            let mut groups: Vec<String> = Vec::new();
            for ((cell, width), head) in cells.iter().zip(&widths).zip(heads) {
                match groups.last_mut() {
                    Some(group) if head.of_last => group.push_str(&format!("  {cell:>width$}")),
                    _ => groups.push(format!("{cell:>width$}")),
                }
            }
            flowing(0, 2, &groups, self.room())
        };
        let _ = writeln!(out);
        for head in lines(&heads.iter().map(|head| head.name).collect::<Vec<_>>()) {
            let _ = writeln!(out, "  {}{:width$}  {head}{}", self.dim, "", self.plain, width = self.width);
        }
        for (index, row) in rows.iter().enumerate() {
            self.row(out, advice, index, &lines(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        }
    }
}

/// A column of figures.
struct Head {
    name: &'static str,
    /// Where there is room.
    width: usize,
    /// It says more of the column before.
    of_last: bool,
}

fn times(out: &mut String, advice: &Advice, style: &Style) {
    let figure = |name| Head { name, width: 9, of_last: false };
    let ratio_of = || Head { name: "ratio, 95 %", width: 20, of_last: true };
    let heads = [figure("wall"), ratio_of(), figure("CPU"), ratio_of(), figure("peak RSS")];
    let row = |(index, score): (usize, &Score)| {
        let Figures { wall_ns, cpu_ns, peak_rss_bytes, .. } = &score.figures;
        let of = |time: &Quantity| [Nanos(time.median.value).to_string(), beside(index, time)];
        let [[wall, of_wall], [cpu, of_cpu]] = [wall_ns, cpu_ns].map(of);
        vec![wall, of_wall, cpu, of_cpu, bytes(peak_rss_bytes.median.value).to_string()]
    };
    let rows: Vec<Vec<String>> = advice.scores.iter().enumerate().map(row).collect();
    style.table(out, advice, &heads, &rows);
}

fn faults(out: &mut String, advice: &Advice, style: &Style) {
    let heads = ["faults, 95 %", "CPU time in faults, 95 %"];
    let heads = heads.map(|name| Head { name, width: 30, of_last: false });
    let row = |score: &Score| {
        let Figures { faults, fault_time, .. } = &score.figures;
        let time = fault_time.map_or("-".into(), |time| in_faults(&time));
        vec![with_interval(&faults.median, |faults| count(faults).to_string()), time]
    };
    let rows: Vec<Vec<String>> = advice.scores.iter().map(row).collect();
    style.table(out, advice, &heads, &rows);
}

fn labels(out: &mut String, advice: &Advice, style: &Style) {
    let Style { width, dim, plain, .. } = style;
    let _ = writeln!(out);
    for (index, score) in advice.scores.iter().enumerate().skip(1) {
        style.row(out, advice, index, &lines(&score.label, style.room()));
        for line in wrap("", &score.arm.what, style.room()) {
            let _ = writeln!(out, "  {:width$}  {dim}{line}{plain}", "");
        }
    }
}

/// Breaks where a clause ends, and inside a clause that is longer than a line.
fn lines(label: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for clause in label.split_inclusive("; ") {
        match lines.last_mut() {
            Some(line) if line.len() + clause.trim_end().len() <= width => line.push_str(clause),
            _ => lines.push(clause.into()),
        }
    }
    lines.iter().flat_map(|line| wrap("", line.trim_end(), width)).collect()
}

/// The [`Advice`] as JSON. `schema` is the version of the document.
pub fn json(advice: &Advice) -> String {
    text::json(advice)
}

/// The wall time of each arm as bars, with the time and ratio of the table.
pub fn svg(advice: &Advice) -> String {
    let bar = |(index, score): (usize, &Score)| {
        // The interval belongs to the ratio, not to the time. It is scaled to the length of the bar.
        let wall = &score.figures.wall_ns;
        let wall_ms = wall.median.value / 1e6;
        let ratio = wall.ratio.filter(|ratio| has_ends(ratio) && ratio.value > 0.0);
        let ends = ratio.map_or(Interval::around(wall_ms, 0.0), |ratio| ratio.times(wall_ms / ratio.value));
        Bar {
            label: score.arm.name.clone(),
            value: wall_ms,
            low: ends.low,
            high: ends.high,
            note: format!("{}, {}", Nanos(wall.median.value), beside(index, wall)),
            highlight: advice.winner == Some(index),
        }
    };
    let bars: Vec<Bar> = advice.scores.iter().enumerate().map(bar).collect();
    let subtitle = format!(
        "{}. Time and its ratio with 95 % intervals, {}: {}",
        verdict(advice),
        Count(u64::from(advice.rounds)).of("round"),
        text::command(&advice.command)
    );
    svg::bars("Wall time under each cure, ms", &subtitle, &bars)
}

/// The verdict in one sentence.
fn headline(advice: &Advice) -> String {
    let base = &advice.scores[0].figures;
    let verdict = verdict(advice);
    match advice.winner.map(|winner| &advice.scores[winner]) {
        Some(score) => {
            // In the unit of the verdict: times as fast, or a share less.
            let range = match gain(score) {
                (Gain::Time, ratio) => format!("{:.2} to {:.2}", 1.0 / ratio.high, 1.0 / ratio.low),
                (Gain::Cpu, ratio) => {
                    let less = |ratio: f64| format!("{:.0}", 100.0 * (1.0 - ratio));
                    format!("{} to {} %", less(ratio.high), less(ratio.low))
                }
            };
            let (left, all) = (&score.figures.faults, &base.faults);
            let [left, all] = [left, all].map(|faults| count(faults.median.value));
            let faults = format!("{left} instead of {all} faults");
            format!("{verdict} ({range}), {faults}")
        }
        None => base.fault_time.map_or(verdict.clone(), |time| {
            let cpu = Nanos(base.cpu_ns.median.value);
            format!("{verdict}: page faults take {} of {cpu} CPU time", in_faults(&time))
        }),
    }
}

/// The verdict in a few words.
fn verdict(advice: &Advice) -> String {
    let Some(winner) = advice.winner else {
        let any = |standing| advice.scores.iter().any(|score| score.standing == Some(standing));
        let for_a = |reason| advice.scores.iter().any(|score| score.reason == Some(reason));
        return if advice.rounds == 0 {
            "No verdict, for no round was finished"
        } else if advice.rounds == 1 {
            "No verdict from one round"
        } else if advice.scores.len() == 1 {
            "No cure can be tried here"
        } else if for_a(Reason::TooMuchMemory) {
            "Nothing helps within the memory allowed"
        } else if any(Standing::NotCertain) || for_a(Reason::SameFaults) {
            "Nothing is shown to help"
        } else {
            "Nothing helps"
        }
        .into();
    };
    let name = &advice.scores[winner].arm.name;
    match gain(&advice.scores[winner]) {
        (Gain::Time, ratio) => format!("{name}: {:.2}x faster", 1.0 / ratio.value),
        (Gain::Cpu, ratio) => format!("{name}: {} less CPU time", Percent(1.0 - ratio.value)),
    }
}

/// What a winner saves.
enum Gain {
    Time,
    Cpu,
}

/// What the winner saves: elapsed time. If that is not certain, CPU time.
fn gain(score: &Score) -> (Gain, Interval) {
    let Figures { wall_ns, cpu_ns, .. } = &score.figures;
    let (wall, cpu) = (wall_ns.ratio.unwrap_or_default(), cpu_ns.ratio.unwrap_or_default());
    if wall.high < 1.0 { (Gain::Time, wall) } else { (Gain::Cpu, cpu) }
}

fn memory_cost(winner: &Score, base: &Score) -> String {
    let [own, base] = [winner, base].map(|score| score.figures.peak_rss_bytes.median.value);
    let more = own - base;
    let share = 100.0 * more / base;
    if more.abs() < 1e6 || share.abs() < 1.0 {
        return "hardly any memory".into();
    }
    let word = if more > 0.0 { "more" } else { "less" };
    format!("{} {word} memory at the peak ({share:+.0} %)", bytes(more.abs()))
}

/// `0.312 (0.298-0.331)`, of the time of one arm as a ratio to the baseline's.
fn beside(index: usize, time: &Quantity) -> String {
    match time.ratio {
        None if index == 0 => "1".into(),
        None => "-".into(),
        Some(i) if has_ends(&i) => format!("{:.3} ({:.3}-{:.3})", i.value, i.low, i.high),
        Some(i) => format!("{:.3} (one round)", i.value),
    }
}

fn in_faults(time: &FaultTime) -> String {
    with_interval(&time.seconds, |seconds| Seconds(seconds).to_string())
}

/// `223 ms (201 ms-245 ms)`. Without an interval, or if both ends read the same, the figure alone.
fn with_interval(interval: &Interval, show: impl Fn(f64) -> String) -> String {
    let [value, low, high] = [interval.value, interval.low, interval.high].map(show);
    if !has_ends(interval) || low == high { value } else { format!("{value} ({low}-{high})") }
}

/// A single value has no interval.
pub(crate) fn has_ends(interval: &Interval) -> bool {
    interval.high < f64::MAX
}

pub(crate) fn count(faults: f64) -> Count {
    Count(faults.round() as u64)
}

pub(crate) fn bytes(len: f64) -> Bytes {
    Bytes(len.round() as u64)
}
