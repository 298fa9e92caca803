//! The blocks below the answer. Each function returns lines, or none if there is no answer.

use faultless_trace::Stat;
use faultless_trace::measurement::{Bytes, Count, Nanos};
use faultless_trace::stat::{Curve, FaultTime, Interval, KernelTime, Point, Serialisation, Source};

use super::sentence::{has_bounds, share};
use crate::figure::Figure;
use crate::palette::Palette;
use crate::table::{Align, SCREEN, bar, bar_between, columns, flowing, wrap};

/// Width of a full bar in characters on a whole screen.
const BAR: usize = 40;

pub(super) fn usage(stat: &Stat, palette: Palette, width: usize) -> Vec<String> {
    let usage = stat.usage;
    if usage.wall_ns == 0 {
        return Vec::new();
    }
    let ns = |ns: u64| Nanos(ns as f64).to_string();
    let figures = [
        (ns(usage.wall_ns), "wall"),
        (ns(usage.user_ns), "user"),
        (ns(usage.system_ns), "system"),
        (Bytes(usage.peak_rss_bytes).to_string(), "peak RSS"),
    ];
    // The whole machine has no peak.
    let known = if usage.peak_rss_bytes > 0 { &figures[..] } else { &figures[..3] };
    let words: Vec<String> = known.iter().map(|(figure, what)| format!("{figure} {what}")).collect();
    let mut lines = flowing(1, 3, &words, width);
    if let Some(beyond) = stat.beyond_wait4.filter(|beyond| beyond.cpu_ns > 0) {
        let text = format!("{} more CPU time of processes that nobody waited for", ns(beyond.cpu_ns));
        lines.extend(wrap(" ", &text, width));
    }
    lines.into_iter().map(|line| palette.faint(&line)).collect()
}

/// Time of one fault, and of a MiB.
pub(super) fn time(stat: &Stat, palette: Palette, width: usize) -> Vec<String> {
    let Some(time) = &stat.time else { return Vec::new() };
    let quantile = |(name, ns): (&str, f64)| format!("{name} {}", Nanos(ns));
    let mut cells = match time.source {
        Source::Calibrated => vec![format!("{}, of a first touch of our own", Nanos(time.p50_ns))],
        _ => [("p50", time.p50_ns), ("p90", time.p90_ns), ("p99", time.p99_ns)].map(quantile).to_vec(),
    };
    cells.extend(time.us_per_mib.map(|us| format!("{} per MiB made resident", Nanos(us * 1e3))));
    headed("Time of one fault", palette, flowing(3, 3, &cells, width))
}

pub(super) fn timing(time: &FaultTime) -> Option<String> {
    let offset = match time.offset_ns {
        ns if ns < 0.0 => {
            format!("{} added to each: part of the trap lies outside the two time stamps", Nanos(-ns))
        }
        ns if time.source == Source::Measured => {
            format!("{} subtracted from each: what measuring takes", Nanos(ns))
        }
        ns => format!("{} subtracted from each: what writing the record takes", Nanos(ns)),
    };
    (time.timed > 0)
        .then(|| format!("times are {}: {} faults timed, {offset}", name(time.source), Count(time.timed)))
}

pub(super) fn name(source: Source) -> &'static str {
    match source {
        Source::Counted => "counted",
        Source::Measured => "measured in the kernel by BPF",
        Source::Sampled => "sampled",
        Source::Inferred => "inferred",
        Source::Calibrated => "calibrated estimate",
        Source::Remainder => "remainder",
    }
}

pub(super) fn reading(curve: &Curve) -> String {
    format!("faults and resident memory were read {} for what is avoidable", Count(curve.readings).of("time"))
}

/// What recording added.
pub(super) fn added(recorder_ns: u64) -> String {
    format!(
        "recording has added about {} to the program's CPU time: in user and system time, not in what shares are taken of",
        Nanos(recorder_ns as f64)
    )
}

