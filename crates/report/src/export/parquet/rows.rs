//! A run -> the rows of each table.
//!
//! A table is declared once, as its columns. The columns are described in `crates/cli/docs/parquet.md`, with their units.

use std::collections::{BTreeMap, HashMap};
use std::io;

use faultless_trace::measurement::Interval;
use faultless_trace::profile::Weighted;
use faultless_trace::sites::SiteRow;
use faultless_trace::stat::{Kind, KindRow};
use faultless_trace::why::{Advised, Mechanism};
use parquet::data_type::ByteArray;

use super::stacks::{Frame, UNKNOWN};
use super::table::{Column, Micros, column, file};
use super::{Run, SCHEMA, Table};
use crate::export::{begin_ns, names};
use crate::text;

/// The function of faults that were counted and not recorded.
const NOT_RECORDED: &str = "[not recorded]";

pub(super) fn runs(run: &Run<'_>) -> io::Result<Vec<u8>> {
    let Run { recording, profile, findings, .. } = run;
    let (header, usage, host) = (&recording.header, &recording.observation.usage, &findings.host);
    let faults_of =
        |kind| profile.totals.rows.iter().filter(|row| row.kind == kind).map(|row| row.faults).sum();
    let major: u64 = faults_of(Kind::Major);
    let last_ns = recording.observation.records.last().map_or(0, |record| record.time_ns);
    let wall_ns = if usage.wall_ns > 0 { usage.wall_ns } else { last_ns.saturating_sub(header.begin_ns) };
    let build_id = recording.stacks.modules.get(names::main_module(recording));
    let build_id = build_id.and_then(|module| module.build_id.as_deref());
    let time = |end: fn(&Interval) -> f64| findings.time_ns.as_ref().map(end);
    let avoidable = findings.avoidable.as_ref();
    let columns = vec![
        column("begin", |()| Micros(int(header.begin_unix_ms.saturating_mul(1000)))),
        column("wall_ns", |()| int(wall_ns)),
        column("cpu_ns", |()| (findings.cpu_ns > 0).then(|| int(findings.cpu_ns))),
        column("command", |()| words(&text::command(&findings.command))),
        column("release", |()| run.release.map(words)),
        column("kernel", |()| words(&host.kernel)),
        column("cpu", |()| words(&host.cpu)),
        column("cpus", |()| small(host.cpus)),
        column("thp", |()| words(&host.thp)),
        column("is_guest", |()| (!host.kernel.is_empty()).then_some(host.hypervisor.is_some())),
        column("build_id", |()| build_id.map(words)),
        column("processes", |()| names::processes(recording, profile).len() as i32),
        column("faults", |()| int(findings.faults)),
        column("major_faults", |()| int(major)),
        column("fault_low_ns", |()| time(|ns| ns.low)),
        column("fault_ns", |()| time(|ns| ns.value)),
        column("fault_high_ns", |()| time(|ns| ns.high)),
        column("wait_ns", |()| findings.wait_ns),
        column("calls_ns", |()| findings.giving_ns),
        column("avoidable_low", |()| avoidable.map(|point| point.low)),
        column("avoidable_high", |()| avoidable.map(|point| point.high)),
        column("kept_bytes", |()| avoidable.map(|point| int(point.keep_bytes))),
        column("peak_rss_bytes", |()| int(usage.peak_rss_bytes)),
        column("is_whole", |()| run.is_whole()),
    ];
    table(run, Table::Runs, columns, &[()])
}

pub(super) fn kinds(run: &Run<'_>) -> io::Result<Vec<u8>> {
    let mut waits: BTreeMap<Kind, f64> = BTreeMap::new();
    for fault in &run.profile.faults {
        *waits.entry(fault.kind).or_default() += fault.wait_ns;
    }
    let columns = vec![
        column("kind", |row: &KindRow| words(&names::kind(row.kind))),
        column("faults", |row: &KindRow| row.faults as f64),
        column("time_ns", |row: &KindRow| row.seconds.map(|seconds| seconds * 1e9)),
        column("wait_ns", |row: &KindRow| waits.get(&row.kind).copied().unwrap_or(0.0)),
    ];
    table(run, Table::Kinds, columns, &run.profile.totals.rows)
}

