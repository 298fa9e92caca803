//! The answer of `advise`.
//!
//! In: an [`Advice`]. Out: text, JSON, or a picture. It decides nothing.

use std::fmt::Write;

use faultless_trace::advice::{Advice, Score, Standing};
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent, Seconds};
use faultless_trace::stat::Interval;

use crate::figure::Figure;
use crate::svg::{self, Bar};
use crate::table::WIDTH;
use crate::text;

/// The answer first, then times, faults and labels of each arm, then how to adopt the winner.
pub fn text(advice: &Advice, colour: bool) -> String {
    let style = Style::of(advice, colour);
    let mut out = String::new();
    let _ = writeln!(out, "{}{}{}", style.bold, headline(advice), style.plain);
    if let Some(choice) = &advice.choice {
        let _ = writeln!(out, "{choice}");
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
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// Column width and escape sequences.
struct Style {
    width: usize,
    bold: &'static str,
    green: &'static str,
    dim: &'static str,
    plain: &'static str,
}

impl Style {
    fn of(advice: &Advice, colour: bool) -> Self {
        let width = advice.scores.iter().map(|score| score.arm.name.len()).max().unwrap_or(0);
        let [bold, green, dim, plain] =
            if colour { ["\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[0m"] } else { [""; 4] };
        Self { width, bold, green, dim, plain }
    }

    /// The winner's row is marked.
    fn row(&self, out: &mut String, advice: &Advice, index: usize, cells: &str) {
        let won = advice.winner == Some(index);
        let (mark, begin, end) = if won { ("*", self.green, self.plain) } else { (" ", "", "") };
        let (name, width) = (&advice.scores[index].arm.name, self.width);
        let _ = writeln!(out, "{begin}{mark} {name:width$}  {cells}{end}");
    }
}

fn times(out: &mut String, advice: &Advice, style: &Style) {
    let Style { width, dim, plain, .. } = style;
    let head = format!(
        "{:>9}  {:>20}  {:>9}  {:>20}  {:>9}",
        "wall", "ratio, 95 %", "CPU", "ratio, 95 %", "peak RSS"
    );
    let _ = writeln!(out, "\n  {dim}{:width$}  {head}{plain}", "");
    for (index, score) in advice.scores.iter().enumerate() {
        let (wall, cpu) = (Nanos(score.wall_ns), Nanos(score.cpu_ns));
        let own = if index == 0 { "1" } else { "-" };
        let [of_wall, of_cpu] =
            [score.wall, score.cpu].map(|interval| interval.map_or(own.into(), |interval| ratio(&interval)));
        let rss = bytes(score.peak_rss_bytes);
        let cells = format!("{wall:>9}  {of_wall:>20}  {cpu:>9}  {of_cpu:>20}  {rss:>9}");
        style.row(out, advice, index, &cells);
    }
}

fn faults(out: &mut String, advice: &Advice, style: &Style) {
    let Style { width, dim, plain, .. } = style;
    let head = format!("{:>30}  {:>30}", "faults, 95 %", "CPU time in faults, 95 %");
    let _ = writeln!(out, "\n  {dim}{:width$}  {head}{plain}", "");
    for (index, score) in advice.scores.iter().enumerate() {
        let faults = with_interval(&score.faults, |faults| count(faults).to_string());
        let time = score
            .fault_time
            .map_or("-".into(), |time| with_interval(&time.seconds, |seconds| Seconds(seconds).to_string()));
        style.row(out, advice, index, &format!("{faults:>30}  {time:>30}"));
    }
}

fn labels(out: &mut String, advice: &Advice, style: &Style) {
    let Style { width, dim, plain, .. } = style;
    let _ = writeln!(out);
    for (index, score) in advice.scores.iter().enumerate().skip(1) {
        let indent = format!("\n  {:width$}  ", "");
        style.row(out, advice, index, &lines(&score.label, WIDTH - width - 4).join(&indent));
        let _ = writeln!(out, "  {:width$}  {dim}{}{plain}", "", score.arm.what);
    }
}

/// Breaks only where a clause ends.
fn lines(label: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for clause in label.split_inclusive("; ") {
        match lines.last_mut() {
            Some(line) if line.len() + clause.trim_end().len() <= width => line.push_str(clause),
            _ => lines.push(clause.into()),
        }
    }
    lines.iter().map(|line| line.trim_end().into()).collect()
}

/// The [`Advice`] as JSON. `schema` is the version of the document.
pub fn json(advice: &Advice) -> String {
    text::json(advice)
}

/// The wall time of each arm as bars, with the time and ratio of the table.
pub fn svg(advice: &Advice) -> String {
    let bars: Vec<Bar> = advice
        .scores
        .iter()
        .enumerate()
        .map(|(index, score)| {
            // The interval belongs to the ratio, not to the time. It is scaled to the length of the bar.
            let wall_ms = score.wall_ns / 1e6;
            let ratio = score.wall.filter(|wall| has_ends(wall) && wall.value > 0.0);
            let end =
                |of: fn(Interval) -> f64| ratio.map_or(wall_ms, |ratio| wall_ms * of(ratio) / ratio.value);
            let own = if index == 0 { "1".to_owned() } else { "-".to_owned() };
            let of_wall = score.wall.map_or(own, |wall| self::ratio(&wall));
            Bar {
                label: score.arm.name.clone(),
                value: wall_ms,
                low: end(|ratio| ratio.low),
                high: end(|ratio| ratio.high),
                note: format!("{}, {of_wall}", Nanos(score.wall_ns)),
                highlight: advice.winner == Some(index),
            }
        })
        .collect();
    let subtitle = format!(
        "{}. Time and its ratio with 95 % intervals, {} rounds: {}",
        verdict(advice),
        advice.rounds,
        text::command(&advice.command)
    );
    svg::bars("Wall time under each cure, ms", &subtitle, &bars)
}

/// The verdict in one sentence.
fn headline(advice: &Advice) -> String {
    let base = &advice.scores[0];
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
            let (left, all) = (count(score.faults.value), count(base.faults.value));
            let faults = format!("{left} instead of {all} faults");
            format!("{verdict} ({range}), {faults}")
        }
        None => base.fault_time.map_or(verdict.clone(), |time| {
            let taken = with_interval(&time.seconds, |seconds| Seconds(seconds).to_string());
            format!("{verdict}: page faults take {taken} of {} CPU time", Nanos(base.cpu_ns))
        }),
    }
}

