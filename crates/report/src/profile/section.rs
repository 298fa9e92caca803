//! The sections below the answer. Each function returns lines, or none if there is nothing to show.

use faultless_trace::findings::{Beyond, Findings, LockWaits, Next, Table};
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent};
use faultless_trace::sites::{Group, SiteRow, Sites};
use faultless_trace::stat::Interval;

use crate::figure::{Figure, is_negligible};
use crate::palette::Palette;
use crate::stat::{NOTHING, headed, kernel_lines, takes_little, verdict_lines};
use crate::table::{Align, Names, columns, folded, hang};
use crate::text::{again, plain};
use crate::tuning::{KIND_FROM as ROW_SHARE, WAITS_FROM};

/// A name with less room than this stands on a line of its own.
const NAME: usize = 12;

/// The rows of a grouping. Rows that may be nothing share one line.
pub(super) fn table(
    findings: &Findings,
    table: &Table,
    names: Names,
    palette: Palette,
    width: usize,
) -> Vec<String> {
    let sites = &table.sites;
    if sites.rows.is_empty() && sites.all.records == 0 {
        return Vec::new();
    }
    let (nothing, shown) = negligible(sites);
    let cells = cells(table, &shown);
    // The figures are laid out first: a name takes what they leave, and no figure is ever cut.
    let figures: Vec<Vec<String>> = cells.iter().map(|line| line[..line.len() - 1].to_vec()).collect();
    let room = if matches!(names, Names::Within(_)) { width } else { usize::MAX };
    let figures = folded(3, &vec![Align::Right; figures[0].len()], &figures, room);
    let begin = figures.iter().flat_map(|lines| lines.last()).map(|line| line.chars().count()).max();
    let begin = begin.unwrap_or(0) + 2;
    let mut lines = Vec::new();
    for (index, (mut row, cells)) in figures.into_iter().zip(&cells).enumerate() {
        let name = cells.last().map_or("", String::as_str);
        match row.last_mut() {
            Some(last) if begin + NAME <= room => {
                *last = format!("{last:<begin$}{}", names.fit_parts(name, begin));
            }
            _ => row.push(format!("     {}", names.fit_parts(name, 5))),
        }
        lines.extend(row.into_iter().map(|line| match index {
            0 => palette.faint(&line),
            1 if sites.by == Group::Site => palette.bad(&line),
            _ => line,
        }));
    }
    if shown.is_empty() {
        lines.clear();
    }
    for line in rests(table, &nothing) {
        lines.extend(hang("   and ", 7, &line, width).into_iter().map(|line| palette.faint(&line)));
    }
    headed(&title(sites.by, findings), palette, lines)
}

/// The rows that can't be told from nothing, and the others. Those are shown by weight, however small.
pub(super) fn negligible(sites: &Sites) -> (Vec<&SiteRow>, Vec<&SiteRow>) {
    let of = sites.shown.as_ref().unwrap_or(&sites.all);
    let (all, all_ns) = (of.faults.value, of.time_ns.value.max(f64::MIN_POSITIVE));
    sites.rows.iter().partition(|row| is_negligible(&row.faults, all, row.time_ns.value / all_ns))
}