pub(super) fn prices(run: &Run<'_>) -> io::Result<Vec<u8>> {
    let priced = |row: &&KindRow| row.seconds.is_some() && row.faults > 0;
    let rows: Vec<KindRow> = run.profile.totals.rows.iter().filter(priced).cloned().collect();
    let price = |row: &KindRow, seconds: Option<f64>| {
        seconds.or(row.seconds).map_or(0.0, |seconds| seconds * 1e9 / row.faults as f64)
    };
    let columns = vec![
        column("kind", |row: &KindRow| words(&names::kind(row.kind))),
        column("low_ns", |row: &KindRow| price(row, row.seconds_interval.map(|ends| ends.0))),
        column("price_ns", |row: &KindRow| price(row, None)),
        column("high_ns", |row: &KindRow| price(row, row.seconds_interval.map(|ends| ends.1))),
    ];
    table(run, Table::Prices, columns, &rows)
}

/// A row of sites: its figures, where it is, and who calls it.
struct Site {
    row: SiteRow,
    caller: Option<String>,
    module: String,
    build_id: Option<String>,
}

pub(super) fn sites(run: &Run<'_>) -> io::Result<Vec<u8>> {
    let seen = run.sites.rows.iter().map(|row| site(run, row));
    let rows: Vec<Site> = seen.chain(unrecorded(run)).collect();
    let cpu_ns = |site: &Site| cpu(site.row.time_ns, site.row.wait_ns);
    let columns = vec![
        column("function", |site: &Site| words(&site.row.label)),
        column("caller", |site: &Site| site.caller.as_deref().map(words)),
        column("module", |site: &Site| words(&site.module)),
        column("build_id", |site: &Site| site.build_id.as_deref().map(words)),
        column("place", |site: &Site| site.row.place.as_deref().map(words)),
        column("faults", |site: &Site| site.row.faults.value),
        column("low_ns", move |site: &Site| cpu_ns(site).low),
        column("time_ns", move |site: &Site| cpu_ns(site).value),
        column("high_ns", move |site: &Site| cpu_ns(site).high),
        column("wait_ns", |site: &Site| site.row.wait_ns),
    ];
    table(run, Table::Sites, columns, &rows)
}

fn site(run: &Run<'_>, row: &SiteRow) -> Site {
    let stacks = &run.recording.stacks;
    let shown = row.stack.map(|stack| stacks.shown(stack, false)).unwrap_or_default();
    let labels: Vec<String> = shown.iter().map(|&shown| stacks.label(shown)).collect();
    // A closure has its function's name in front.
    let at = labels.iter().position(|label| row.label.ends_with(label.as_str()));
    let module = at.and_then(|at| stacks.modules.get(shown[at].0.module? as usize));
    Site {
        row: row.clone(),
        caller: at.and_then(|at| labels.get(at + 1).cloned()),
        module: module.map_or(UNKNOWN, |module| &module.path).to_owned(),
        build_id: module.and_then(|module| module.build_id.clone()),
    }
}

/// Faults that were counted and not recorded, so that the sites add up to the run.
fn unrecorded(run: &Run<'_>) -> Option<Site> {
    let left = run.profile.unplaced();
    let faults = left.iter().map(|fault| fault.faults).sum();
    let time_ns = left.iter().map(Weighted::time_ns).sum();
    let exact = |value| Interval { low: value, value, high: value };
    let row = SiteRow {
        label: NOT_RECORDED.to_owned(),
        faults: exact(faults),
        time_ns: exact(time_ns),
        ..SiteRow::default()
    };
    let module = UNKNOWN.to_owned();
    (!left.is_empty()).then_some(Site { row, caller: None, module, build_id: None })
}

