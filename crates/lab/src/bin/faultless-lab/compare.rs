//! `faultless lab compare`: two records beside each other, as text, as JSON and as a page.
//!
//! In: two records. Out: what `faultless_lab::compare` finds, as `faultless_report::lab` tells it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use faultless_lab::Results;
use faultless_lab::compare;
use faultless_lab::record::{self, Note, VIOLATION};
use faultless_report::lab::Comparison;
use faultless_report::lab::compare::{self as shown, Fact};
use faultless_trace::change::{Change, Direction};
use faultless_trace::stat::Interval;
use serde::Serialize;

use crate::measure::failure;
use crate::report::{counted, machine, name, unfinished};
use faultless_console::sink::Sink;
use faultless_console::{Failure, Outcome, emit};

/// Which, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the first record.
    a: PathBuf,
    /// Folder of the second.
    b: PathBuf,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    json: bool,
    /// Also write an HTML page with all figures.
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

/// Compares two records.
pub(crate) fn run(args: &Args) -> Outcome {
    let sink = args.output.as_deref().map(Sink::file).transpose()?;
    let comparison = comparison(&args.a, &args.b)?;
    if let Some(sink) = sink {
        sink.write(&comparison.html())?;
    }
    let text = if args.json { json(&comparison)? } else { shown::text(&comparison) };
    emit(text.as_bytes(), ExitCode::SUCCESS)
}

fn comparison(a: &Path, b: &Path) -> Result<Comparison, Failure> {
    let [of_a, of_b] = [results(a)?, results(b)?];
    let mut names = [a, b].map(name);
    if names[0] == names[1] {
        names = [a, b].map(|folder| folder.display().to_string());
    }
    let changes = compare::compare(&of_a, &of_b);
    Ok(Comparison {
        names,
        facts: facts((a, &of_a), (b, &of_b))?,
        caveats: [caveats("A", &of_a), caveats("B", &of_b)].concat(),
        how: vec![
            format!(
                "Beyond noise is a ratio whose 95 % interval lies wholly outside of 1 and {:.0} % about it, unless the \
                 figures are within {:.0} us ({:.0} ms for the user's and the system's part), {:.0} faults or {:.0} MiB of \
                 each other.",
                compare::ABOUT_ONE * 100.0,
                compare::NS / 1e3,
                compare::TICK_NS / 1e6,
                compare::FAULTS,
                compare::BYTES / 1024.0 / 1024.0
            ),
            by_chance(&changes),
            "The intervals hold what varies within a record, not what differs from one day to the next: compare two records of \
             the same state first."
                .to_owned(),
        ],
        changes,
    })
}

fn results(folder: &Path) -> Result<Results, Failure> {
    let results = record::read(folder).map_err(failure)?;
    match results.has("kernel") {
        true => Err(Failure(format!(
            "{}: is a record of the kernel lab; compare it with `faultless lab kernel diff`",
            folder.display()
        ))),
        false => Ok(results),
    }
}

/// How many changes there would be if nothing had changed.
fn by_chance(changes: &[Change]) -> String {
    const BEYOND: f64 = 0.05;
    let varies = |found: &Option<Interval>| found.is_some_and(|found| found.low < found.high);
    let varying: Vec<&Change> = changes.iter().filter(|change| change.figures.iter().any(varies)).collect();
    let changed =
        varying.iter().filter(|change| matches!(change.kind, Direction::More | Direction::Less)).count();
    format!(
        "{changed} of the {} figures that vary within a record changed; up to {:.0}, one in twenty, would be found to have by \
         chance if nothing had: trust what cells beside each other share.",
        varying.len(),
        varying.len() as f64 * BEYOND
    )
}

/// Cells and samples that are named of one record at the most.
const NAMED: usize = 5;

/// What of a record is not there, or can't be right: a sentence, and a line for each.
fn caveats(which: &str, results: &Results) -> Vec<String> {
    let mut caveats = Vec::new();
    caveats.extend(unfinished(results).map(|why| format!("{which} is not whole: {why}")));
    let wrong: Vec<&Note> = results.notes_of(VIOLATION).collect();
    for (notes, of, what) in [
        (wrong, "sample", "can't be right, and left out"),
        (
            results.refused(),
            "cell",
            "could not be measured, so what the other has of them counts as added or removed",
        ),
    ] {
        if !notes.is_empty() {
            caveats.push(format!("{which}: {} {what}:", counted(notes.len(), of)));
            caveats.extend(notes.iter().take(NAMED).map(ToString::to_string));
            caveats.extend((notes.len() > NAMED).then(|| format!("and {} more", notes.len() - NAMED)));
        }
    }
    caveats
}

fn facts(a: (&Path, &Results), b: (&Path, &Results)) -> Result<Vec<Fact>, Failure> {
    let of = |(folder, results): (&Path, &Results)| {
        let (samples, disturbed) = results.disturbed();
        let asked = record::asked(folder, results).map_err(failure)?;
        let mut facts = vec![
            ("faultless".to_owned(), asked.version),
            ("effort".to_owned(), asked.effort),
            ("experiments".to_owned(), asked.experiments.join(", ")),
            ("samples".to_owned(), format!("{samples}, {disturbed} of them disturbed by others")),
        ];
        facts.extend(machine(folder));
        Ok::<_, Failure>(facts)
    };
    let (a, b) = (of(a)?, of(b)?);
    let value = |facts: &[(String, String)], name: &str| {
        facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.clone()).unwrap_or_default()
    };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in a.iter().chain(&b) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let fact = |name: &&String| Fact { name: (*name).clone(), values: [value(&a, name), value(&b, name)] };
    let mut facts: Vec<Fact> = names.iter().map(fact).collect();
    facts.sort_by_key(|fact| fact.values[0] == fact.values[1]);
    Ok(facts)
}

/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    a: &'a str,
    b: &'a str,
    caveats: &'a [String],
    facts: Vec<JsonFact<'a>>,
    changes: Vec<JsonChange<'a>>,
}

#[derive(Serialize)]
struct JsonFact<'a> {
    name: &'a str,
    a: &'a str,
    b: &'a str,
}

#[derive(Serialize)]
struct JsonChange<'a> {
    kind: &'a str,
    experiment: &'a str,
    cell: &'a str,
    phase: &'a str,
    quantity: &'a str,
    a: Option<Interval>,
    b: Option<Interval>,
    /// `b` over `a`.
    ratio: Option<Interval>,
}

fn json(comparison: &Comparison) -> Result<String, Failure> {
    let facts = comparison.facts.iter();
    let changes = comparison.changes.iter();
    let json = Json {
        schema: SCHEMA,
        a: &comparison.names[0],
        b: &comparison.names[1],
        caveats: &comparison.caveats,
        facts: facts
            .map(|found| JsonFact { name: &found.name, a: &found.values[0], b: &found.values[1] })
            .collect(),
        changes: changes
            .map(|found| JsonChange {
                kind: found.kind.word(),
                experiment: &found.experiment,
                cell: &found.cell,
                phase: &found.phase,
                quantity: &found.quantity,
                a: found.figures[0],
                b: found.figures[1],
                ratio: found.ratio,
            })
            .collect(),
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}
