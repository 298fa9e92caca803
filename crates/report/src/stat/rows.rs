//! Faults by kind, the most expensive first, with their sum; and where each count came from.

use faultless_trace::Stat;
use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::stat::{Interval, Kind, KindRow};

use super::section::{headed, name};
use crate::figure::{Figure, is_negligible};
use crate::palette::Palette;
use crate::table::{Align, SCREEN, folded as in_lines, hang, wrap};
use crate::tuning::{KIND_FROM, KINDS_SHOWN};

/// The table of the first screen. Small kinds, and kinds that may be nothing, share one line.
pub(super) fn rows(stat: &Stat, palette: Palette, width: usize) -> Vec<String> {
    if stat.rows.is_empty() {
        return Vec::new();
    }
    let all = stat.faults().max(1) as f64;
    let all_time = stat.time.as_ref().map_or(Figure::exact(0.0), |time| time.seconds);
    let (shown, folded) = fold(&stat.rows, all, all_time.value);
    let mut rows = laid_out(|shape| cells(stat, &shown, shape), width);
    let style = |lines: &mut Vec<String>, style: fn(Palette, &str) -> String| {
        lines.iter_mut().for_each(|line| *line = style(palette, line));
    };
    style(&mut rows[0], Palette::faint);
    let end = rows.len() - 1;
    style(&mut rows[end], Palette::strong);
    if !folded.is_empty() {
        let mut rest = wrap(" ", &rest(&shown, &folded, all, all_time), width);
        style(&mut rest, Palette::faint);
        rows.insert(end, rest);
    }
    rows.concat()
}

/// What a table has besides faults, share, time and kind.
#[derive(Clone, Copy)]
struct Shape {
    /// The time of each fault.
    p50: bool,
    /// The ranges of the counts.
    counts: bool,
    /// The ranges of the times.
    times: bool,
}

/// From the widest to the narrowest.
const SHAPES: [Shape; 4] = [
    Shape { p50: true, counts: true, times: true },
    Shape { p50: false, counts: true, times: true },
    Shape { p50: false, counts: false, times: true },
    Shape { p50: false, counts: false, times: false },
];

/// The cells of the table, with its head and its sum.
fn cells(stat: &Stat, shown: &[&KindRow], shape: Shape) -> Vec<Vec<String>> {
    let all = stat.faults().max(1) as f64;
    let all_time = stat.time.as_ref().map_or(Figure::exact(0.0), |time| time.seconds);
    let sum = stat.time.as_ref().map_or_else(Figure::unknown, |time| Figure::seconds(time.seconds));
    let faults = |row: &&KindRow| {
        let faults = Figure::count_within(count(row), all);
        if shape.counts { faults } else { faults.without_range() }
    };
    let mut faults: Vec<Figure> = shown.iter().map(faults).collect();
    let time = |row: &&KindRow| Figure::seconds_within(row.seconds, row.seconds_interval, all_time.high);
    let mut seconds: Vec<Figure> = shown.iter().map(time).collect();
    faults.push(Figure::count(Figure::exact(stat.faults() as f64)));
    seconds.push(sum);
    if !shape.times {
        seconds = seconds.into_iter().map(Figure::without_range).collect();
    }
    let major = match stat.usage.major_faults {
        0 => String::new(),
        major => format!(", {} of them major", Count(major)),
    };
    let of_row = |row: &&KindRow| {
        let each = row.p50_ns.map_or("-".to_owned(), |ns| Nanos(ns).to_string());
        (Percent(row.faults as f64 / all).to_string(), each, row.kind.words().to_owned())
    };
    let sum = ("100 %".to_owned(), String::new(), format!("all{major}"));
    let rows = shown.iter().map(of_row).chain([sum]);
    let mut cells = vec![["faults", "", "time", "each p50", "kind"].map(str::to_owned).to_vec()];
    let figures = Figure::column(&faults).into_iter().zip(Figure::column(&seconds));
    cells.extend(
        figures.zip(rows).map(|((faults, time), (share, each, kind))| vec![faults, share, time, each, kind]),
    );
    if !shape.p50 {
        cells.iter_mut().for_each(|row| drop(row.remove(3)));
    }
    cells
}