/// The head, and a line for each row.
pub(super) fn cells(table: &Table, shown: &[&SiteRow]) -> Vec<Vec<String>> {
    let sites = &table.sites;
    let timed = sites.all.time_ns.value > 0.0;
    let refault = sites.rows.iter().any(|row| row.refault.is_some());
    let is_alloc = sites.by == Group::Alloc;
    let mut head = vec!["share", "faults", "memory"];
    let waits = sites.all.wait_ns > WAITS_FROM * sites.all.time_ns.value;
    if waits {
        head.insert(0, "of it waiting");
    }
    if timed {
        head.insert(0, "time");
    }
    if refault {
        head.push("refault");
    }
    if is_alloc {
        head.extend(["blocks", "life p50"]);
    }
    head.push(column_name(sites.by));
    let column = |of: &dyn Fn(&SiteRow) -> Figure| {
        Figure::column(&shown.iter().map(|row| of(row)).collect::<Vec<_>>())
    };
    let times = column(&|row| time_of(row, &sites.all));
    let faults = column(&|row| Figure::count_within(row.faults, sites.all.faults.value));
    let mut cells = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for ((row, time), faults) in shown.iter().zip(times).zip(faults) {
        let mut line = Vec::new();
        if timed {
            line.push(time);
        }
        if waits {
            line.push(if row.wait_ns > 0.0 { Nanos(row.wait_ns).to_string() } else { "-".to_owned() });
        }
        line.extend([Percent(row.share).to_string(), faults]);
        line.push(if row.resident_bytes > 0.0 { bytes(row.resident_bytes) } else { "-".to_owned() });
        if refault {
            line.push(row.refault.map_or("-".to_owned(), |share| Percent(share).to_string()));
        }
        if is_alloc {
            let blocks = row.lives.as_ref().map_or("-".to_owned(), |lives| count(lives.blocks as f64));
            line.push(blocks);
            let life = row.lives.as_ref().map(|lives| match lives.median_life_ns {
                Some(ns) => Nanos(ns as f64).to_string(),
                None => "to the end".to_owned(),
            });
            line.push(life.unwrap_or("-".to_owned()));
        }
        line.push(name(row));
        cells.push(line);
    }
    cells
}

fn time_of(row: &SiteRow, all: &SiteRow) -> Figure {
    Figure::nanos_within(row.time_ns, all.time_ns.high)
}

/// What is said of rows that are not shown: those that may be nothing, and those below the top. One line if all
/// of them are small.
pub(super) fn rests(table: &Table, nothing: &[&SiteRow]) -> Vec<String> {
    let sites = &table.sites;
    let of = sites.shown.as_ref().map_or(1.0, |shown| shown.share);
    let small = ROW_SHARE * of.max(f64::MIN_POSITIVE);
    let sum = |of: fn(&SiteRow) -> f64| nothing.iter().map(|row| of(row)).sum::<f64>();
    let (ns, faults) = (sum(|row| row.time_ns.value), sum(|row| row.faults.value));
    let largest = nothing.iter().map(|row| row.share).fold(0.0, f64::max);
    let (rows, left) = (nothing.len() as u64, table.left);
    const MORE: &str = "--top N shows more of them";
    if table.left_out > 0 && largest.max(left.largest) < small {
        let all = said(sites, rows + table.left_out, ns + left.time_ns, faults + left.faults, true);
        return vec![format!("{all}; {MORE}")];
    }
    let mut lines = Vec::new();
    if rows > 0 {
        lines.push(said(sites, rows, ns, faults, largest < small));
    }
    if table.left_out > 0 {
        let left = said(sites, table.left_out, left.time_ns, left.faults, left.largest < small);
        lines.push(format!("{left}; {MORE}"));
    }
    lines
}

/// `112 sites below 1 %, about 480 us and 1 200 faults together`.
fn said(sites: &Sites, rows: u64, ns: f64, faults: f64, are_small: bool) -> String {
    let below = if are_small { format!(" below {:.0} %", 100.0 * ROW_SHARE) } else { String::new() };
    let time = if ns > 0.0 { format!("{} and ", Nanos(ns)) } else { String::new() };
    let faults = format!("{} {}", count(faults), if faults.round() == 1.0 { "fault" } else { "faults" });
    match rows {
        1 => format!("1 {}{below}, about {time}{faults}", noun(sites.by)),
        rows => format!("{} {}{below}, about {time}{faults} together", Count(rows), plural(noun(sites.by))),
    }
}

pub(super) fn title(by: Group, findings: &Findings) -> String {
    match by {
        Group::Site => "By who touched".to_owned(),
        Group::Function => "By function that touched".to_owned(),
        Group::Stack => "By stack".to_owned(),
        Group::Alloc => {
            format!("By who allocated ({} recorded)", Count(findings.coverage.blocks).of("block"))
        }
        Group::Kind => "By kind".to_owned(),
        Group::Mapping => "By mapping".to_owned(),
        Group::Thread => "By thread".to_owned(),
        Group::Process => "By process".to_owned(),
    }
}

fn plural(noun: &str) -> String {
    if noun.ends_with('s') { format!("{noun}es") } else { format!("{noun}s") }
}

