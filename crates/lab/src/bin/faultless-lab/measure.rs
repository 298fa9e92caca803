//! Runs the lab: processes, progress, and the closing lines.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use faultless_lab::experiment::processors;
use faultless_lab::process::Launcher;
use faultless_lab::record::{self, Asked, Note, SCHEMA, VIOLATION};
use faultless_lab::runner::{Budget, Ended, Progress, Runner};
use faultless_lab::{Chosen, Effort, Experiment, Record, Results, Scope, experiments};
use faultless_os::host::Host;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{report, table};
use faultless_console::{Failure, INTERRUPTED, Outcome, emit};

/// What is measured, and how it is told.
pub(crate) struct Run<'a> {
    /// Names of experiments and of parts of them; one, if cells of it were chosen.
    pub(crate) names: Vec<&'static str>,
    /// The parameters of the chosen cells, as `NAME=VALUES`.
    pub(crate) parameters: &'a [String],
    pub(crate) effort: Effort,
    /// Rounds of each cell, if they were named.
    pub(crate) rounds: Option<u32>,
    pub(crate) folder: &'a Path,
    /// Whether one JSON document is printed instead of tables.
    pub(crate) json: bool,
}

/// Measures into a folder and tells what was found.
pub(crate) fn run(run: Run) -> Outcome {
    let Run { parameters, effort, folder, .. } = run;
    let host = Host::read();
    let scope = Scope { host: &host, processors: processors(), effort };
    let chosen: Vec<Chosen> = match (parameters, run.names.as_slice()) {
        ([], names) => names.iter().filter_map(|name| Chosen::all(name, &scope)).collect(),
        (words, [name]) => vec![Chosen::new(name, words, &host).map_err(failure)?],
        _ => return Err(Failure("NAME=VALUE chooses cells of one experiment: name one".into())),
    };
    let experiments: Vec<&dyn Experiment> = chosen.iter().map(|chosen| chosen as &dyn Experiment).collect();
    let mut budget = Budget::of(effort);
    if let Some(rounds) = run.rounds {
        budget = Budget { ns: u64::MAX, least_rounds: rounds, most_rounds: rounds, ..budget };
    }
    let asked = asked(&run.names, parameters, effort);
    let ended = measure(&experiments, &asked, Limits { effort, budget }, folder, &host)?;
    let results = record::read(folder).map_err(failure)?;
    for note in left_out(&results.refused()) {
        eprintln!("faultless: left out: {note}");
    }
    let is_empty = results.all().next().is_none();
    // One table answers a part or chosen cells.
    let is_table = !parameters.is_empty() || chosen.iter().any(|chosen| chosen.part().is_some());
    let written = if is_empty { Ok(()) } else { page(folder, &results) };
    let text = if run.json {
        table::json(&report::report(folder, &results)?, &results)?
    } else if is_empty {
        // The reasons have been told.
        table::counts(&results)
    } else if is_table {
        let grids = chosen.iter().map(|chosen| table::grid(&chosen.grid(&results)));
        grids.collect::<String>() + &table::counts(&results)
    } else {
        let is_brief = effort == Effort::Quick && chosen.len() > 1;
        report::text(&report::report(folder, &results)?, is_brief, folder) + &table::counts(&results)
    };
    let mut status = code(&results);
    if ended == Ended::Interrupted {
        let folder = folder.display();
        eprintln!("faultless: interrupted; what was measured is kept in {folder}, the same command goes on");
        status = ExitCode::from(INTERRUPTED);
    }
    let said = emit(text.as_bytes(), status);
    written?;
    said
}

/// The cells that were refused, with their reasons. Cells of one experiment with one reason are one line.
fn left_out(notes: &[&Note]) -> Vec<String> {
    let is_alike = |a: &Note, b: &Note| a.experiment == b.experiment && a.reason() == b.reason();
    let is_first = |at: usize| !notes[..at].iter().any(|earlier| is_alike(earlier, notes[at]));
    let line = |at: usize| {
        let note = notes[at];
        match notes.iter().filter(|other| is_alike(other, note)).count() {
            1 => note.to_string(),
            count => format!("{} {}, {} more: {}", note.experiment, note.cell, count - 1, note.reason()),
        }
    };
    (0..notes.len()).filter(|at| is_first(*at)).map(line).collect()
}

fn page(folder: &Path, results: &Results) -> Result<(), Failure> {
    let page = report::write(folder, results)?;
    eprintln!("faultless: the page is {}", page.display());
    Ok(())
}

