//! The answer of `advise`.
//!
//! In: an [`Advice`]. Out: text, JSON, or a picture. It decides nothing.

use std::fmt::Write;

use faultless_trace::advice::{Advice, Reason, Score, Standing};
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent, Seconds};
use faultless_trace::rounds::{FaultTime, Figures, Quantity};
use faultless_trace::stat::Interval;
use faultless_trace::why::Mechanism;

use crate::figure::Figure;
use crate::palette::Palette;
use crate::svg::{self, Bar};
use crate::table::{Align, WIDTH, columns, flowing, up_to, wrap};
use crate::text;
use crate::why;

/// The answer first, then times, faults and labels of each arm, then how to adopt the winner. At most `columns` wide,
/// but 60 to 100, and `None`: 100. The command to copy alone is never broken.
pub fn text(advice: &Advice, colour: bool, columns: Option<usize>) -> String {
    let style = Style::of(advice, colour, up_to(WIDTH, columns));
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
    why::heaps(&advice.heaps, style.columns)
        .iter()
        .for_each(|line| out.push_str(&format!("{}\n", line.trim_start())));
    let mechanisms = why::lines(&advice.mechanisms, why::CPU_TIME, Palette(colour), style.columns);
    if !mechanisms.is_empty() {
        let _ = writeln!(out, "\n{}", mechanisms.join("\n"));
    }
    if !advice.scores.is_empty() {
        figures(&mut out, advice, &style);
        labels(&mut out, advice, &style);
        adoption(&mut out, advice, &style);
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

    /// Blocks of columns, with a head and a row for each arm. Where they are too wide, a row takes several lines, and a
    /// block stays whole.
    fn table(&self, out: &mut String, advice: &Advice, blocks: &[Vec<Vec<String>>]) {
        let block = |rows: &Vec<Vec<String>>| columns(0, &vec![Align::Right; rows[0].len()], rows);
        let blocks: Vec<Vec<String>> = blocks.iter().map(block).collect();
        let _ = writeln!(out);
        for line in 0..=advice.scores.len() {
            let cells: Vec<String> = blocks.iter().map(|rows| rows[line].clone()).collect();
            let lines = flowing(0, 2, &cells, self.room());
            match line.checked_sub(1) {
                Some(index) => self.row(out, advice, index, &lines),
                None => lines.iter().for_each(|head| {
                    let _ = writeln!(
                        out,
                        "  {}{:width$}  {head}{}",
                        self.dim,
                        "",
                        self.plain,
                        width = self.width
                    );
                }),
            }
        }
    }
}

fn figures(out: &mut String, advice: &Advice, style: &Style) {
    let block = |heads: &[&str], row: &dyn Fn(usize, &Figures) -> Vec<String>| -> Vec<Vec<String>> {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        let rows = advice.scores.iter().enumerate().map(|(index, score)| row(index, &score.figures));
        std::iter::once(heads).chain(rows).collect()
    };
    let time = |name, of: fn(&Figures) -> &Quantity| {
        block(&[name, "ratio, 95 %"], &|index, figures| {
            let time = of(figures);
            // The first ratio says why there is none.
            let why = figures.mismatch.filter(|_| name == "wall").map(|mismatch| mismatch.to_string());
            vec![Nanos(time.median.value).to_string(), why.unwrap_or_else(|| beside(index, time))]
        })
    };
    let rss = block(&["peak RSS", "at end"], &|_, of| {
        let end = of.end_bytes.map_or("-".into(), |end| Bytes(end).to_string());
        vec![bytes(of.peak_rss_bytes.median.value).to_string(), end]
    });
    let faults = block(&["faults, 95 %"], &|_, of| {
        vec![with_interval(&of.faults.median, |faults| count(faults).to_string())]
    });
    let of_faults = block(&["CPU time in faults, 95 %"], &|_, of| {
        vec![of.fault_time.map_or("-".into(), |time| in_faults(&time))]
    });
    style.table(out, advice, &[time("wall", |of| &of.wall_ns), time("CPU", |of| &of.cpu_ns), rss]);
    style.table(out, advice, &[faults, of_faults]);
}

fn labels(out: &mut String, advice: &Advice, style: &Style) {
    let Style { width, dim, plain, .. } = style;
    let _ = writeln!(out);
    for (index, score) in advice.scores.iter().enumerate().skip(1) {
        style.row(out, advice, index, &wrap("", &score.label, style.room()));
        let base_ns = advice.scores[0].figures.cpu_ns.median.value;
        let beneath = [Some(score.arm.what.clone()), beside_estimate(score, base_ns)];
        for line in beneath.iter().flatten().flat_map(|text| wrap("", text, style.room())) {
            let _ = writeln!(out, "  {:width$}  {dim}{line}{plain}", "");
        }
    }
}

/// `estimated to save 28 to 31 % of the CPU time, measured 27 to 30 %`.
fn beside_estimate(score: &Score, base_ns: f64) -> Option<String> {
    let shares = |[low, high]: [f64; 2]| {
        let [low, high] = [low, high].map(|ns| format!("{:.0}", 100.0 * ns / base_ns));
        if low == high { format!("{low} %") } else { format!("{low} to {high} %") }
    };
    let estimate = score.estimate_ns.filter(|_| base_ns > 0.0)?;
    let measured = score.measured_ns.map(|measured| format!(", measured {}", shares(measured)));
    Some(format!("estimated to save {} of the CPU time{}", shares(estimate), measured.unwrap_or_default()))
}

/// The line to paste of the winner, then those of the cures level with it, each with its cost in memory.
fn adoption(out: &mut String, advice: &Advice, style: &Style) {
    let Some(winner) = advice.winner else { return };
    let level = advice.level.iter().copied().filter(|&index| index != winner);
    for index in std::iter::once(winner).chain(level) {
        let score = &advice.scores[index];
        let cost = memory_cost(&score.figures, &advice.scores[0].figures);
        let said = if index == winner {
            format!("To adopt it, which costs {cost}:")
        } else {
            format!("{} is level with it and costs {cost}:", score.arm.name)
        };
        let (begin, end) = if index == winner { (style.bold, style.plain) } else { ("", "") };
        let said = wrap("", &said, style.columns).join("\n");
        let _ = writeln!(out, "\n{said}\n\n    {begin}{}{end}", score.arm.adopt);
    }
    let _ = writeln!(out);
}

/// The wall time of each arm as bars, with the time and ratio of the table.
pub fn svg(advice: &Advice) -> String {
    let bar = |(index, score): (usize, &Score)| {
        // The interval belongs to the ratio, not to the time. It is scaled to the length of the bar.
        let wall = &score.figures.wall_ns;
        let mismatch = score.figures.mismatch.map(|mismatch| mismatch.to_string());
        let wall_ms = wall.median.value / 1e6;
        let ratio = wall.ratio.filter(|ratio| has_ends(ratio) && ratio.value > 0.0);
        let ends = ratio.map_or(Interval::around(wall_ms, 0.0), |ratio| ratio.times(wall_ms / ratio.value));
        Bar {
            label: score.arm.name.clone(),
            value: wall_ms,
            low: ends.low,
            high: ends.high,
            note: format!(
                "{}, {}",
                Nanos(wall.median.value),
                mismatch.unwrap_or_else(|| beside(index, wall))
            ),
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
    let Some(base) = advice.scores.first() else {
        return untried(&advice.mechanisms);
    };
    let base = &base.figures;
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

/// Without runs: the setting that should save most.
fn untried(mechanisms: &[Mechanism]) -> String {
    let cures = mechanisms.iter().filter(|one| one.can_be_tried()).flat_map(|mechanism| &mechanism.cures);
    let settings = cures.filter(|cure| cure.variable.is_some() && cure.saves_ns.high > 0.0);
    match settings.max_by(|a, b| a.saves_ns.value.total_cmp(&b.saves_ns.value)) {
        Some(best) => {
            let saves = Figure::nanos_range(best.saves_ns);
            format!("{} should save {saves} of CPU time; nothing was tried", text::plain(&best.how))
        }
        None => "Nothing was tried: no cure that advise knows acts on this program".to_owned(),
    }
}

/// The verdict in a few words.
fn verdict(advice: &Advice) -> String {
    let Some(winner) = advice.winner else {
        let any = |standing| advice.scores.iter().any(|score| score.standing == Some(standing));
        let in_rounds = advice.scores.iter().filter(|score| score.dropped_after != Some(0));
        let for_a = |reason| in_rounds.clone().any(|score| score.reason == Some(reason));
        return if advice.rounds == 0 {
            "No verdict, for no round was finished"
        } else if advice.rounds == 1 {
            "No verdict from one round"
        } else if advice.scores.len() == 1 {
            "No cure can be tried here"
        } else if for_a(Reason::TooMuchMemory) {
            "Nothing helps within the memory allowed"
        } else if for_a(Reason::OnlyWarm) {
            "Nothing helps after a pause, when the host of this machine has taken free memory back"
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

/// `hardly any memory at the peak, and 12 MiB more (+4 %) at the end`. Beside next to nothing, a share says nothing.
fn memory_cost(own: &Figures, base: &Figures) -> String {
    let cost = |own: f64, base: f64| {
        let (more, share) = (own - base, 100.0 * (own - base) / base.max(1.0));
        let word = if more > 0.0 { "more" } else { "less" };
        let share_shown = if share < 1000.0 { format!(" ({share:+.0} %)") } else { String::new() };
        (more.abs() >= 1e6 && share.abs() >= 1.0)
            .then(|| format!("{} {word}{share_shown}", bytes(more.abs())))
    };
    let peak = cost(own.peak_rss_bytes.median.value, base.peak_rss_bytes.median.value);
    let end = own.end_bytes.zip(base.end_bytes).map(|(own, base)| cost(own as f64, base as f64));
    let shown = |cost: Option<String>| cost.unwrap_or_else(|| "hardly any memory".into());
    match end {
        None => format!("{} at the peak", shown(peak)),
        Some(None) if peak.is_none() => "hardly any memory".into(),
        Some(end) => format!("{} at the peak, and {} at the end", shown(peak), shown(end)),
    }
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
