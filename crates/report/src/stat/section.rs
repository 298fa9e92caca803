//! The tables below the answer: one function per section, lines out, no lines when there is nothing to show.

use faultless_trace::Stat;
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent, Seconds};
use faultless_trace::stat::{Curve, Interval, KernelTime, Point, Row, Serialisation, Source};

use super::sentence::{has_bounds, share, share_with_spread};
use crate::palette::Palette;
use crate::table::{Align, WIDTH, bar, bar_between, columns, wrap};

/// Width of a full bar in characters.
const BAR: usize = 40;

/// Faults by kind, largest first, with the sum that they make up.
pub(super) fn rows(stat: &Stat, palette: Palette) -> Vec<String> {
    if stat.rows.is_empty() {
        return Vec::new();
    }
    let all = stat.faults();
    let head = ["faults", "", "seconds", "each p50", "kind", "source"].map(str::to_owned).to_vec();
    let mut cells = vec![head];
    for row in &stat.rows {
        cells.push(vec![
            Count(row.faults).to_string(),
            Percent(row.faults as f64 / all.max(1) as f64).to_string(),
            row.seconds.map_or("-".to_owned(), |s| Seconds(s).to_string()),
            row.p50_ns.map_or("-".to_owned(), |ns| Nanos(ns).to_string()),
            row.kind.words().to_owned(),
            row_source(row),
        ]);
    }
    let sum = stat.time.as_ref().map_or("-".to_owned(), |time| Seconds(time.seconds.value).to_string());
    let (minor, major) = (Count(stat.usage.minor_faults), Count(stat.usage.major_faults));
    let more = stat.beyond_wait4.map_or(String::new(), |b| format!(" + {}", Count(b.faults)));
    let total = format!("{minor} minor + {major} major (wait4){more}");
    cells.push(vec![Count(all).to_string(), "100 %".to_owned(), sum, String::new(), "all".to_owned(), total]);
    use Align::{Left, Right};
    let mut lines = columns(3, &[Right, Right, Right, Right, Left, Left], &cells);
    lines[0] = palette.faint(&lines[0]);
    if let Some(last) = lines.last_mut() {
        *last = palette.strong(last);
    }
    lines
}

fn row_source(row: &Row) -> String {
    let source = source_name(row.source);
    let Some((low, high)) = row.interval else { return source.to_owned() };
    let part =
        high.saturating_sub(row.faults).max(row.faults.saturating_sub(low)) as f64 / row.faults.max(1) as f64;
    match part {
        p if p < 0.001 => source.to_owned(),
        p if p < 0.5 => format!("{source} ± {}", Percent(p)),
        _ => format!("{source}, {} to {}", Count(low), Count(high)),
    }
}

/// Time of one fault, of a MiB, and of all.
pub(super) fn time(stat: &Stat, palette: Palette) -> Vec<String> {
    let Some(time) = &stat.time else { return Vec::new() };
    let source = source_name(time.source);
    let head = match time.timed {
        0 => format!("Time ({source})"),
        timed => {
            format!(
                "Time ({source}: {} faults timed, {} subtracted from each)",
                Count(timed),
                signed(time.offset_ns)
            )
        }
    };
    let each = match time.source {
        Source::Calibrated => format!("{}  for a first touch of our own", Nanos(time.p50_ns)),
        _ => format!("p50 {}   p90 {}   p99 {}", Nanos(time.p50_ns), Nanos(time.p90_ns), Nanos(time.p99_ns)),
    };
    let Interval { value, low, high } = time.seconds;
    let share = share_with_spread(&time.share);
    let all = if high > low {
        format!("{}   ({} to {})   {share} of the CPU time", Seconds(value), Seconds(low), Seconds(high))
    } else {
        format!("{}   {share} of the CPU time", Seconds(value))
    };
    let mut cells = vec![vec!["one fault".to_owned(), each], vec!["all faults".to_owned(), all]];
    if let Some(us) = time.us_per_mib {
        cells.insert(1, vec!["one MiB".to_owned(), format!("{} of memory made resident", Nanos(us * 1e3))]);
    }
    headed(&head, palette, columns(3, &[Align::Left; 2], &cells))
}

fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", Nanos(-ns)) } else { Nanos(ns).to_string() }
}

