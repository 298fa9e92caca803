//! What the lab found, as text.

use std::fmt::Write;

use faultless_lab::cell::natural_cmp;
use faultless_lab::chosen::{Grid, GridRow};
use faultless_lab::record::{NOTES, VIOLATION};
use faultless_lab::{Chosen, Experiment, Results, Scope, experiments};
use faultless_os::host::{Host, HugetlbPool};
use faultless_report::lab::Report;
use faultless_report::table::{Align, WIDTH, columns, hang, unbroken, wrap};
use faultless_trace::measurement::{Bytes, Count, median_interval};
use faultless_trace::stat::Interval;
use serde::Serialize;

use faultless_console::Failure;

use crate::report::counted;

/// The experiments, in lines of at most `columns`, but 60 at least.
pub(crate) fn list(columns: Option<usize>) -> String {
    let width = unbroken(columns);
    let mut text = String::new();
    for experiment in experiments::ALL {
        let sheet = experiment.sheet();
        let from: Vec<_> = sheet.documents.iter().map(|document| document.title()).collect();
        let about = wrap(&format!("{:<12}", sheet.name), sheet.about, width);
        let from = hang(&" ".repeat(12), 17, &format!("from {}", from.join("; ")), width);
        let alias = experiments::alias(sheet.name).map(|alias| format!("{}also: {alias}", " ".repeat(12)));
        let parts =
            sheet.parts.iter().flat_map(|part| wrap(&format!("  {:<12}", part.name), part.about, width));
        let lines = about.iter().chain(&from).chain(&alias).cloned().chain(parts);
        lines.for_each(|line| text.extend([&line, "\n"]));
    }
    text
}

/// What an experiment, or a part of it, asks, and the parameters of its cells: their meaning, and the values without
/// `NAME=VALUES`.
pub(crate) fn help(name: &str, scope: &Scope, columns: Option<usize>) -> Option<String> {
    let (chosen, width) = (Chosen::all(name, scope)?, columns.unwrap_or(WIDTH));
    let (sheet, cells) = (chosen.sheet(), chosen.cells(scope));
    let about = chosen.part().map_or(sheet.about, |part| part.about);
    let mut lines = wrap("", about, width);
    lines.extend([
        String::new(),
        format!("Usage: faultless lab {name} [NAME=VALUES ...] [OPTIONS]"),
        String::new(),
    ]);
    for parameter in sheet.parameters {
        let mut values: Vec<&str> = cells.iter().filter_map(|cell| cell.text(parameter.name).ok()).collect();
        values.sort_by(|a, b| natural_cmp(a, b));
        values.dedup();
        if !values.is_empty() {
            let text = format!("{} [default: {}]", parameter.about, values.join(","));
            lines.extend(wrap(&format!("  {:<12}", parameter.name), &text, width));
        }
    }
    lines.extend([
        String::new(),
        "VALUES is a value, A,B,C, or FIRST..LAST. Defaults are those of a run without --quick or --full."
            .into(),
        "Options: faultless lab --help".into(),
    ]);
    Some(lines.join("\n") + "\n")
}

#[derive(Serialize)]
struct JsonList {
    schema: u32,
    experiments: Vec<JsonExperiment>,
}

#[derive(Serialize)]
struct JsonExperiment {
    name: &'static str,
    alias: Option<&'static str>,
    asks: &'static str,
    documents: Vec<&'static str>,
}