/// The avoidable curve as a small table with its knee. Empty if retaining memory avoids little, or if that is
/// unknown.
pub(super) fn avoidable(stat: &Stat, palette: Palette, width: usize) -> Vec<String> {
    let Some((curve, knee)) = stat.avoidable.as_ref().and_then(|curve| Some((curve, curve.knee?))) else {
        return Vec::new();
    };
    let points = points_with_knee(curve);
    let is_knee = |p: &Point| knee.keep_bytes == p.keep_bytes;
    let cells: Vec<Vec<String>> = points
        .iter()
        .map(|p| {
            vec![
                Bytes(p.keep_bytes).to_string(),
                share(p),
                bar_between(p.low, p.high, BAR.min(width - (SCREEN - BAR))),
            ]
        })
        .collect();
    let lines = columns(3, &[Align::Right, Align::Right, Align::Left], &cells);
    let styled = lines.into_iter().zip(&points).map(|(line, point)| {
        if is_knee(point) {
            palette.good(&format!("{line}  <- enough"))
        } else {
            line.find(['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '░'])
                .map_or(line.clone(), |at| format!("{}{}", &line[..at], palette.bar(&line[at..])))
        }
    });
    let bounds = if points.iter().any(has_bounds) { " (at least to at most)" } else { "" };
    let head = format!("Avoidable, had so much freed memory been kept{bounds}");
    let head = wrap(" ", &head, width).into_iter().map(|line| palette.strong(&line));
    head.chain(styled).collect()
}

/// The curve's points with the knee among them.
fn points_with_knee(curve: &Curve) -> Vec<Point> {
    let mut points = curve.points.clone();
    if let Some(knee) = curve.knee.filter(|k| points.iter().all(|p| p.keep_bytes != k.keep_bytes)) {
        points.push(knee);
        points.sort_by_key(|p| p.keep_bytes);
    }
    points
}

pub(super) fn serialisation(stat: &Stat, palette: Palette, width: usize) -> Vec<String> {
    headed("Threads", palette, verdict_lines(&stat.serialisation, palette, width))
}

pub(crate) fn verdict_lines(verdict: &Serialisation, palette: Palette, width: usize) -> Vec<String> {
    let why = |threads: &u32, ratio: &Interval| {
        let times = Figure::ratio(*ratio);
        format!("with {threads} in flight one takes {times} times as long as alone")
    };
    type Style = fn(Palette, &str) -> String;
    let (words, style, why): (_, Style, _) = match verdict {
        Serialisation::Serialised { threads, ratio } => {
            ("faults wait for each other", Palette::bad, why(threads, ratio))
        }
        Serialisation::Independent { threads, ratio } => {
            ("faults do not wait for each other", Palette::good, why(threads, ratio))
        }
        Serialisation::CannotSay { .. } => return Vec::new(),
    };
    let mut lines = wrap("   ", &format!("{words}: {why}"), width);
    lines[0] = lines[0].replacen(words, &style(palette, words), 1);
    lines
}

pub(super) fn kernel(stat: &Stat, palette: Palette, width: usize) -> Vec<String> {
    stat.kernel.as_ref().map_or_else(Vec::new, |kernel| kernel_lines(kernel, palette, width))
}

/// A side with too few samples has no lines: the faults themselves tell their time better.
pub(crate) fn kernel_lines(kernel: &KernelTime, palette: Palette, width: usize) -> Vec<String> {
    let release = Figure::seconds(kernel.release_seconds);
    let mut lines = if kernel.release_seconds.low <= 0.0 {
        Vec::new()
    } else {
        wrap(
            "   ",
            &format!("giving memory back (unmap, exit, madvise): {release}, beside the faults"),
            width,
        )
    };
    let phases: Vec<_> = kernel.phases.iter().flatten().collect();
    if !phases.is_empty() {
        lines.push("   of the time in faults:".to_owned());
    }
    let shares = Figure::column(&phases.iter().map(|p| Figure::share(p.share)).collect::<Vec<_>>());
    let phases: Vec<Vec<String>> = phases
        .into_iter()
        .zip(shares)
        .map(|(p, share)| vec![p.phase.clone(), share, bar(p.share.value, BAR.min(width - 40))])
        .collect();
    lines.extend(columns(5, &[Align::Left, Align::Left, Align::Left], &phases));
    headed(&format!("Kernel ({} of the CPU clock)", Count(kernel.samples).of("sample")), palette, lines)
}

pub(crate) fn headed(head: &str, palette: Palette, lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() {
        return lines;
    }
    std::iter::once(palette.strong(&format!(" {head}"))).chain(lines).collect()
}