pub(super) fn mechanisms(run: &Run<'_>) -> io::Result<Vec<u8>> {
    let cpu_ns = |row: &Mechanism| cpu(row.fault_ns, row.fault_wait_ns);
    let saves = |row: &Mechanism, end: fn(&Interval) -> f64| cure(row).map(|cure| end(&cure.saves_ns));
    let columns = vec![
        column("mechanism", |row: &Mechanism| words(&row.id)),
        column("what", |row: &Mechanism| words(&row.what)),
        column("faults", |row: &Mechanism| row.faults.value),
        column("low_ns", move |row: &Mechanism| cpu_ns(row).low),
        column("time_ns", move |row: &Mechanism| cpu_ns(row).value),
        column("high_ns", move |row: &Mechanism| cpu_ns(row).high),
        column("wait_ns", |row: &Mechanism| row.fault_wait_ns),
        column("calls_ns", |row: &Mechanism| row.call_ns.unwrap_or(0.0)),
        column("cure", |row: &Mechanism| cure(row).map(|cure| words(&cure.how))),
        column("saves_low_ns", move |row: &Mechanism| saves(row, |ns| ns.low)),
        column("saves_high_ns", move |row: &Mechanism| saves(row, |ns| ns.high)),
        column("keeps_bytes", |row: &Mechanism| cure(row)?.keeps_bytes.map(|bytes| bytes as i64)),
    ];
    table(run, Table::Mechanisms, columns, &run.findings.mechanisms)
}

/// The first cure with an estimate of what it saves.
fn cure(mechanism: &Mechanism) -> Option<&Advised> {
    mechanism.cures.iter().find(|cure| cure.saves_ns.high > 0.0)
}

/// The faults of a run that are a row each.
fn weighted<'a>(run: &'a Run<'_>, unplaced: &'a [Weighted]) -> Vec<&'a Weighted> {
    run.profile.faults.iter().chain(unplaced).collect()
}

pub(super) fn samples(run: &Run<'_>) -> io::Result<Vec<u8>> {
    let begin_ns = begin_ns(run.recording);
    let unplaced = run.profile.unplaced();
    let rows = weighted(run, &unplaced);
    let kinds: HashMap<Kind, ByteArray> =
        rows.iter().map(|fault| (fault.kind, words(&names::kind(fault.kind)))).collect();
    let columns = vec![
        column("time_ns", |fault: &&Weighted| int(fault.time_ns.saturating_sub(begin_ns))),
        column("pid", |fault: &&Weighted| small(fault.pid)),
        column("tid", |fault: &&Weighted| small(fault.tid)),
        column("kind", |fault: &&Weighted| kinds[&fault.kind].clone()),
        column("stack", |fault: &&Weighted| fault.stack.map(|stack| run.stacks.numbers[&stack])),
        column("faults", |fault: &&Weighted| fault.faults),
        column("fault_ns", |fault: &&Weighted| fault.cost_ns),
        column("wait_ns", |fault: &&Weighted| fault.wait_ns),
    ];
    table(run, Table::Samples, columns, &rows)
}

pub(super) fn frames(run: &Run<'_>) -> io::Result<Vec<u8>> {
    type Row<'a> = (i64, usize, &'a Frame);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (stack, frames) in &run.stacks.frames {
        rows.extend(frames.iter().enumerate().map(|(depth, frame)| (*stack, depth, frame)));
    }
    let columns = vec![
        column("stack", |(stack, ..): &Row<'_>| *stack),
        column("depth", |(_, depth, _): &Row<'_>| *depth as i32),
        column("function", |(.., frame): &Row<'_>| frame.function.clone()),
        column("module", |(.., frame): &Row<'_>| frame.module.clone()),
        column("build_id", |(.., frame): &Row<'_>| frame.build_id.clone()),
        column("address", |(.., frame): &Row<'_>| frame.address as i64),
        column("file", |(.., frame): &Row<'_>| frame.file.clone()),
        column("line", |(.., frame): &Row<'_>| frame.line.map(small)),
    ];
    table(run, Table::Frames, columns, &rows)
}

/// The file of a table, with the run in front.
fn table<R>(run: &Run<'_>, table: Table, mut columns: Vec<Column<'_, R>>, rows: &[R]) -> io::Result<Vec<u8>> {
    let id = words(run.id());
    columns.insert(0, column("run", move |_: &R| id.clone()));
    file(table.name(), columns, rows, &[("faultless.schema", SCHEMA)])
}

fn words(text: &str) -> ByteArray {
    ByteArray::from(text)
}

/// The CPU part of a time that holds waits.
fn cpu(time_ns: Interval, wait_ns: f64) -> Interval {
    time_ns.map(|ns| (ns - wait_ns).max(0.0))
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