/// The same as one JSON document.
pub(crate) fn list_json() -> Result<String, Failure> {
    let experiments = experiments::ALL.iter().map(|experiment| JsonExperiment {
        name: experiment.name(),
        alias: experiments::alias(experiment.name()),
        asks: experiment.sheet().about,
        documents: experiment.sheet().documents.iter().map(|document| document.title()).collect(),
    });
    let list = JsonList { schema: SCHEMA, experiments: experiments.collect() };
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// The machine, for people.
pub(crate) fn host(host: &Host) -> String {
    let or_unknown = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
    let thp = host.thp.as_ref().map_or("none".into(), |thp| or_unknown(thp.word()));
    let memory = host.memory.total_bytes.map_or("unknown".into(), |bytes| Bytes(bytes).to_string());
    let (settings, hugetlb) = (settings(host), hugetlb(host));
    let words = std::env::args_os().skip(1);
    let words: Vec<_> = words.map(|word| word.to_string_lossy().replace('\n', " ")).collect();
    let command = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "));
    format!(
        "kernel:     {}\ncpu:        {}, {}\nmemory:     {memory}\npage:       {} bytes, THP {thp}\nhypervisor: {}\nlibc:       glibc {}\n\
         settings:   {settings}\nhugetlb:    {hugetlb}\ntunables:   {}\npreload:    {}\nbegun:      {}\ncommand:    faultless lab {command}\n",
        or_unknown(host.kernel.release_text.as_deref()),
        or_unknown(host.cpu.model.as_deref()),
        host.cpu.online.map_or("unknown processors".into(), |count| counted(count as usize, "processor")),
        host.page_bytes,
        or_unknown(host.hypervisor.as_deref().or(Some("none shows itself"))),
        or_unknown(host.glibc.as_deref()),
        host.glibc_tunables.as_deref().unwrap_or("none"),
        std::env::var("LD_PRELOAD").ok().filter(|text| !text.is_empty()).unwrap_or("none".into()),
        humantime::format_rfc3339_seconds(std::time::SystemTime::now()),
    )
}

/// What else bears on faults, and can be set.
fn settings(host: &Host) -> String {
    let thp = host.thp.as_ref().and_then(|thp| thp.defrag.as_deref());
    let defrag = thp.map(|defrag| format!("THP defrag {defrag}"));
    let names = [
        "vm/overcommit_memory",
        "vm/swappiness",
        "vm/min_free_kbytes",
        "vm/zone_reclaim_mode",
        "kernel/numa_balancing",
    ];
    let numbers = names.iter().filter_map(|name| Some(format!("{name} {}", host.sysctl.get(*name)?)));
    let swap = host.swaps.as_ref().map(|swaps| format!("{} swap areas", swaps.len()));
    defrag.into_iter().chain(numbers).chain(swap).collect::<Vec<_>>().join(", ")
}

fn hugetlb(host: &Host) -> String {
    let pool = |pool: &HugetlbPool| format!("{} of {}", pool.pages, Bytes(pool.page_bytes as u64));
    let pools: Vec<_> = host.hugetlb.iter().filter(|found| found.pages > 0).map(pool).collect();
    if pools.is_empty() { "none".into() } else { pools.join(", ") }
}

/// How many samples there are, and which of them can't be right.
pub(crate) fn counts(results: &Results) -> String {
    let mut text = String::new();
    let (all, disturbed) = results.disturbed();
    let cells = results.all().count();
    let (violations, refused) = (results.notes_of(VIOLATION), results.refused().len());
    let lines: Vec<_> = violations.map(|note| format!("  {note}\n")).collect();
    let _ = write!(
        text,
        "{}, {} ({disturbed} disturbed by others), ",
        counted(cells, "cell"),
        counted(all, "sample")
    );
    let _ = match results.lacks.contains(&NOTES) {
        true => writeln!(text, "no {NOTES}: counts that can't be and refused cells are not known"),
        false => {
            writeln!(
                text,
                "{} that can't be, {} refused",
                counted(lines.len(), "count"),
                counted(refused, "cell")
            )
        }
    };
    text + &lines.concat()
}

/// The chosen cells in the document's columns.
pub(crate) fn grid(grid: &Grid) -> String {
    let [head, rows @ ..] = &grid_texts(grid)[..] else { return String::new() };
    let mut align = vec![Align::Right; head.len()];
    align[0] = Align::Left;
    columns(0, &align, &[std::slice::from_ref(head), rows].concat()).join("\n") + "\n"
}

/// The same as texts, the heads first.
pub(crate) fn grid_texts(Grid { heads: [names, figures], rows }: &Grid) -> Vec<Vec<String>> {
    let origin = |row: &GridRow| if row.is_document { "document" } else { "here" }.to_owned();
    let figure = |found: &Option<Interval>| match found {
        None => "-".to_owned(),
        Some(found) if found.high < f64::MAX && found.low < found.high => {
            format!(
                "{} ({}-{})",
                short_figure(found.value),
                short_figure(found.low),
                short_figure(found.high)
            )
        }
        Some(found) => short_figure(found.value),
    };
    let head: Vec<String> =
        std::iter::once(String::new()).chain(names.iter().chain(figures).cloned()).collect();
    let line = |row: &GridRow| {
        let figures = row.figures.iter().map(figure);
        std::iter::once(origin(row)).chain(row.parameters.iter().cloned()).chain(figures).collect()
    };
    std::iter::once(head).chain(rows.iter().map(line)).collect()
}

/// Three significant digits, and whole numbers from 100 on.
fn short_figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => Count(value.round() as u64).to_string(),
        small => format!("{value:.*}", (2 - small.log10().floor() as i32).max(0) as usize),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    claims: Vec<JsonClaim<'a>>,
    /// Statements without a verdict, with the reason.
    unjudged: Vec<JsonUnjudged<'a>>,
    /// Files that the record was stored without. Without the notes, the next two are not known.
    lacks: &'a [&'static str],
    violations: Vec<String>,
    refused: Vec<String>,
    figures: Vec<JsonFigure<'a>>,
}

