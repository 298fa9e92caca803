//! The answer of `advise` as text, JSON and picture.

use std::fmt::Write;

use faultless_trace::advice::{Advice, Score, Standing};
use faultless_trace::measurement::{Bytes, Count, Nanos, Seconds};
use faultless_trace::stat::Interval;

use crate::svg::{self, Bar};

/// The answer first, then one line per arm, then how to adopt the winner.
pub fn text(advice: &Advice, colour: bool) -> String {
    let mut out = String::new();
    let (bold, green, dim, plain) =
        if colour { ("\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[0m") } else { ("", "", "", "") };
    let _ = writeln!(out, "{bold}{}{plain}\n", headline(advice));
    let width = advice.scores.iter().map(|score| score.arm.name.len()).max().unwrap_or(0);
    let _ = writeln!(
        out,
        "  {dim}{:width$}  {:>9}  {:>20}  {:>9}  {:>20}  {:>9}  {:>9}  {:>9}{plain}",
        "", "wall", "ratio, 95 %", "CPU", "ratio, 95 %", "faults", "in faults", "peak RSS"
    );
    for (index, score) in advice.scores.iter().enumerate() {
        let won = advice.winner == Some(index);
        let (mark, begin) = if won { ("*", green) } else { (" ", "") };
        let _ = writeln!(
            out,
            "{begin}{mark} {:width$}  {:>9}  {:>20}  {:>9}  {:>20}  {:>9}  {:>9}  {:>9}{}{}",
            score.arm.name,
            Nanos(score.wall_ns),
            ratio(score.wall.as_ref()),
            Nanos(score.cpu_ns),
            ratio(score.cpu.as_ref()),
            count(score.faults),
            score.fault_seconds.map_or("-".into(), |seconds| Seconds(seconds).to_string()),
            bytes(score.peak_rss_bytes),
            remark(score),
            if won { plain } else { "" },
        );
    }
    let _ = writeln!(out);
    for score in &advice.scores[1..] {
        let _ = writeln!(out, "  {dim}{:width$}  {}{plain}", score.arm.name, score.arm.what);
    }
    if let Some(winner) = advice.winner {
        let winner = &advice.scores[winner];
        let _ = writeln!(out, "\nTo adopt it:\n\n    {bold}{}{plain}\n", winner.arm.adopt);
        let _ = writeln!(out, "It costs {}.", memory_cost(winner, &advice.scores[0]));
    }
    for note in &advice.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// The document that [`Advice`] is, as JSON; `schema` is its version.
pub fn json(advice: &Advice) -> String {
    serde_json::to_string_pretty(advice).unwrap_or_default() + "\n"
}

/// Elapsed time of each arm as bars with intervals, self-contained.
pub fn svg(advice: &Advice) -> String {
    let base_ms = advice.scores.first().map_or(0.0, |base| base.wall_ns / 1e6);
    let bars: Vec<Bar> = advice
        .scores
        .iter()
        .enumerate()
        .map(|(index, score)| {
            let ratio = score.wall.unwrap_or(Interval { value: 1.0, low: 1.0, high: 1.0 });
            Bar {
                label: score.arm.name.clone(),
                value: ratio.value * base_ms,
                low: ratio.low * base_ms,
                high: ratio.high * base_ms,
                note: format!("{}, {} faults", Nanos(ratio.value * base_ms * 1e6), count(score.faults)),
                highlight: advice.winner == Some(index),
            }
        })
        .collect();
    let subtitle =
        format!("elapsed ms with 95 % intervals, {} rounds: {}", advice.rounds, advice.command.join(" "));
    svg::bars(&verdict(advice), &subtitle, &bars)
}

/// The verdict in one sentence.
pub fn headline(advice: &Advice) -> String {
    let base = &advice.scores[0];
    let verdict = verdict(advice);
    match advice.winner.map(|winner| &advice.scores[winner]) {
        Some(score) => {
            let (_, ratio) = gain(score);
            let (low, high) = (1.0 / ratio.high, 1.0 / ratio.low);
            let faults = format!("{} instead of {} faults", count(score.faults), count(base.faults));
            format!("{verdict} ({low:.2} to {high:.2}), {faults}")
        }
        None => base.fault_seconds.map_or(verdict.clone(), |seconds| {
            format!("{verdict}: page faults take {} of {} CPU time", Seconds(seconds), Nanos(base.cpu_ns))
        }),
    }
}

/// The verdict in a few words.
fn verdict(advice: &Advice) -> String {
    let Some(winner) = advice.winner else {
        let dear = advice.scores.iter().any(|score| score.standing == Standing::TooMuchMemory);
        return if dear { "Nothing helps within the memory allowed" } else { "Nothing helps" }.into();
    };
    let (word, ratio) = gain(&advice.scores[winner]);
    format!("{}: {:.2}x {word}", advice.scores[winner].arm.name, 1.0 / ratio.value)
}

/// What a winner wins: elapsed time, or CPU time where elapsed time is not certain.
fn gain(score: &Score) -> (&'static str, Interval) {
    let (wall, cpu) = (score.wall.unwrap_or_default(), score.cpu.unwrap_or_default());
    if wall.high < 1.0 { ("faster", wall) } else { ("less CPU time", cpu) }
}

fn remark(score: &Score) -> &'static str {
    match score.standing {
        Standing::Baseline | Standing::Helps => "",
        Standing::NoDifference => "  no difference",
        Standing::Hurts => "  costs time",
        Standing::TooMuchMemory => "  too much memory",
        Standing::Differs => "  behaves differently",
    }
}

fn memory_cost(winner: &Score, base: &Score) -> String {
    let more = winner.peak_rss_bytes - base.peak_rss_bytes;
    let share = 100.0 * more / base.peak_rss_bytes;
    if more.abs() < 1e6 || share.abs() < 1.0 {
        return "no memory".into();
    }
    let word = if more > 0.0 { "more" } else { "less" };
    format!("{} {word} memory at the peak ({share:+.0} %)", bytes(more.abs()))
}

fn ratio(interval: Option<&Interval>) -> String {
    interval.map_or("1".into(), |i| format!("{:.3} ({:.3}-{:.3})", i.value, i.low, i.high))
}

fn count(faults: f64) -> Count {
    Count(faults.round() as u64)
}

fn bytes(len: f64) -> Bytes {
    Bytes(len.round() as u64)
}
