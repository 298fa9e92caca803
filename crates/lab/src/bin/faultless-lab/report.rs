//! `faultless lab report`: a record as one HTML page, and its charts as files of their own.
//!
//! In: a record. Out: what `faultless_report::lab` draws. Looks up; what things look like is decided there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use faultless_lab::chosen::Grid;
use faultless_lab::claim::{Claim, Unjudged};
use faultless_lab::record::{self, ENDED, FINISHED, OUT_OF_TIME, VIOLATION};
use faultless_lab::results::{self, Quantities};
use faultless_lab::{Cell, Experiment, Results, Sheet, experiments, trial};
use faultless_prof::price::cold;
use faultless_report::lab::{Quantity, Report, page};
use faultless_report::svg;
use faultless_report::table::WIDTH;
use faultless_trace::measurement::median_interval;

use crate::measure::failure;
use crate::{chart, table};
use faultless_console::sink::{Sink, columns};
use faultless_console::{Failure, Outcome, emit};

/// The page that a record's folder holds after every run.
pub(crate) const PAGE: &str = "report.html";

/// Arguments of `faultless lab report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the record.
    folder: PathBuf,
    /// HTML page to write [default: report.html in the folder of the record].
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Also write every chart into this folder, as .svg and as .csv.
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// Print one JSON document instead of the tables.
    #[arg(long)]
    json: bool,
}

/// Writes the page of a record, and prints its answers.
pub(crate) fn run(args: &Args) -> Outcome {
    let results = record::read(&args.folder).map_err(failure)?;
    let report = report(&args.folder, &results)?;
    if let Some(why) = &report.unfinished {
        eprintln!("faultless: the record is not whole: {why}");
    }
    let page = args.output.clone().unwrap_or_else(|| args.folder.join(PAGE));
    // All places are tried before anything is written.
    let sink = Sink::file(&page)?;
    if let Some(folder) = &args.charts {
        charts(folder, &report)?;
    }
    sink.write(&report.html())?;
    eprintln!("faultless: the page is {}", page.display());
    let text = if args.json {
        table::json(&report, &results)?
    } else {
        text(&report, false, &args.folder) + &table::counts(&results)
    };
    emit(text.as_bytes(), ExitCode::SUCCESS)
}

/// The record for the terminal. If `is_brief`, statements are counted, and the command that prints them follows.
pub(crate) fn text(report: &Report, is_brief: bool, folder: &Path) -> String {
    let text = report.text(columns(None).unwrap_or(WIDTH), is_brief);
    match is_brief {
        true => {
            format!("{text}\nEvery statement with its figures: faultless lab report {}\n", folder.display())
        }
        false => text + "\n",
    }
}

/// Writes the page into the record's folder; its path.
pub(crate) fn write(folder: &Path, results: &Results) -> Result<PathBuf, Failure> {
    let page = folder.join(PAGE);
    Sink::file(&page)?.write(&report(folder, results)?.html())?;
    Ok(page)
}

fn charts(folder: &Path, report: &Report) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let reason = faultless_console::reason(&error);
        Failure(format!("{}: {reason}; name a folder that can be written", folder.display()))
    })?;
    for plot in report.experiments.iter().flat_map(|experiment| &experiment.plots) {
        Sink::file(&folder.join(format!("{}.svg", plot.id)))?.write(&svg::plot(plot))?;
        Sink::file(&folder.join(format!("{}.csv", plot.id)))?.write(&svg::csv(plot))?;
    }
    for table in report.experiments.iter().flat_map(|experiment| &experiment.tables) {
        Sink::file(&folder.join(format!("{}.csv", table.id)))?.write(&page::csv(table))?;
    }
    Ok(())
}