/// The lines of each row: of the widest shape that fits, or of the narrowest one, in which a row may take several lines.
fn laid_out(cells: impl Fn(Shape) -> Vec<Vec<String>>, width: usize) -> Vec<Vec<String>> {
    use Align::{Left, Right};
    const ALIGN: [Align; 5] = [Right, Right, Right, Right, Left];
    let table =
        |shape: Shape| in_lines(1, &ALIGN[usize::from(!shape.p50)..], &cells(shape), width.min(SCREEN));
    let shapes = SHAPES.map(table);
    let fits = |rows: &&Vec<Vec<String>>| rows.iter().all(|lines| lines.len() == 1);
    let [.., last] = &shapes;
    shapes.iter().find(fits).unwrap_or(last).clone()
}

/// The rows to show, and the rows that share one line: at least two. Exact rows share it only where there is no room.
/// Faults of huge pages are few and expensive, so they never count as possibly nothing.
fn fold(rows: &[KindRow], all: f64, seconds: f64) -> (Vec<&KindRow>, Vec<&KindRow>) {
    let is_small = |row: &KindRow| {
        let time = row.seconds_interval.map_or(0.0, |ends| ends.1);
        count(row).high < KIND_FROM * all && time < KIND_FROM * seconds.max(f64::MIN_POSITIVE)
    };
    let of_time = |row: &KindRow| row.seconds.unwrap_or(0.0) / seconds.max(f64::MIN_POSITIVE);
    let is_told = |row: &KindRow| row.kind == Kind::Thp || !is_negligible(&count(row), all, of_time(row));
    let weight = |row: &KindRow| (row.faults as f64 / all).max(of_time(row));
    let is_shown = |row: &KindRow| is_told(row) && !is_small(row);
    let room = KINDS_SHOWN.saturating_sub(rows.iter().filter(|row| is_shown(row)).count());
    let mut exact: Vec<&KindRow> = rows.iter().filter(|row| !is_shown(row) && is_exact(row)).collect();
    exact.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    exact.truncate(room);
    let (mut shown, mut folded): (Vec<&KindRow>, Vec<&KindRow>) =
        rows.iter().partition(|row| is_shown(row) || exact.iter().any(|exact| exact.kind == row.kind));
    if shown.is_empty() || folded.len() == 1 {
        (shown, folded) = (rows.iter().collect(), Vec::new());
    }
    // Without the shared line there is room for one more row. A row without a time may be most of the faults.
    if shown.len() > KINDS_SHOWN + usize::from(folded.is_empty()) {
        let mut heavy = shown.clone();
        heavy.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        heavy.truncate(KINDS_SHOWN);
        let (heavy, light): (Vec<_>, Vec<_>) =
            shown.into_iter().partition(|row| heavy.iter().any(|shown| shown.kind == row.kind));
        shown = heavy;
        folded.splice(0..0, light);
    }
    (shown, folded)
}

/// `and 6 other kinds, each below 10 %, 14 to 90 faults and 31 to 80 us`: 10 % of the faults and of the time.
fn rest(shown: &[&KindRow], folded: &[&KindRow], all: f64, all_time: Interval) -> String {
    let faults = within(shown, folded, count, Figure::exact(all));
    let time = within(shown, folded, seconds, all_time);
    let most = |row: &&KindRow| {
        let of_time = seconds(row).high.min(time.high) / all_time.value.max(f64::MIN_POSITIVE);
        (count(row).high.min(faults.high) / all).max(of_time)
    };
    let most = folded.iter().map(most).fold(0.0, f64::max).min(1.0);
    let below = Figure::share(Interval { value: most, low: 0.0, high: most }).below();
    let noun = if faults.high == 1.0 { "fault" } else { "faults" };
    let faults = Figure::count_within(faults, all);
    let time = match time.value {
        value if value > 0.0 => {
            format!(" and {}", Figure::nanos_within(time.times(1e9), all_time.high * 1e9))
        }
        _ => String::new(),
    };
    format!("and {} other kinds, each {below}, {faults} {noun}{time}", folded.len())
}

