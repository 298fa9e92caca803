//! The tables below the answer: one function per section, lines out, no lines when there is nothing to show.

use faultless_trace::cure::{Cure, Remedy};
use faultless_trace::findings::{Findings, LockWaits, Table};
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent, Seconds};
use faultless_trace::sites::{Group, Row};
use faultless_trace::stat::Interval;

use super::plain;
use crate::palette::Palette;
use crate::stat::{headed, kernel_lines, verdict_lines};
use crate::table::{Align, clip, columns, hang, wrap};

/// Rows of one grouping.
pub(super) fn table(findings: &Findings, table: &Table, palette: Palette, width: usize) -> Vec<String> {
    let sites = &table.sites;
    if sites.rows.is_empty() && sites.all.records == 0 {
        return Vec::new();
    }
    let timed = sites.all.time_ns.value > 0.0;
    let refault = sites.rows.iter().any(|row| row.refault.is_some());
    let is_alloc = sites.by == Group::Alloc;
    let mut head = vec!["share", "faults", "±", "memory"];
    if timed {
        head.splice(0..0, ["time", "±"]);
    }
    if refault {
        head.push("refault");
    }
    if is_alloc {
        head.extend(["blocks", "life p50"]);
    }
    head.push(column_name(sites.by));
    let mut cells = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for row in &sites.rows {
        let mut line = Vec::new();
        if timed {
            line.extend([Nanos(row.time_ns.value).to_string(), spread(&row.time_ns)]);
        }
        line.extend([Percent(row.share).to_string(), count(row.faults.value), spread(&row.faults)]);
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
    let mut align = vec![Align::Right; cells[0].len()];
    if let Some(last) = align.last_mut() {
        *last = Align::Left;
    }
    let mut lines: Vec<String> =
        columns(3, &align, &cells).into_iter().map(|line| clip(&line, width)).collect();
    lines[0] = palette.faint(&lines[0]);
    if let Some(first) = lines.get_mut(1).filter(|_| sites.by == Group::Site) {
        *first = palette.bad(first);
    }
    if table.left_out > 0 {
        lines.push(
            palette.faint(&format!("   and {} more: --top N shows more of them", Count(table.left_out))),
        );
    }
    if sites.rows.is_empty() {
        lines = vec!["   no row holds what --filter asks for".to_owned()];
    }
    headed(&title(sites.by, findings), palette, lines)
}

fn title(by: Group, findings: &Findings) -> String {
    match by {
        Group::Site => "By who touched".to_owned(),
        Group::Function => "By function that touched".to_owned(),
        Group::Stack => "By stack".to_owned(),
        Group::Alloc => format!("By who allocated ({} blocks recorded)", Count(findings.coverage.blocks)),
        Group::Kind => "By kind".to_owned(),
        Group::Mapping => "By mapping".to_owned(),
        Group::Thread => "By thread".to_owned(),
        Group::Process => "By process".to_owned(),
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

/// `fill  src/fill.c:12  in memset  of blocks of make_chunk`
fn name(row: &Row) -> String {
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

/// The last two parts of a path: the rest says little and fills the line.
fn tail(place: &str) -> &str {
    place.rmatch_indices('/').nth(1).map_or(place, |(at, _)| &place[at + 1..])
}

/// `4 %`: how far the wider end lies off.
fn spread(interval: &Interval) -> String {
    let half = (interval.high - interval.value).max(interval.value - interval.low);
    match interval.value {
        _ if half <= 0.0 => "-".to_owned(),
        value if value > 0.0 && half < 10.0 * value => Percent(half / value).to_string(),
        _ => ">10x".to_owned(),
    }
}

fn count(value: f64) -> String {
    Count(value.round() as u64).to_string()
}

fn bytes(value: f64) -> String {
    const MIB: f64 = (1_u64 << 20) as f64;
    // Whole MiB, else KiB: a fraction of a page is no figure.
    let unit = if value >= 10.0 * MIB { MIB } else { 1024.0 };
    Bytes((value / unit).round() as u64 * unit as u64).to_string()
}

/// What to do about the largest sites.
pub(super) fn remedies(findings: &Findings, palette: Palette, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for remedy in &findings.remedies {
        let mut site = clip(&plain(&remedy.site), width / 2);
        if let Some(place) = &remedy.place {
            site.push_str(&format!(" ({})", plain(tail(place))));
        }
        let first = format!("   {site}: ");
        match remedy.cure {
            None => {
                let why = hang(&format!("{first}nothing; "), 5, &remedy.why, width);
                lines.extend(why.into_iter().map(|line| palette.faint(&line)));
            }
            Some(cure) => {
                let head = format!("{}, saves {}", cure_name(cure), saves(remedy));
                let head = hang(&first, 5, &head, width);
                lines.extend(head.into_iter().map(|line| palette.good(&line)));
                lines.extend(wrap("     ", &format!("{}.", plain(&remedy.why)), width));
                lines.extend(wrap("     -> ", &remedy.how, width));
            }
        }
    }
    headed("What to do", palette, lines)
}

fn saves(remedy: &Remedy) -> String {
    let (time, faults) = (&remedy.time_ns, &remedy.faults);
    let faults = format!("{} to {} faults", count(faults.low), count(faults.high));
    match time.high > 0.0 {
        true => format!("{} to {}, {faults}", Nanos(time.low), Nanos(time.high)),
        false => faults,
    }
}

fn cure_name(cure: Cure) -> &'static str {
    match cure {
        Cure::WriteFirst => "write before read",
        Cure::MadvFree => "MADV_FREE",
        Cure::Thresholds => "larger malloc thresholds",
        Cure::Pool => "a pool",
        Cure::BoundedQueue => "a bounded queue",
        Cure::Thp => "huge pages",
        Cure::Prefault => "prefault at start",
    }
}

/// Faults that no row of a table stands for.
pub(super) fn beyond(findings: &Findings, palette: Palette) -> Vec<String> {
    let line = |(kind, faults, seconds): &(faultless_trace::stat::Kind, u64, Option<f64>)| {
        let seconds = seconds.map_or("-".to_owned(), |s| Seconds(s).to_string());
        vec![Count(*faults).to_string(), seconds, kind.words().to_owned()]
    };
    let cells: Vec<Vec<String>> = findings.beyond.iter().map(line).collect();
    headed("In no row above", palette, columns(3, &[Align::Right, Align::Right, Align::Left], &cells))
}

/// Whether threads wait for each other, and for the lock of the address space.
pub(super) fn threads(findings: &Findings, palette: Palette, width: usize) -> Vec<String> {
    if findings.faults == 0 {
        return Vec::new();
    }
    let mut lines = verdict_lines(&findings.serialisation, palette, width);
    let waits = |(what, waits): (&str, &LockWaits)| {
        format!(
            "   mmap_lock for {what}: {} waits, {}, the longest {}",
            Count(waits.waits),
            Nanos(waits.time_ns as f64),
            Nanos(waits.longest_ns as f64)
        )
    };
    let both = ["reading (faults)", "writing (mmap, munmap, brk)"].into_iter().zip(&findings.lock_waits);
    lines.extend(both.filter(|(_, found)| found.waits > 0).map(waits));
    headed("Waiting", palette, lines)
}

/// The kernel's time by side and phase.
pub(super) fn kernel(findings: &Findings, palette: Palette) -> Vec<String> {
    findings.kernel.as_ref().map_or_else(Vec::new, |kernel| kernel_lines(kernel, palette))
}

/// What the figures rest on.
pub(super) fn coverage(findings: &Findings, palette: Palette, width: usize) -> Vec<String> {
    let coverage = &findings.coverage;
    if findings.faults == 0 {
        return Vec::new();
    }
    let timed = Count(coverage.timed);
    let mut parts = vec![match coverage.complete {
        Some(all) => {
            format!("complete: all {} faults that the events counted, {timed} of them timed", Count(all))
        }
        None => {
            let (recorded, faults) = (Count(coverage.recorded), Count(findings.faults));
            format!("{recorded} of {faults} faults recorded singly, {timed} timed")
        }
    }];
    if coverage.sampled > 0 {
        let period = findings.settings.sample_period;
        let every = if period > 0 { format!(", one of {period}") } else { String::new() };
        parts.push(format!("{} sampled elsewhere{every}", Count(coverage.sampled)));
    }
    parts.push(format!("{} records lost", Count(coverage.lost)));
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
    headed("Rests on", palette, wrap("   ", &(parts.join("; ") + "."), width))
}

/// What the reader must know.
pub(super) fn notes(findings: &Findings, palette: Palette, width: usize) -> Vec<String> {
    let lines = findings.notes.iter().flat_map(|note| wrap("   - ", &plain(note), width)).collect();
    headed("Notes", palette, lines)
}
