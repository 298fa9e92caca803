//! `faultless lab kernel report`: the tables of a record, as text, as JSON and as a page.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use faultless_console::sink::Sink;
use faultless_console::{Failure, Outcome, emit};
use faultless_lab::kernel::charts::CHARTS;
use faultless_lab::kernel::found::{self, Figures};
use faultless_lab::kernel::limits::{self, Limit};
use faultless_lab::kernel::session::EXPERIMENT;
use faultless_lab::kernel::tables::{Rates, document_rates, tables};
use faultless_lab::{Results, Table};
use faultless_report::lab::page;
use serde::Serialize;

use super::RECORD;
use crate::chart;
use crate::measure::failure;
use crate::report::{self as lab_report, machine, table_of};

/// Of what, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the record [default: faultless-kernel-record].
    folder: Option<PathBuf>,
    /// HTML page to write [default: report.html in the folder of the record].
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Print one JSON document instead of the tables.
    #[arg(long)]
    json: bool,
}

/// The question that the tables answer.
const QUESTION: &str = "What does a page fault cost the kernel with and without zeroed pages in stock: in path \
                        instructions, in cleared bytes, in cache misses?";

/// How the figures came about, a sentence each.
const HOW: [&str; 4] = [
    "The kernel is booted in QEMU, which emulates every instruction. Its clock counts instructions (-icount), there is no \
     address randomisation and no random instruction, so two runs give the same bytes.",
    "A plugin adds up instructions by kernel function, for the sections that the guest marks. Iterations of rep stos and \
     rep movs are left out of the path: an emulator runs each as an instruction, a processor clears many bytes at once. \
     Their bytes are counted apart.",
    "The cache is simulated for data, by physical address, with LRU and without a prefetcher; page-table walks and \
     instruction fetches are not in it. Counts say nothing of waiting: the virtual processors take turns.",
    "Every test comes after 5 s of idle virtual time. What the scrubber does in it is a cell of its own.",
];

/// Prints the tables and writes the page.
pub(crate) fn run(args: &Args) -> Outcome {
    let folder = args.folder.clone().unwrap_or_else(|| RECORD.into());
    let results = Results::read(&folder).map_err(failure)?;
    if results.cells(EXPERIMENT).next().is_none() {
        let shown = folder.display();
        return Err(Failure(format!(
            "{shown}: has no cell of the kernel lab; name a record of faultless lab kernel run"
        )));
    }
    let tables = tables(&results);
    let page = args.output.clone().unwrap_or_else(|| folder.join(lab_report::PAGE));
    let sink = Sink::file(&page)?;
    let mut report = lab_report::report(&folder, &results)?;
    for experiment in report.experiments.iter_mut().filter(|experiment| experiment.name == EXPERIMENT) {
        experiment.question = QUESTION.into();
        experiment.sources = vec![faultless_lab::Document::Prezeroing.title().into()];
        let cells: Vec<_> = results.cells(EXPERIMENT).collect();
        experiment.plots = CHARTS.iter().map(|found| chart::plot(found, &cells)).collect();
        experiment.tables = tables.iter().cloned().map(table_of).collect();
        experiment.how = HOW.map(str::to_owned).into();
        experiment.command = "faultless lab kernel build --fetch && faultless lab kernel run --twice".into();
    }
    report.measured = format!("{}.", lab_report::counted(results.all().count(), "cell"));
    sink.write(&report.html())?;
    eprintln!("faultless: the page is {}", page.display());
    let facts = machine(&folder);
    let refused = results.refused().iter().map(ToString::to_string).collect();
    let text =
        if args.json { json(&results, &facts, &tables, refused)? } else { text(&facts, &tables, &refused) };
    emit(text.as_bytes(), ExitCode::SUCCESS)
}

fn text(facts: &[(String, String)], tables: &[Table], refused: &[String]) -> String {
    let facts: String = facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let tables = tables.iter().map(|table| page::text(&table_of(table.clone())));
    let refused = refused.iter().map(|line| format!("left out: {line}\n"));
    let parts: Vec<String> = std::iter::once(facts).chain(tables).chain(refused).collect();
    parts.join("\n")
}

/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    facts: Vec<[&'a str; 2]>,
    /// The limits of the patch, with their verdicts.
    limits: BTreeMap<&'static str, Limit>,
    /// By test and arm, per base page.
    figures: Figures,
    /// Rows of the document: by the number of threads or lines, and its arm.
    document: BTreeMap<String, BTreeMap<String, Rates>>,
    tables: Vec<JsonTable<'a>>,
    refused: Vec<String>,
}

#[derive(Serialize)]
struct JsonTable<'a> {
    id: &'a str,
    title: &'a str,
    heads: &'a [&'a str],
    rows: Vec<JsonRow<'a>>,
    remark: &'a str,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    is_document: bool,
    texts: &'a [String],
}

fn json(
    results: &Results,
    facts: &[(String, String)],
    tables: &[Table],
    refused: Vec<String>,
) -> Result<String, Failure> {
    let json = Json {
        schema: SCHEMA,
        facts: facts.iter().map(|(name, value)| [name.as_str(), value.as_str()]).collect(),
        limits: limits::limits(results).into_iter().map(|limit| (limit.id, limit)).collect(),
        figures: found::figures(results),
        document: document_rates(),
        tables: tables
            .iter()
            .map(|table| JsonTable {
                id: table.id,
                title: table.title,
                heads: table.heads,
                rows: table
                    .rows
                    .iter()
                    .map(|(is_document, texts)| JsonRow { is_document: *is_document, texts })
                    .collect(),
                remark: table.remark,
            })
            .collect(),
        refused,
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}
