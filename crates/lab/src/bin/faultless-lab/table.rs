//! What the lab found, as text.

use std::fmt::Write;
use std::path::Path;

use faultless_lab::chosen::{Grid, GridRow};
use faultless_lab::claims::{self, Claim, Finding, Verdict};
use faultless_lab::record::{NOTES, VIOLATION};
use faultless_lab::{Chosen, Document, Experiment, Results, experiments};
use faultless_os::host::{Host, HugetlbPool};
use faultless_report::table::{Align, columns, hang, unbroken, wrap};
use faultless_trace::measurement::{Bytes, Count, median_interval};
use faultless_trace::stat::Interval;
use serde::Serialize;

use faultless_console::Failure;

use crate::measure::failure;
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
        let parts =
            sheet.parts.iter().flat_map(|part| wrap(&format!("  {:<12}", part.name), part.about, width));
        about.iter().chain(&from).cloned().chain(parts).for_each(|line| text.extend([&line, "\n"]));
    }
    text
}

#[derive(Serialize)]
struct JsonList {
    schema: u32,
    experiments: Vec<JsonExperiment>,
}

#[derive(Serialize)]
struct JsonExperiment {
    name: &'static str,
    asks: &'static str,
    documents: Vec<&'static str>,
}

/// The same as one JSON document.
pub(crate) fn list_json() -> Result<String, Failure> {
    let experiments = experiments::ALL.iter().map(|experiment| JsonExperiment {
        name: experiment.name(),
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
    let words: Vec<_> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().replace('\n', " ")).collect();
    format!(
        "kernel:     {}\ncpu:        {}, {}\nmemory:     {memory}\npage:       {} bytes, THP {thp}\nhypervisor: {}\nlibc:       glibc {}\n\
         settings:   {settings}\nhugetlb:    {hugetlb}\ntunables:   {}\npreload:    {}\nbegun:      {}\ncommand:    faultless {}\n",
        or_unknown(host.kernel.release_text.as_deref()),
        or_unknown(host.cpu.model.as_deref()),
        host.cpu.online.map_or("unknown processors".into(), |count| counted(count as usize, "processor")),
        host.page_bytes,
        or_unknown(host.hypervisor.as_deref().or(Some("none shows itself"))),
        or_unknown(host.glibc.as_deref()),
        host.glibc_tunables.as_deref().unwrap_or("none"),
        std::env::var("LD_PRELOAD").ok().filter(|text| !text.is_empty()).unwrap_or("none".into()),
        humantime::format_rfc3339_seconds(std::time::SystemTime::now()),
        words.join(" "),
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

/// The claims that the experiments of a record answer.
fn claims_of(results: &Results) -> Result<Vec<Claim>, Failure> {
    let mut claims = claims::all().map_err(failure)?;
    claims.retain(|claim| results.has(&claim.experiment));
    Ok(claims)
}

/// The verdicts, document by document, decided claims first, and the counts.
pub(crate) fn text(results: &Results, kernel: Option<&Results>) -> Result<String, Failure> {
    let mut text = String::new();
    let all = claims_of(results)?;
    for document in Document::ALL {
        let claims = all.iter().filter(|claim| claim.document == document);
        let mut judged: Vec<_> = claims
            .map(|claim| {
                let modelled = kernel.and_then(|kernel| claim.judge_modelled(kernel));
                (claim, claim.judge(results).with_model(modelled))
            })
            .collect();
        if judged.is_empty() {
            continue;
        }
        judged.sort_by_key(|(_, (finding, _))| finding.verdict == Verdict::CannotSay);
        let _ = writeln!(text, "{}", document.title());
        for (claim, (finding, modelled)) in judged {
            text.push_str(&lines(claim, &finding));
            text.push_str(&modelled.as_ref().map_or(String::new(), beside));
        }
        text.push('\n');
    }
    text.push_str(&claims::tally(&all, results));
    text.push_str(&tally(&all, results, kernel));
    Ok(text + &counts(results))
}

/// How many claims of each document have each verdict, the refuted ones by name, and the counts.
pub(crate) fn short(results: &Results, folder: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let all = claims_of(results)?;
    let mut refuted = Vec::new();
    for document in Document::ALL {
        let claims = all.iter().filter(|claim| claim.document == document);
        let found: Vec<(&str, Verdict)> =
            claims.map(|claim| (claim.id.as_str(), claim.judge(results).verdict)).collect();
        if found.is_empty() {
            continue;
        }
        let of = |verdict| found.iter().filter(|(_, own)| *own == verdict).count();
        let told = Verdict::ALL.into_iter().filter(|verdict| of(*verdict) > 0);
        let told: Vec<String> = told.map(|verdict| format!("{} {}", of(verdict), verdict.words())).collect();
        let _ = writeln!(text, "{}: {}", document.title(), told.join(", "));
        refuted.extend(found.iter().filter(|(_, verdict)| *verdict == Verdict::Refuted).map(|(id, _)| *id));
    }
    if !refuted.is_empty() {
        let _ = writeln!(text, "Refuted here: {}.", refuted.join(", "));
    }
    let _ = writeln!(text, "A quick look says little; `faultless lab` measures each cell longer.");
    let _ = writeln!(text, "Every claim with its figures: faultless lab report {}", folder.display());
    Ok(text + &counts(results))
}

/// A claim in two lines.
fn lines(claim: &Claim, Finding { verdict, ours, why }: &Finding) -> String {
    let ours = if ours.is_empty() { "-" } else { ours };
    format!(
        "  {:<17}  {}\n  {:<17}  there {}; here {ours}; {why}\n",
        verdict.words(),
        claim.says,
        "",
        claim.figure
    )
}

/// What a model says of the same claim, in a line below.
fn beside(Finding { verdict, ours, why }: &Finding) -> String {
    let ours = if ours.is_empty() { String::new() } else { format!("{ours}; ") };
    format!("  {:<17}  {}: {ours}{why}\n", "", modelled_words(*verdict))
}

/// A model's verdict, in words that cannot be taken for a measurement's.
pub(crate) fn modelled_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::CannotSay => "modelled, cannot say",
        other => other.words(),
    }
}

/// How many claims have each verdict, and what a model says beside them.
fn tally(claims: &[Claim], results: &Results, kernel: Option<&Results>) -> String {
    let Some(kernel) = kernel else { return String::new() };
    let all = claims.iter().map(|claim| claim.judge(results).with_model(claim.judge_modelled(kernel)));
    let (findings, beside): (Vec<Finding>, Vec<Option<Finding>>) = all.unzip();
    let beside: Vec<Finding> = beside.into_iter().flatten().collect();
    let count = |findings: &[Finding], words: fn(Verdict) -> &'static str| {
        let of = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        let found = Verdict::ALL.into_iter().filter(|verdict| of(*verdict) > 0);
        found.map(|verdict| format!("{} {}", of(verdict), words(verdict))).collect::<Vec<_>>().join("; ")
    };
    format!(
        "{}: {}\nbeside {} of the measured verdicts stands a model: {}\n",
        counted(findings.len(), "claim"),
        count(&findings, Verdict::words),
        beside.len(),
        count(&beside, modelled_words)
    )
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

/// A row for each figure of each cell, with the document's own.
pub(crate) fn csv(chosen: &[Chosen], results: &Results) -> Result<String, Failure> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    rows.write_record(["experiment", "origin", "parameters", "figure", "median", "low", "high"])?;
    for chosen in chosen {
        let grid = chosen.grid(results);
        let [names, figures] = &grid.heads;
        for row in &grid.rows {
            let named = names.iter().zip(&row.parameters).filter(|(_, value)| !value.is_empty());
            let parameters: Vec<_> = named.map(|(name, value)| format!("{name}={value}")).collect();
            for (figure, found) in figures.iter().zip(&row.figures) {
                let Some(found) = found else { continue };
                // One sample has no interval.
                let end = |end: f64| if found.high < f64::MAX { end.to_string() } else { String::new() };
                rows.write_record([
                    chosen.name(),
                    if row.is_document { "document" } else { "here" },
                    &parameters.join(" "),
                    figure,
                    &found.value.to_string(),
                    &end(found.low),
                    &end(found.high),
                ])?;
            }
        }
    }
    let bytes = rows.into_inner().map_err(|error| Failure(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    claims: Vec<JsonClaim<'a>>,
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
    document: &'a str,
    says: &'a str,
    quote: &'a str,
    figure: &'a str,
    verdict: &'a str,
    ours: String,
    why: String,
    /// What a model says beside it; only with a record of the kernel lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    modelled: Option<JsonModelled>,
}

#[derive(Serialize)]
struct JsonModelled {
    verdict: &'static str,
    ours: String,
    why: String,
}

impl<'a> JsonClaim<'a> {
    fn new(claim: &'a Claim, (finding, modelled): (Finding, Option<Finding>)) -> Self {
        let Finding { verdict, ours, why } = finding;
        let modelled = modelled.map(|Finding { verdict, ours, why }| JsonModelled {
            verdict: modelled_words(verdict),
            ours,
            why,
        });
        Self {
            modelled,
            id: &claim.id,
            document: claim.document.title(),
            says: &claim.says,
            quote: &claim.quote,
            figure: &claim.figure,
            verdict: verdict.words(),
            ours,
            why,
        }
    }
}

/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// The same as one JSON document.
pub(crate) fn json(results: &Results, kernel: Option<&Results>) -> Result<String, Failure> {
    let all = claims_of(results)?;
    let claims = all.iter().map(|claim| {
        let modelled = kernel.and_then(|kernel| claim.judge_modelled(kernel));
        JsonClaim::new(claim, claim.judge(results).with_model(modelled))
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
        lacks: &results.lacks,
        violations: results.notes_of(VIOLATION).map(ToString::to_string).collect(),
        refused: results.refused().into_iter().map(ToString::to_string).collect(),
        figures: figures.collect(),
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modelled_claim_is_told_with_its_reason_as_text_and_as_json() {
        let all = claims::all().unwrap();
        let why = "a queueing model of the lock".to_owned();
        let finding = Finding { verdict: Verdict::Agrees, ours: "1.80 times".into(), why };
        let text = lines(&all[0], &finding);
        assert!(text.starts_with("  modelled, agrees   "), "{text}");
        assert!(text.ends_with("here 1.80 times; a queueing model of the lock\n"), "{text}");
        let json = serde_json::to_value(JsonClaim::new(&all[0], (finding, None))).unwrap();
        assert_eq!(json["verdict"], "modelled, agrees");
        assert_eq!(json["why"], "a queueing model of the lock");
    }
}