/// Every kind of cell once, as small as counts can be.
pub(crate) fn verify(json: bool) -> Outcome {
    let folder = tempfile::tempdir()?;
    let host = Host::read();
    let effort = Effort::Verify;
    let limits = Limits { effort, budget: Budget::of(effort) };
    let names: Vec<&str> = experiments::ALL.iter().map(|experiment| experiment.name()).collect();
    let asked = asked(&names, &[], effort);
    let ended = measure(experiments::ALL, &asked, limits, folder.path(), &host)?;
    if ended == Ended::Interrupted {
        eprintln!("faultless: interrupted; nothing of it is kept");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let results = record::read(folder.path()).map_err(failure)?;
    let text = match json {
        true => table::json(&report::report(folder.path(), &results)?, &results)?,
        false => table::counts(&results),
    };
    emit(text.as_bytes(), code(&results))
}

/// 0 if every count is right, 1 if some are wrong, 2 if nothing could be measured.
fn code(results: &Results) -> ExitCode {
    let is_wrong = results.notes_of(VIOLATION).next().is_some();
    let is_empty = results.all().next().is_none();
    ExitCode::from(if is_wrong {
        1
    } else if is_empty {
        2
    } else {
        0
    })
}

/// How much is measured.
struct Limits {
    effort: Effort,
    budget: Budget,
}

fn asked(names: &[&str], parameters: &[String], effort: Effort) -> Asked {
    Asked {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        effort: effort.word().into(),
        experiments: names.iter().map(|name| (*name).to_owned()).collect(),
        parameters: parameters.to_vec(),
        seed: fastrand::u64(..),
    }
}

fn measure(
    experiments: &[&dyn Experiment],
    asked: &Asked,
    limits: Limits,
    folder: &Path,
    host: &Host,
) -> Result<Ended, Failure> {
    let Limits { effort, budget } = limits;
    let scope = Scope { host, processors: processors(), effort };
    let mut record = Record::open(folder, asked, &table::host(host)).map_err(failure)?;
    let launcher = Launcher::new(std::env::current_exe()?, &["cell"]);
    let bar = progress();
    let runner = Runner::new(experiments.to_vec(), scope, budget, asked.seed);
    let (mut tried, mut told) = (0_usize, Instant::now());
    let ended = runner.run(
        &mut record,
        |cell, environment| {
            let sample = launcher.measure(cell, environment)?;
            tried += 1;
            Ok(sample)
        },
        |now| show(&bar, &mut told, now),
    );
    bar.finish_and_clear();
    let ended = ended.map_err(failure)?;
    if (ended, tried) == (Ended::Finished, 0) {
        let folder = folder.display();
        eprintln!(
            "faultless: {folder} was finished already, nothing was measured; name another folder with -o to begin anew"
        );
    }
    Ok(ended)
}

pub(crate) fn failure(refusal: faultless_lab::Refusal) -> Failure {
    Failure(refusal.0)
}

/// Without a terminal there is no bar, but a line now and then.
fn show(bar: &ProgressBar, told: &mut Instant, now: &Progress) {
    const BETWEEN: Duration = Duration::from_secs(20);
    if bar.is_hidden() && told.elapsed() >= BETWEEN {
        *told = Instant::now();
        eprintln!("faultless: {} of {} samples, round {}: {}", now.done, now.planned, now.round, now.cell);
    }
    bar.set_length(now.planned as u64);
    bar.set_position(now.done as u64);
    bar.set_message(format!("round {}: {}", now.round, now.cell));
}

fn progress() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len}, {eta} left, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_lab::record::REFUSED;

    #[test]
    fn cells_with_the_same_reason_are_left_out_in_one_line() {
        let note = |experiment: &str, cell: &str, text: &str| Note {
            experiment: experiment.into(),
            cell: cell.into(),
            round: 1,
            kind: REFUSED.into(),
            text: text.into(),
        };
        let (one, two, other) = (
            note("phases", "threads=1", "needs root"),
            note("phases", "threads=2", "phases threads=2: needs root"),
            note("major", "source=swap", "needs swap"),
        );
        assert_eq!(
            left_out(&[&other, &one, &two]),
            ["major source=swap: needs swap", "phases threads=1, 1 more: needs root"]
        );
    }

    #[test]
    fn a_count_that_can_not_be_ends_with_status_1() {
        let told = |kind: &str| {
            let note = Note {
                experiment: "touch".into(),
                cell: "threads=1".into(),
                round: 1,
                kind: kind.into(),
                text: "first: 0 faults, must be 1024 to 1048".into(),
            };
            let mut results = Results::default();
            results.notes.push(note);
            format!("{:?}", code(&results))
        };
        assert_eq!(told(VIOLATION), format!("{:?}", ExitCode::from(1)));
        assert_eq!(told(REFUSED), format!("{:?}", ExitCode::from(2)), "nothing was measured");
    }
}