#[derive(Serialize)]
struct JsonFigure<'a> {
    experiment: &'a str,
    cell: String,
    phase: &'a str,
    quantity: &'a str,
    median: f64,
    /// Its 95 % interval; one sample gives none.
    interval: Option<[f64; 2]>,
    samples: usize,
}

#[derive(Serialize)]
struct JsonClaim<'a> {
    id: &'a str,
    experiment: &'a str,
    document: &'a str,
    quote: &'a str,
    figure: &'a str,
    verdict: &'a str,
    ours: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct JsonUnjudged<'a> {
    experiment: &'a str,
    document: &'a str,
    quote: &'a str,
    figure: &'a str,
    ours: &'a str,
    why: &'a str,
}

/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 2;

/// The same as one JSON document.
pub(crate) fn json(report: &Report, results: &Results) -> Result<String, Failure> {
    let claims = report.experiments.iter().flat_map(|experiment| {
        experiment.claims.iter().map(|claim| JsonClaim {
            id: &claim.id,
            experiment: &experiment.name,
            document: &claim.document,
            quote: &claim.quote,
            figure: &claim.there,
            verdict: claim.verdict.words(),
            ours: &claim.here,
            why: &claim.why,
        })
    });
    let unjudged = report.experiments.iter().flat_map(|experiment| {
        experiment.unjudged.iter().map(|row| JsonUnjudged {
            experiment: &experiment.name,
            document: &row.document,
            quote: &row.quote,
            figure: &row.there,
            ours: &row.here,
            why: &row.why,
        })
    });
    let figures = results.all().flat_map(|(cell, quantities)| {
        let words = cell.words().join(" ");
        quantities.iter().filter_map(move |((phase, quantity), values)| {
            let found = median_interval(values)?;
            Some(JsonFigure {
                experiment: &cell.experiment,
                cell: words.clone(),
                phase,
                quantity,
                median: found.value,
                interval: (found.high < f64::MAX).then_some([found.low, found.high]),
                samples: values.len(),
            })
        })
    });
    let json = Json {
        schema: SCHEMA,
        claims: claims.collect(),
        unjudged: unjudged.collect(),
        lacks: &results.lacks,
        violations: results.notes_of(VIOLATION).map(ToString::to_string).collect(),
        refused: results.refused().into_iter().map(ToString::to_string).collect(),
        figures: figures.collect(),
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}
