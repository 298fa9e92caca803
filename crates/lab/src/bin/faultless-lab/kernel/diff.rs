//! `faultless lab kernel diff`: two records, or two arms of one, function by function.

use std::path::PathBuf;
use std::process::ExitCode;

use faultless_console::{Failure, Outcome, emit};
use faultless_lab::kernel::functions::{self, Change};
use faultless_lab::kernel::plan::{self, ARMS};
use faultless_lab::kernel::session::{EXPERIMENT, GUEST, PAGES};
use faultless_lab::{Cell, Results};
use faultless_report::lab::page;
use faultless_trace::diff::Class;
use faultless_trace::measurement::median;
use serde::Serialize;

use crate::measure::failure;
use crate::report::machine;

/// Which, and how much of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the record before.
    before: PathBuf,
    /// Folder of the record after [default: the same record, for --arms].
    after: Option<PathBuf>,
    /// Arms to compare: one name for both sides, or BEFORE,AFTER [default: base].
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 1..=2)]
    arms: Vec<String>,
    /// Compare only cells with this parameter, such as kind=thp; repeat it to narrow further
    /// [default: test=pft lines=1, and every kind].
    #[arg(long = "cell", value_name = "NAME=VALUE")]
    cells: Vec<String>,
    /// Print one JSON document with all functions, unchanged ones too.
    #[arg(long)]
    json: bool,
}

/// One cell on both sides.
struct Compared {
    cell: String,
    /// Path instructions per page of all kernel functions.
    path: [f64; 2],
    changes: Vec<Change>,
}

/// Compares.
pub(crate) fn run(args: &Args) -> Outcome {
    let arms = arms(&args.arms)?;
    let after = args.after.as_ref().unwrap_or(&args.before);
    if args.after.is_none() && arms[0] == arms[1] {
        return Err(Failure(
            "one record and one arm: name a second record, or two arms with --arms base,on".into(),
        ));
    }
    let wanted = Cell::parse(EXPERIMENT, args.cells.iter().map(String::as_str)).map_err(failure)?;
    let sides = [&args.before, after].map(|folder| {
        let (results, functions) = (Results::read(folder)?, functions::read(folder)?);
        Ok((results, functions))
    });
    let [of_before, of_after]: [Result<_, faultless_lab::Refusal>; 2] = sides;
    let (of_before, of_after) = (of_before.map_err(failure)?, of_after.map_err(failure)?);
    let mut found = Vec::new();
    for (cell, rows) in &of_before.1 {
        if cell.text("arm") != Ok(arms[0]) || !is_wanted(cell, &wanted) {
            continue;
        }
        let other = with_arm(cell, arms[1]);
        let Some(others) = of_after.1.get(&other) else { continue };
        let (Some(before), Some(after)) = (pages(&of_before.0, cell), pages(&of_after.0, &other)) else {
            continue;
        };
        let changes = functions::compare(rows, others, [before, after]);
        let path = [0, 1].map(|side| changes.iter().map(|change| change.path[side]).sum());
        found.push(Compared { cell: without_arm(cell), path, changes });
    }
    if found.is_empty() {
        return Err(Failure(format!(
            "no cell of arm {} and arm {} fits: see `faultless lab kernel report`",
            arms[0], arms[1]
        )));
    }
    let names = [&args.before, after].map(|folder| {
        let facts = machine(folder);
        facts.into_iter().find(|(name, _)| name == "kernel").map_or_else(String::new, |(_, version)| version)
    });
    let sides = [0, 1].map(|side| format!("{} {}", names[side], arms[side]));
    let text = if args.json { json(&sides, &found)? } else { text(&sides, &found) };
    emit(text.as_bytes(), ExitCode::SUCCESS)
}

fn arms(named: &[String]) -> Result<[&str; 2], Failure> {
    for name in named {
        let known: Vec<&str> = ARMS.iter().map(|arm| arm.name).collect();
        plan::arm(name)
            .ok_or_else(|| Failure(format!("there is no arm {name}; there are {}", known.join(", "))))?;
    }
    Ok(match named {
        [] => ["base", "base"],
        [both] => [both, both],
        [before, after, ..] => [before, after],
    })
}