/// What a row of the grouping is called.
fn noun(by: Group) -> &'static str {
    match by {
        Group::Stack => "stack",
        Group::Alloc => "allocating site",
        by => column_name(by),
    }
}

fn column_name(by: Group) -> &'static str {
    match by {
        Group::Site => "site",
        Group::Function => "function",
        Group::Stack => "stack, leaf first",
        Group::Alloc => "allocated by",
        Group::Kind => "kind",
        Group::Mapping => "mapping",
        Group::Thread => "thread",
        Group::Process => "process",
    }
}

/// `fill  src/fill.c:12  in memset  block of make_chunk`
fn name(row: &SiteRow) -> String {
    let mut name = row.label.clone();
    if let Some(place) = &row.place {
        name.push_str("  ");
        name.push_str(tail(place));
    }
    if let Some(leaf) = &row.leaf {
        name.push_str(&format!("  in {leaf}"));
    }
    if let Some(owner) = row.allocated_by.as_ref().filter(|owner| **owner != row.label && row.lives.is_none())
    {
        name.push_str(&format!("  block of {owner}"));
    }
    plain(&name)
}

/// The last two parts of a path. The rest says little and fills the line.
fn tail(place: &str) -> &str {
    place.rmatch_indices('/').nth(1).map_or(place, |(at, _)| &place[at + 1..])
}

fn count(value: f64) -> String {
    Count(value.round() as u64).to_string()
}

fn bytes(value: f64) -> String {
    const MIB: f64 = (1_u64 << 20) as f64;
    // Whole MiB, else whole KiB: a fraction of a page means nothing.
    let unit = if value >= 10.0 * MIB { MIB } else { 1024.0 };
    Bytes((value / unit).round() as u64 * unit as u64).to_string()
}

/// The next steps, as `stat` says them too: each begins with its command, which fits a line of `width`.
pub(super) fn next(findings: &Findings, width: usize) -> Vec<String> {
    let is_little =
        |ns: Interval| takes_little(ns.times(1e-9), ns.times(1.0 / findings.cpu_ns.max(1) as f64));
    let waits_little = findings.wait_ns <= WAITS_FROM * findings.cpu_ns as f64;
    if findings.next != Some(Next::Root)
        && findings.no_cure.is_some()
        && waits_little
        && findings.time_ns.is_some_and(is_little)
    {
        return vec![NOTHING.to_owned()];
    }
    let Some(next) = findings.next else { return Vec::new() };
    match next {
        Next::Advise => {}
        Next::Tree => return vec!["faultless report --tree shows who calls them".to_owned()],
        Next::Restart => {
            return vec!["restart it with one of the cures; of a program that ends by itself, faultless advise -- CMD measures them".to_owned()];
        }
        Next::Root => {
            return vec![
                "record as root: most faults were taken inside system calls, which it sees".to_owned(),
            ];
        }
    }
    let (words, what) = again(&findings.command, width - "   Next: faultless advise -- ".len());
    let cures = format!("faultless advise -- {words} measures the cures that need no change of the program");
    std::iter::once(cures).chain(what.map(str::to_owned)).collect()
}

/// Faults that no row of a table stands for.
pub(super) fn beyond(findings: &Findings, palette: Palette) -> Vec<String> {
    let ends = findings.beyond_seconds.iter().copied().chain(std::iter::repeat(None));
    let times = findings.beyond.iter().zip(ends);
    let times = times.map(|((_, _, seconds), ends)| Figure::seconds_within(*seconds, ends, f64::MAX));
    let times = Figure::column(&times.collect::<Vec<_>>());
    let line = |((kind, faults, _), time): (&Beyond, String)| {
        vec![Count(*faults).to_string(), time, kind.words().to_owned()]
    };
    let cells: Vec<Vec<String>> = findings.beyond.iter().zip(times).map(line).collect();
    headed("In no row above", palette, columns(3, &[Align::Right, Align::Right, Align::Left], &cells))
}