/// The verdict in a few words.
fn verdict(advice: &Advice) -> String {
    let Some(winner) = advice.winner else {
        let any =
            |standings: &[Standing]| advice.scores.iter().any(|score| standings.contains(&score.standing));
        return if advice.rounds == 0 {
            "No verdict, for no round was finished"
        } else if advice.rounds == 1 {
            "No verdict from one round"
        } else if advice.scores.len() == 1 {
            "No cure can be tried here"
        } else if any(&[Standing::TooMuchMemory]) {
            "Nothing helps within the memory allowed"
        } else if any(&[Standing::NotCertain, Standing::SmallGain, Standing::SameFaults]) {
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
    let (wall, cpu) = (score.wall.unwrap_or_default(), score.cpu.unwrap_or_default());
    if wall.high < 1.0 { (Gain::Time, wall) } else { (Gain::Cpu, cpu) }
}

fn memory_cost(winner: &Score, base: &Score) -> String {
    let more = winner.peak_rss_bytes - base.peak_rss_bytes;
    let share = 100.0 * more / base.peak_rss_bytes;
    if more.abs() < 1e6 || share.abs() < 1.0 {
        return "hardly any memory".into();
    }
    let word = if more > 0.0 { "more" } else { "less" };
    format!("{} {word} memory at the peak ({share:+.0} %)", bytes(more.abs()))
}

fn ratio(interval: &Interval) -> String {
    match interval {
        i if has_ends(i) => format!("{:.3} ({:.3}-{:.3})", i.value, i.low, i.high),
        i => format!("{:.3} (one round)", i.value),
    }
}

/// `223 ms (201 ms-245 ms)`. Without an interval, or if both ends read the same, the figure alone. If the
/// interval is wide, the ends alone.
fn with_interval(interval: &Interval, show: impl Fn(f64) -> String) -> String {
    let [value, low, high] = [interval.value, interval.low, interval.high].map(show);
    if !has_ends(interval) || low == high {
        value
    } else if Figure::seconds(*interval).is_range() {
        format!("{low}-{high}")
    } else {
        format!("{value} ({low}-{high})")
    }
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