/// What a record is called: the last part of its path.
pub(crate) fn name(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map_or_else(|| whole.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The machine: `name: value` lines of `host.txt`.
pub(crate) fn machine(folder: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder.join("host.txt")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// A record, ready to be drawn.
pub(crate) fn report(folder: &Path, results: &Results) -> Result<Report, Failure> {
    let asked = record::asked(folder, results).map_err(failure)?;
    let whole = |name: &String| experiments::find(name).map_or(name.clone(), |found| found.name().to_owned());
    let mut names: Vec<String> = asked.experiments.iter().map(whole).collect();
    let place = |name: &String| experiments::ALL.iter().position(|experiment| experiment.name() == name);
    names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    names.dedup();
    let (samples, disturbed) = results.disturbed();
    let mut machine = machine(folder);
    machine.push(("faultless".into(), asked.version.clone()));
    let command = machine.iter().find(|(name, _)| name == "command").map_or("", |(_, command)| command);
    let experiments = names.iter().map(|name| experiment(name, command, results)).collect();
    Ok(Report {
        name: name(folder),
        asked: format!("{asked}:"),
        measured: format!(
            "{}, {}, {disturbed} of them disturbed by other programs or the hypervisor{}.",
            counted(results.all().count(), "cell"),
            counted(samples, "sample"),
            if disturbed * 2 > samples {
                ": verdicts on times mean little, those on counts hold"
            } else {
                ""
            }
        ),
        unfinished: unfinished(results),
        machine,
        violations: results.notes_of(VIOLATION).map(ToString::to_string).collect(),
        experiments,
    })
}

/// Why a record is not whole, going by its files and by how the last run on it ended.
pub(crate) fn unfinished(results: &Results) -> Option<String> {
    let lacks = &results.lacks;
    if !lacks.is_empty() {
        return Some(format!(
            "It was stored without {}: what was asked for, which cells were refused, and which samples had wrong fault counts \
             is not known. So no sample is left out.",
            lacks.join(" and ")
        ));
    }
    if results.is_torn {
        return Some(
            "A table ends inside a line: the last sample was not wholly written, and is left out.".into(),
        );
    }
    if results.all().next().is_none() {
        return Some("It holds no sample.".into());
    }
    match results.notes_of(ENDED).last().map(|note| note.text.as_str()) {
        Some(FINISHED | OUT_OF_TIME) => None,
        Some(other) => Some(format!("The last run was {other}.")),
        None => {
            Some("The last run did not say how it ended: it goes on, was killed, or the disk is full.".into())
        }
    }
}

fn claim(claim: &Claim, results: &Results) -> page::Claim {
    let found = claim.judge(results);
    page::Claim {
        id: claim.id.into(),
        document: claim.document.title().into(),
        quote: claim.quote.into(),
        there: claim.figure.into(),
        here: found.ours,
        verdict: found.verdict,
        why: found.why,
    }
}

fn unjudged(row: &Unjudged, results: &Results) -> page::Unjudged {
    page::Unjudged {
        document: row.document.title().into(),
        quote: row.quote.into(),
        there: row.figure.into(),
        here: row.ours(results),
        why: row.why.into(),
    }
}

fn experiment(name: &str, command: &str, results: &Results) -> page::Experiment {
    let known: Option<&dyn Experiment> = experiments::find(name);
    let mut cells: Vec<(&Cell, &Quantities)> = results.cells(name).collect();
    cells.sort_by(|(a, _), (b, _)| a.natural_cmp(b));
    let mut parameters: Vec<String> = Vec::new();
    for (parameter, _) in cells.iter().flat_map(|(cell, _)| &cell.parameters) {
        if !parameters.contains(parameter) {
            parameters.push(parameter.clone());
        }
    }
    let phases = results.phases(name);
    let table = cells.iter().flat_map(|&(cell, quantities)| {
        let of_phase = |phase: &String| row(cell, quantities, phase, &parameters, results);
        phases.iter().filter_map(of_phase).collect::<Vec<_>>()
    });
    let sheet = known.map_or(&Sheet::BLANK, |experiment| experiment.sheet());
    let refused = results.refused().into_iter().filter(|note| note.experiment == name);
    page::Experiment {
        name: name.into(),
        question: known
            .map_or("This version of faultless does not know this experiment.", |_| sheet.about)
            .into(),
        sources: sheet.documents.iter().map(|document| document.title().into()).collect(),
        plots: sheet.charts.iter().map(|found| chart::plot(found, &cells)).collect(),
        tables: known.map_or(Vec::new(), |known| tables(known, results)),
        claims: (sheet.claims)().iter().map(|found| claim(found, results)).collect(),
        unjudged: (sheet.unjudged)().iter().map(|row| unjudged(row, results)).collect(),
        rows: table.collect(),
        how: how(&cells, phases),
        refused: refused.map(|note| format!("{}: {}", note.cell, note.text)).collect(),
        command: command.into(),
        parameters,
    }
}

/// The document's tables of an experiment and of its parts, with our rows.
fn tables(experiment: &dyn Experiment, results: &Results) -> Vec<page::Table> {
    let sheet = experiment.sheet();
    let whole = (!sheet.columns.is_empty()).then(|| {
        let title = match (sheet.theirs)().is_empty() {
            true => "What was measured".to_owned(),
            false => format!("In the columns of \"{}\"", sheet.documents[0].title()),
        };
        (sheet.name, title, Grid::without_parts(experiment, results))
    });
    let parts = sheet
        .parts
        .iter()
        .map(|part| (part.name, part.about.to_owned(), Grid::new(experiment, Some(part), results)));
    let grids = whole.into_iter().chain(parts).map(|(name, title, grid)| {
        let is_ours = grid.rows.iter().map(|row| row.is_document).collect::<Vec<_>>();
        let [heads, rows @ ..] = &table::grid_texts(&grid)[..] else { return page::Table::default() };
        let rows = is_ours.into_iter().zip(rows);
        page::Table {
            id: format!("{name}-table"),
            title,
            heads: heads.clone(),
            rows: rows
                .map(|(is_document, texts)| page::TableRow { is_document, texts: texts.clone() })
                .collect(),
            remark: String::new(),
        }
    });
    grids.filter(|table| table.rows.iter().any(|row| !row.is_document)).collect()
}

fn row(
    cell: &Cell,
    quantities: &Quantities,
    phase: &str,
    parameters: &[String],
    results: &Results,
) -> Option<page::PhaseRow> {
    const EXPECTED: [&str; 2] = ["expected_faults", "most_faults"];
    const SPLIT: [&str; 2] = ["user_ns", "system_ns"];
    let of_phase = || quantities.iter().filter(|((found, _), _)| found == phase);
    let figures: Vec<Quantity> = of_phase()
        .filter_map(|((_, quantity), values)| {
            Some(Quantity { name: quantity.clone(), interval: median_interval(values)? })
        })
        .collect();
    let [least, most] = EXPECTED.map(|quantity| {
        figures.iter().find(|figure| figure.name == quantity).map(|figure| figure.interval.value)
    });
    let cpu = figures.iter().find(|figure| figure.name == "cpu_ns");
    let is_split = cpu.is_some_and(|figure| figure.interval.value >= trial::SPLIT_NS);
    let is_shown = |figure: &Quantity| {
        let quantity = figure.name.as_str();
        !EXPECTED.contains(&quantity) && (is_split || !SPLIT.contains(&quantity))
    };
    let words = cell.words().join(" ");
    let violations = results.notes_of(VIOLATION).filter(|note| {
        let is_here = note.experiment == cell.experiment && note.cell == words;
        is_here && note.text.starts_with(&format!("{phase}: "))
    });
    (!figures.is_empty()).then(|| page::PhaseRow {
        parameters: parameters
            .iter()
            .map(|name| cell.text(name).map(str::to_owned).unwrap_or_default())
            .collect(),
        phase: phase.into(),
        samples: of_phase().map(|(_, values)| values.len()).max().unwrap_or(0),
        faults: least.zip(most),
        violations: violations.map(|note| note.text.clone()).collect(),
        quantities: figures.into_iter().filter(is_shown).collect(),
    })
}

fn how(cells: &[(&Cell, &Quantities)], phases: &[String]) -> Vec<String> {
    let rounds = |(_, quantities): &(&Cell, &Quantities)| quantities.values().map(Vec::len).max();
    let rounds: BTreeSet<usize> = cells.iter().filter_map(rounds).collect();
    let rounds = match (rounds.first(), rounds.last()) {
        (Some(&least), Some(most)) if least == *most => counted(least, "round"),
        (Some(least), Some(most)) => format!("{least} to {most} rounds"),
        _ => "no round".to_owned(),
    };
    let (samples, disturbed) = results::disturbed(cells.iter().map(|(_, quantities)| *quantities));
    vec![
        format!(
            "{} in {rounds}, in another order each round; every sample is a process of its own. In a virtual machine \
             as much memory as a sample needs is touched and given back before it, so that its pages are guest-warm.",
            counted(cells.len(), "cell")
        ),
        format!(
            "Phases: {}. Each is timed and its faults are counted alike, beside those that it must take from first \
             principles; a phase that takes others, is too fast to have happened, or returns another checksum than it must \
             is said to be wrong.",
            phases.join(", ")
        ),
        format!(
            "Figures are medians over the samples with their 95 % intervals: a bootstrap, below eight samples joined with \
             Student's t. {disturbed} of {samples} samples were taken while other programs or the hypervisor had more than \
             {:.0} % of the processors, or when a first touch had just cost more than {} times what it mostly did, as \
             guest-cold memory does; they are kept.",
            results::DISTURBED * 100.0,
            cold::COLD_TIMES
        ),
        format!(
            "CPU time is the process's. The kernel tells its user and system parts apart by what its clock's ticks happen to \
             see, so they are left out below {:.0} ms.",
            trial::SPLIT_NS / 1e6
        ),
    ]
}

/// `1 cell`, `2 cells`.
pub(crate) fn counted(count: usize, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}