/// Whether threads wait for each other, and for `mmap_lock`.
pub(super) fn threads(findings: &Findings, palette: Palette, width: usize) -> Vec<String> {
    if findings.faults == 0 {
        return Vec::new();
    }
    let mut lines = verdict_lines(&findings.serialisation, palette, width);
    let both = LOCK_TAKERS.into_iter().zip(&findings.lock_waits).filter(|(_, waits)| waits.waits > 0);
    lines.extend(both.flat_map(|(takers, waits)| hang("   ", 5, &lock_waits(takers, waits), width)));
    headed("Waiting", palette, lines)
}

/// How `mmap_lock` is taken, and what takes it so.
const LOCK_TAKERS: [(&str, &str); 2] = [
    ("reading", "faults, mincore, madvise (MADV_DONTNEED) and others"),
    ("writing", "mmap, munmap, brk, mprotect, madvise (MADV_HUGEPAGE) and others"),
];

/// Waits for `mmap_lock`, by what waited. Older recordings do not tell that.
fn lock_waits((how, takers): (&str, &str), waits: &LockWaits) -> String {
    let by = waits.by.iter().map(|(by, time_ns)| format!("{by} {}", Nanos(*time_ns as f64)));
    let by = by.collect::<Vec<_>>().join(", ");
    format!(
        "mmap_lock for {how}: {}, {}, the longest {}: {}",
        Count(waits.waits).of("wait"),
        Nanos(waits.time_ns as f64),
        Nanos(waits.longest_ns as f64),
        if by.is_empty() { takers } else { &by }
    )
}

/// The kernel's time by side and phase.
pub(super) fn kernel(findings: &Findings, palette: Palette, width: usize) -> Vec<String> {
    findings.kernel.as_ref().map_or_else(Vec::new, |kernel| kernel_lines(kernel, palette, width))
}

/// What the figures rest on, in a sentence.
pub(super) fn coverage(findings: &Findings) -> Option<String> {
    let coverage = &findings.coverage;
    if findings.faults == 0 {
        return None;
    }
    let timed = Count(coverage.timed);
    let mut parts = vec![match coverage.complete {
        Some(all) => {
            format!("complete: {} faults, all that the events counted, {timed} of them timed", Count(all))
        }
        None => {
            let (recorded, faults) = (Count(coverage.recorded), Count(findings.faults));
            format!("{recorded} of {faults} faults recorded singly, {timed} timed")
        }
    }];
    if coverage.sampled > 0 {
        let period = findings.settings.sample_period;
        let every = if period > 0 { format!(", one of {period}") } else { String::new() };
        // Old files have no timed samples.
        let timed = match coverage.sampled_timed as f64 / coverage.sampled as f64 {
            share if share > 0.0 => format!(", {} of them timed", Percent(share)),
            _ => String::new(),
        };
        parts.push(format!("{} sampled elsewhere{every}{timed}", Count(coverage.sampled)));
    }
    parts.push(format!("{} lost", Count(coverage.lost).of("record")));
    if let Some(ns) = coverage.recorder_cpu_ns {
        let share = if findings.cpu_ns > 0 {
            format!(", {} of the program's", Percent(ns as f64 / findings.cpu_ns as f64))
        } else {
            String::new()
        };
        parts.push(format!("the recorder took {} CPU time{share}", Nanos(ns as f64)));
    }
    if findings.settings.user_only {
        parts.push("user mode only (:u)".to_owned());
    }
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_mmap_lock_is_told_by_what_waited_and_else_by_all_that_may() {
        let waits = |by: &[(&str, u64)]| LockWaits {
            waits: 3,
            time_ns: 40_000,
            longest_ns: 30_000,
            by: by.iter().map(|(by, ns)| ((*by).to_owned(), *ns)).collect(),
        };
        let [reading, writing] = LOCK_TAKERS;
        assert_eq!(
            lock_waits(reading, &waits(&[("mincore", 30_000), ("faults", 10_000)])),
            "mmap_lock for reading: 3 waits, 40.0 us, the longest 30.0 us: mincore 30.0 us, faults 10.0 us"
        );
        let unknown = [reading, writing].map(|takers| lock_waits(takers, &waits(&[])));
        assert!(unknown[0].ends_with(": faults, mincore, madvise (MADV_DONTNEED) and others"), "{unknown:?}");
        assert!(unknown[1].contains("munmap, brk, mprotect, madvise (MADV_HUGEPAGE)"), "{unknown:?}");
    }
}