/// The sum of the folded rows. They take no more than the shown ones leave, and no less.
fn within(shown: &[&KindRow], folded: &[&KindRow], of: fn(&KindRow) -> Interval, all: Interval) -> Interval {
    let sum = |rows: &[&KindRow], end: fn(Interval) -> f64| rows.iter().map(|row| end(of(row))).sum::<f64>();
    let value = sum(folded, |part| part.value);
    let low = sum(folded, |part| part.low).max(all.low - sum(shown, |part| part.high));
    let high = sum(folded, |part| part.high).min(all.high - sum(shown, |part| part.low));
    Interval { value, low: low.min(value), high: high.max(value) }
}

fn seconds(row: &KindRow) -> Interval {
    let value = row.seconds.unwrap_or(0.0);
    row.seconds_interval.map_or(Figure::exact(value), |(low, high)| Interval { value, low, high })
}

fn is_exact(row: &KindRow) -> bool {
    row.interval.is_none_or(|(low, high)| low == high)
}

fn count(row: &KindRow) -> Interval {
    let value = row.faults as f64;
    row.interval.map_or(Figure::exact(value), |(low, high)| Interval {
        value,
        low: low as f64,
        high: high as f64,
    })
}

/// Where every count came from, and the kernel's total.
pub(super) fn sources(stat: &Stat, palette: Palette, width: usize) -> Vec<String> {
    let cells: Vec<Vec<String>> = stat
        .rows
        .iter()
        .map(|row| {
            let of = row.interval.map_or(String::new(), |(low, high)| {
                if low == high { String::new() } else { format!("{} to {}", Count(low), Count(high)) }
            });
            vec![row.kind.words().to_owned(), Count(row.faults).to_string(), name(row.source).to_owned(), of]
        })
        .collect();
    let align = [Align::Left, Align::Right, Align::Left, Align::Left];
    let mut lines = in_lines(3, &align, &cells, width).concat();
    if !lines.is_empty() {
        let (minor, major) = (Count(stat.usage.minor_faults), Count(stat.usage.major_faults));
        let beyond = stat.beyond_wait4.filter(|beyond| beyond.faults > 0);
        let beyond =
            beyond.map_or(String::new(), |beyond| format!(" and {} beyond them", Count(beyond.faults)));
        let sum = format!(
            "They add up to {minor} minor and {major} major faults in the kernel's accounts{beyond}."
        );
        lines.extend(hang("   ", 3, &sum, width));
    }
    headed("Where the counts come from", palette, lines)
}

#[cfg(test)]
mod tests {
    use faultless_trace::stat::Source;

    use super::*;

    fn row(kind: Kind, faults: u64, interval: Option<(u64, u64)>) -> KindRow {
        let seconds = Some(faults as f64 * 1e-6);
        KindRow {
            kind,
            faults,
            interval,
            seconds,
            seconds_interval: None,
            p50_ns: None,
            source: Source::Sampled,
        }
    }

    #[test]
    fn a_kind_without_a_time_that_makes_most_faults_is_shown() {
        use Kind::{
            BeforeExec, CowAfterFork, FilePrivateWrite, FileRead, HeapFirstWrite, KernelMode, MmapFirstWrite,
            Stack, ZeroPageRead,
        };
        let timed = [
            MmapFirstWrite,
            HeapFirstWrite,
            Stack,
            FileRead,
            FilePrivateWrite,
            ZeroPageRead,
            KernelMode,
            CowAfterFork,
            BeforeExec,
        ];
        let mut rows: Vec<KindRow> = timed.iter().map(|&kind| row(kind, 60, None)).collect();
        rows.push(KindRow { seconds: None, ..row(Kind::Major, 3000, None) });
        let (shown, folded) = fold(&rows, 3540.0, 540e-6);
        assert!(shown.iter().any(|row| row.kind == Kind::Major));
        assert_eq!((shown.len(), folded.len()), (KINDS_SHOWN, 2));
    }

