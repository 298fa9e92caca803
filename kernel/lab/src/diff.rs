//! `faultless lab kernel diff`: two kernels, or two arms of one record, function by function.
//!
//! In: two records. Out: per cell the functions that were added, removed, grown and shrunk, as text or JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use faultless_console::{Failure, Outcome, emit};
use faultless_trace::diff::Class;
use serde::Serialize;

use crate::functions::{self, Change};
use crate::one_of;
use crate::plan::{ARMS, Arm};
use crate::record::{Cell, Record};
use crate::tables::Table;

/// Which, and how much of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the record before.
    before: PathBuf,
    /// Folder of the record after [default: the same record, for --arms].
    after: Option<PathBuf>,
    /// Arms to compare: one name for both sides, or BEFORE,AFTER [default: base].
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 1..=2,
          value_parser = one_of(&ARMS, |arm| arm.name))]
    arms: Vec<&'static Arm>,
    /// Compare only cells with this parameter, such as kind=thp; repeat it to narrow further
    /// [default: test=pft lines=1, and every kind].
    #[arg(long = "cell", value_name = "NAME=VALUE")]
    cells: Vec<String>,
    /// Show only these classes, such as added,grown [default: all changes in the table; everything in JSON].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(&Class::ALL, |class| class.word()))]
    only: Vec<&'static Class>,
    /// Print one JSON document instead of the tables.
    #[arg(long)]
    json: bool,
}

/// One cell on both sides.
#[derive(Serialize)]
struct Compared {
    cell: String,
    /// Of all kernel functions, per page.
    path_instructions: [f64; 2],
    /// Likewise, of the last level.
    llc_misses: [f64; 2],
    functions: Vec<Change>,
}

/// Compares.
pub(crate) fn run(args: &Args) -> Outcome {
    let arms = match args.arms[..] {
        [before, after, ..] => [before, after],
        [both] => [both; 2],
        [] => [&ARMS[0]; 2],
    }
    .map(|arm| arm.name);
    let after = args.after.as_ref().unwrap_or(&args.before);
    if args.after.is_none() && arms[0] == arms[1] {
        return Err(Failure(
            "one record and one arm: name a second record, or two arms with --arms base,on".into(),
        ));
    }
    if let Some(word) = args.cells.iter().find(|word| !word.contains('=')) {
        return Err(Failure(format!("--cell {word}: a parameter is written NAME=VALUE")));
    }
    let records = [Record::read(&args.before)?, Record::read(after)?];
    let tables = [functions::read(&args.before)?, functions::read(after)?];
    let found = compared(&records, &tables, arms, &args.cells.join(" "));
    if found.is_empty() {
        return Err(Failure(format!(
            "no cell of arm {} and arm {} fits: see `faultless lab kernel report`",
            arms[0], arms[1]
        )));
    }
    let only: Vec<Class> = match (args.only.as_slice(), args.json) {
        ([], true) => Class::ALL.to_vec(),
        ([], false) => Class::ALL[..4].to_vec(),
        (only, _) => only.iter().copied().copied().collect(),
    };
    let sides = [0, 1].map(|side| format!("{} {}", records[side].fact("kernel"), arms[side]));
    let text = if args.json { json(&sides, found, &only)? } else { text(&sides, &found, &only) };
    emit(text.as_bytes(), ExitCode::SUCCESS)
}

/// The cells that both sides have, of those that are wanted.
fn compared(
    records: &[Record; 2],
    tables: &[functions::Table; 2],
    arms: [&str; 2],
    wanted: &str,
) -> Vec<Compared> {
    let named = arms.map(|arm| format!("arm={arm} "));
    let pair = |(cell, before): (&Cell, &Vec<functions::Row>)| {
        let words = cell.0.strip_prefix(&named[0]).filter(|_| is_wanted(cell, wanted))?;
        let other = Cell(format!("{}{words}", named[1]));
        let after = tables[1].get(&other)?;
        let pages = [pages(&records[0], cell)?, pages(&records[1], &other)?];
        let rows = [before.as_slice(), after.as_slice()];
        let of = |of: fn(&functions::Row) -> u64| {
            [0, 1].map(|side| functions::sum(rows[side], of) as f64 / pages[side])
        };
        let cell = words.split(' ').filter(|word| !word.starts_with("plan=")).collect::<Vec<_>>().join(" ");
        Some(Compared {
            cell,
            path_instructions: of(|row| row.path_instructions),
            llc_misses: of(|row| row.llc_misses),
            functions: functions::compare(rows, pages),
        })
    };
    tables[0].iter().filter_map(pair).collect()
}

/// Whether a cell has these parameters; without any, whether it is one of those that are always compared.
fn is_wanted(cell: &Cell, wanted: &str) -> bool {
    match wanted {
        "" => cell.get("kind").is_some() || cell.has("plan=lines lines=1 pcp=short"),
        words => cell.has(words),
    }
}

/// Pages of a cell; without pages, as in idle time, everything counts once.
fn pages(record: &Record, cell: &Cell) -> Option<f64> {
    record.cells.get(cell)?.get("guest pages").map(|pages| pages.max(1.0))
}

fn text(sides: &[String; 2], found: &[Compared], only: &[Class]) -> String {
    let mut text = format!("before: {}\nafter:  {}\n\n", sides[0], sides[1]);
    for Compared { cell, path_instructions: path, llc_misses: misses, functions: changes } in found {
        let of = |class: Class| changes.iter().filter(move |change| change.class == class);
        let classes = Class::ALL.into_iter().filter(|class| only.contains(class));
        let table = Table {
            title: cell.clone(),
            heads: &["", "class", "path before", "path after", "change", "bytes before", "bytes after"],
            rows: classes.flat_map(of).map(row).collect(),
            remark: format!(
                "{}; in all, per page: {:.1} path instructions and {:.1} misses of the last level before, {:.1} and {:.1} after",
                counts(changes),
                path[0],
                misses[0],
                path[1],
                misses[1]
            ),
        };
        text.push_str(&table.text());
        text.push('\n');
    }
    text + "Per base page. A function that is added or removed ran on one side only: the other kernel may lack it, or its \
            compiler inlined it.\n"
}

fn row(change: &Change) -> Vec<String> {
    let [before, after] = change.path;
    let figure = |value: f64| format!("{value:.1}");
    vec![
        change.function.clone(),
        change.class.word().to_owned(),
        figure(before),
        figure(after),
        format!("{:+.1}", after - before),
        figure(change.bytes[0]),
        figure(change.bytes[1]),
    ]
}

/// How many functions there are of each class.
fn counts(changes: &[Change]) -> String {
    let of = |class: Class| changes.iter().filter(|change| change.class == class).count();
    let unchanged = of(Class::Unchanged);
    if unchanged == changes.len() {
        return format!("no function differs; {unchanged} unchanged");
    }
    Class::ALL.map(|class| format!("{} {}", of(class), class.word())).join(", ")
}

/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    before: &'a str,
    after: &'a str,
    cells: &'a [Compared],
}

fn json([before, after]: &[String; 2], mut cells: Vec<Compared>, only: &[Class]) -> Result<String, Failure> {
    cells.iter_mut().for_each(|cell| cell.functions.retain(|change| only.contains(&change.class)));
    let json = Json { schema: SCHEMA, before, after, cells: &cells };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}