/// Whether a cell has these parameters; without any, whether it is one of those that are always compared.
fn is_wanted(cell: &Cell, wanted: &Cell) -> bool {
    if wanted.parameters.is_empty() {
        let is = |name: &str, value: &str| cell.text(name) == Ok(value);
        return cell.text("kind").is_ok() || is("plan", "lines") && is("lines", "1") && is("pcp", "short");
    }
    wanted.parameters.iter().all(|(name, value)| cell.text(name) == Ok(value))
}

fn with_arm(cell: &Cell, arm: &str) -> Cell {
    let mut cell = cell.clone();
    for (name, value) in &mut cell.parameters {
        if name == "arm" {
            arm.clone_into(value);
        }
    }
    cell
}

fn without_arm(cell: &Cell) -> String {
    let words =
        cell.words().into_iter().filter(|word| !word.starts_with("arm=") && !word.starts_with("plan="));
    words.collect::<Vec<_>>().join(" ")
}

/// Pages of a cell; without pages, as in idle time, everything counts once.
fn pages(results: &Results, cell: &Cell) -> Option<f64> {
    let found = results.cell(cell)?;
    let pages = median(faultless_lab::results::values(found, GUEST, PAGES)?)?;
    Some(pages.max(1.0))
}

const HEADS: [&str; 7] = ["", "class", "path before", "path after", "change", "bytes before", "bytes after"];

fn text(sides: &[String; 2], found: &[Compared]) -> String {
    let mut text = format!("before: {}\nafter:  {}\n\n", sides[0], sides[1]);
    for compared in found {
        let named = |class: Class| compared.changes.iter().filter(move |change| change.class == class);
        let rows = [Class::Added, Class::Removed, Class::Grown, Class::Shrunk]
            .into_iter()
            .flat_map(named)
            .map(|change| {
                let [before, after] = change.path;
                let figure = |value: f64| format!("{value:.1}");
                page::TableRow {
                    is_document: false,
                    texts: vec![
                        change.function.clone(),
                        change.class.word().to_owned(),
                        figure(before),
                        figure(after),
                        format!("{:+.1}", after - before),
                        figure(change.bytes[0]),
                        figure(change.bytes[1]),
                    ],
                }
            });
        let rows: Vec<page::TableRow> = rows.collect();
        let remark = format!(
            "{}; in all {:.1} path instructions per page before, {:.1} after",
            counts(&compared.changes),
            compared.path[0],
            compared.path[1]
        );
        let heads = HEADS.map(str::to_owned).into();
        let table = page::Table { id: String::new(), title: compared.cell.clone(), heads, rows, remark };
        text.push_str(&page::text(&table));
        text.push('\n');
    }
    text + "Per base page. A function that is added or removed ran on one side only: the other kernel may lack it, or its \
            compiler inlined it.\n"
}

/// How many functions there are of each class.
fn counts(changes: &[Change]) -> String {
    let of = |class: Class| changes.iter().filter(|change| change.class == class).count();
    let unchanged = of(Class::Unchanged);
    if unchanged == changes.len() {
        return format!("no function differs; {unchanged} unchanged");
    }
    let all = [Class::Added, Class::Removed, Class::Grown, Class::Shrunk, Class::Unchanged];
    all.map(|class| format!("{} {}", of(class), class.word())).join(", ")
}

/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    before: &'a str,
    after: &'a str,
    cells: Vec<JsonCell<'a>>,
}

#[derive(Serialize)]
struct JsonCell<'a> {
    cell: &'a str,
    path_instructions: [f64; 2],
    functions: Vec<JsonFunction<'a>>,
}

#[derive(Serialize)]
struct JsonFunction<'a> {
    function: &'a str,
    class: &'a str,
    path_instructions: [f64; 2],
    bytes: [f64; 2],
}

fn json(sides: &[String; 2], found: &[Compared]) -> Result<String, Failure> {
    let cells = found.iter().map(|compared| JsonCell {
        cell: &compared.cell,
        path_instructions: compared.path,
        functions: compared
            .changes
            .iter()
            .map(|change| JsonFunction {
                function: &change.function,
                class: change.class.word(),
                path_instructions: change.path,
                bytes: change.bytes,
            })
            .collect(),
    });
    let json = Json { schema: SCHEMA, before: &sides[0], after: &sides[1], cells: cells.collect() };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}