    #[test]
    fn exact_rows_stay_while_there_is_room_and_the_rest_is_bounded_by_what_they_leave() {
        use Kind::{
            BeforeExec, BssFirstWrite, FilePrivateWrite, FileRead, HeapFirstWrite, KernelMode, Stack,
        };
        let unsure = |kind, faults, high| row(kind, faults, Some((0, high)));
        // Of 60 000 faults most of the records were lost: 28 000 may be of any kind.
        let mut rows = vec![row(Kind::MmapFirstWrite, 59_000, Some((32_000, 60_000)))];
        rows.extend([unsure(FileRead, 500, 28_500), unsure(HeapFirstWrite, 300, 28_300)]);
        let small =
            [KernelMode, BeforeExec, Stack, BssFirstWrite, FilePrivateWrite, Kind::Thp, Kind::CowAfterFork];
        rows.extend(small.iter().enumerate().map(|(at, &kind)| row(kind, 40 - at as u64, None)));
        let all: u64 = rows.iter().map(|row| row.faults).sum();
        let (shown, folded) = fold(&rows, all as f64, 0.06);
        assert_eq!((shown.len(), folded.len()), (KINDS_SHOWN, 2));
        assert!(small.iter().all(|kind| shown.iter().any(|row| row.kind == *kind)), "exact ones stay");
        let said = rest(&shown, &folded, all as f64, Figure::exact(0.06));
        assert_eq!(said, "and 2 other kinds, each below 47 %, 800 (0 to 28 000) faults and 800 us");
        rows.push(row(Kind::ZeroPageRead, 3, None));
        let (shown, folded) = fold(&rows, all as f64 + 3.0, 0.06);
        assert_eq!((shown.len(), folded.len()), (KINDS_SHOWN, 3));
        assert!(folded.iter().any(|row| row.kind == Kind::ZeroPageRead), "the smallest goes first");
    }

    #[test]
    fn kinds_that_are_small_or_perhaps_none_are_one_line() {
        let rows = [
            row(Kind::MmapFirstWrite, 6287, Some((5600, 6900))),
            row(Kind::KernelMode, 660, None),
            row(Kind::FileRead, 34, Some((0, 697))),
            row(Kind::BeforeExec, 28, None),
        ];
        let (shown, folded) = fold(&rows, 7009.0, 0.007);
        assert_eq!(
            (shown.len(), folded.len()),
            (4, 0),
            "an exact row stays, and a line for one saves nothing"
        );
        let unsure = [&rows[..3], &[row(Kind::Stack, 28, Some((5, 40)))]].concat();
        let (shown, folded) = fold(&unsure, 7009.0, 0.007);
        assert_eq!(
            (shown.len(), rest(&shown, &folded, 7009.0, Figure::exact(0.007))),
            (2, "and 2 other kinds, each below 10 %, 62 (5 to 740) faults and 62.0 us".into())
        );
        // Few but expensive: most of the time, and possibly no fault at all.
        let dear = [
            KindRow { seconds: Some(0.033), ..row(Kind::FileRead, 34, Some((0, 697))) },
            KindRow { seconds_interval: Some((0.0, 0.002)), ..row(Kind::Thp, 0, Some((0, 10))) },
        ];
        let all = [&dear[..], &rows].concat();
        let (shown, _) = fold(&all, 7009.0, 0.04);
        assert_eq!(shown.iter().filter(|row| dear.contains(row)).count(), 2);
    }
}