/// The avoidable curve as a small table with its knee.
pub(super) fn avoidable(stat: &Stat, palette: Palette) -> Vec<String> {
    let Some(curve) = &stat.avoidable else { return Vec::new() };
    let points = points_with_knee(curve);
    let is_knee = |p: &Point| curve.knee.is_some_and(|k| k.keep_bytes == p.keep_bytes);
    let cells: Vec<Vec<String>> = points
        .iter()
        .map(|p| vec![Bytes(p.keep_bytes).to_string(), share(p), bar_between(p.low, p.high, BAR)])
        .collect();
    let lines = columns(3, &[Align::Right, Align::Right, Align::Left], &cells);
    let styled = lines.into_iter().zip(&points).map(|(line, point)| match is_knee(point) {
        true => palette.good(&format!("{line}  <- enough")),
        false => line
            .find(['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '░'])
            .map_or(line.clone(), |at| format!("{}{}", &line[..at], palette.bar(&line[at..]))),
    });
    let bounds = if points.iter().any(has_bounds) { "; at least to at most" } else { "" };
    let head = format!("Avoidable, had freed pages been kept ({} readings{bounds})", Count(curve.readings));
    headed(&head, palette, styled.collect())
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

/// Whether threads wait for each other.
pub(super) fn serialisation(stat: &Stat, palette: Palette) -> Vec<String> {
    if stat.rows.is_empty() {
        return Vec::new();
    }
    headed("Threads", palette, verdict_lines(&stat.serialisation, palette, WIDTH))
}

pub(crate) fn verdict_lines(verdict: &Serialisation, palette: Palette, width: usize) -> Vec<String> {
    let ratio = |threads: &u32, r: &Interval| {
        format!(
            "with {threads} in flight one takes {:.2} ({:.2} to {:.2}) times as long as alone",
            r.value, r.low, r.high
        )
    };
    type Style = fn(Palette, &str) -> String;
    let (words, style, why): (_, Style, _) = match verdict {
        Serialisation::Serialised { threads, ratio: r } => {
            ("faults wait for each other", Palette::bad as Style, ratio(threads, r))
        }
        Serialisation::Independent { threads, ratio: r } => {
            ("faults do not wait for each other", Palette::good as Style, ratio(threads, r))
        }
        Serialisation::CannotSay { why } => ("cannot say", Palette::strong as Style, why.clone()),
    };
    let mut lines = wrap("   ", &format!("{words}: {why}"), width);
    lines[0] = lines[0].replacen(words, &style(palette, words), 1);
    lines
}

/// The kernel's time by side and phase.
pub(super) fn kernel(stat: &Stat, palette: Palette) -> Vec<String> {
    stat.kernel.as_ref().map_or_else(Vec::new, |kernel| kernel_lines(kernel, palette))
}

pub(crate) fn kernel_lines(kernel: &KernelTime, palette: Palette) -> Vec<String> {
    let Interval { value, low, high } = kernel.release_seconds;
    let release = format!(
        "   giving memory back (unmap, exit, madvise): {} ({} to {}), beside the faults",
        Seconds(value),
        Seconds(low),
        Seconds(high)
    );
    let mut lines = vec![release];
    if kernel.phases.is_some() {
        lines.push("   of the time in faults:".to_owned());
    }
    let phases: Vec<Vec<String>> = kernel
        .phases
        .iter()
        .flatten()
        .map(|p| vec![p.phase.clone(), share_with_spread(&p.share), bar(p.share.value, BAR)])
        .collect();
    lines.extend(columns(5, &[Align::Left, Align::Left, Align::Left], &phases));
    headed(&format!("Kernel ({} samples of the CPU clock)", Count(kernel.samples)), palette, lines)
}

/// Which sources were used, which were denied and what would change that.
pub(super) fn sources(stat: &Stat, palette: Palette) -> Vec<String> {
    let width = stat.sources.iter().map(|s| s.source.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for source in &stat.sources {
        let state = if source.used { "used    " } else { "not used" };
        let wrapped = wrap(&format!("   {state}  {:<width$}  ", source.source), &source.note, WIDTH);
        lines.extend(wrapped.into_iter().map(|l| if source.used { l } else { palette.warn(&l) }));
    }
    headed("Sources", palette, lines)
}

/// What the reader must know.
pub(super) fn notes(stat: &Stat, palette: Palette) -> Vec<String> {
    let lines = stat.notes.iter().flat_map(|note| wrap("   - ", note, WIDTH)).collect();
    headed("Notes", palette, lines)
}

pub(crate) fn headed(head: &str, palette: Palette, lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() {
        return lines;
    }
    std::iter::once(palette.strong(&format!(" {head}"))).chain(lines).collect()
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Counted => "counted",
        Source::Sampled => "sampled",
        Source::Inferred => "inferred",
        Source::Calibrated => "calibrated estimate",
        Source::Remainder => "remainder",
    }
}
