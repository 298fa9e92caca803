//! `faultless lab predict`: what prezeroing would change on other machines, by a model, as ranges.
//!
//! In: threads, nodes, parameters. Out: the tables of `faultless_lab::predict`, as text, as JSON and as a
//! page; or the validation of the model.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::value_parser;
use faultless_console::sink::Sink;
use faultless_console::{Failure, Outcome, emit};
use faultless_lab::predict::parameters::DEFAULTS;
use faultless_lab::predict::record::{Counted, Row, Sum, Taken};
use faultless_lab::predict::{Forecast, Parameters, Question, forecast, validate};
use faultless_os::host::Host;
use faultless_prof::price;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::measure::failure;

mod text;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless lab predict
  faultless lab predict --threads 1..64 --nodes 1,2 --own-vma -o forecast.html
  faultless lab predict --record record/kernel/NAME
  faultless lab predict --this-host --threads 1,2
  faultless lab predict --defaults > mine.toml; faultless lab predict --parameters mine.toml
  faultless lab predict --validate

Exit status: 0 done, 1 the validation does not hold, or one thread differs from its count, 2 wrong input.")]
pub(crate) struct Args {
    /// Numbers of threads: one, a list (1,2,6), or the powers of two in a range (1..512).
    #[arg(long, value_name = "N", default_value = "1..512", value_parser = counts)]
    threads: Counts,
    /// Numbers of nodes, written likewise.
    #[arg(long, value_name = "N", default_value = "1..8", value_parser = counts)]
    nodes: Counts,
    /// Processors of a node. A pair with more threads than processors is left out.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=2048))]
    processors: u32,
    /// Cache lines that the program touches of each page.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(0..=65536))]
    lines: u32,
    /// Let each thread fault in a VMA of its own, as under per-VMA locks [default: all share one].
    #[arg(long)]
    own_vma: bool,
    /// Parameters in TOML or JSON; the file needs only those that differ from --defaults.
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// Take the counts of this record of `faultless lab kernel run`, and compare its pool with the model's.
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Take the prices of this host, as `faultless doctor` measures them.
    #[arg(long)]
    this_host: bool,
    /// Samples of the parameters.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = value_parser!(u32).range(4..=10000))]
    samples: u32,
    /// Seed; the same seed gives the same figures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the default parameters as a file.
    #[arg(long, conflicts_with_all = ["validate", "this_host", "parameters", "record", "output", "json"])]
    defaults: bool,
    /// Compare the model with theory, with the third document's tables and with a prototype.
    #[arg(long, conflicts_with_all = ["this_host", "parameters", "record"])]
    validate: bool,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    json: bool,
    /// Also write an HTML page with pictures.
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

/// Whole numbers from 1 on.
#[derive(Clone, Debug)]
struct Counts(Vec<usize>);

/// Most threads or nodes.
const MOST: usize = 2048;

fn counts(text: &str) -> Result<Counts, String> {
    let wrong = || format!("expected numbers from 1 to {MOST}: 8, 1,2,6 or 1..512");
    let number = |word: &str| match word.trim().parse() {
        Ok(number) if (1..=MOST).contains(&number) => Ok(number),
        _ => Err(wrong()),
    };
    let Some((low, high)) = text.split_once("..") else {
        let mut list = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        list.sort_unstable();
        list.dedup();
        return Ok(Counts(list));
    };
    let (low, high) = (number(low)?, number(high.trim_start_matches('='))?);
    if low > high {
        return Err(wrong());
    }
    let mut list: Vec<usize> =
        std::iter::successors(Some(low), |at| Some(at * 2)).take_while(|at| *at < high).collect();
    list.push(high);
    Ok(Counts(list))
}

/// Samples of each row of a record.
const SAMPLES_OF_ROW: usize = 16;
/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    record: Option<JsonRecord<'a>>,
    processors: u32,
    lines: u32,
    own_vma: bool,
    samples: u32,
    seed: u64,
    parameters: &'a Parameters,
    forecasts: &'a [Forecast],
}

#[derive(Serialize)]
struct JsonRecord<'a> {
    taken: &'a [Taken],
    sums: &'a [Sum],
    rows: &'a [Row],
}

#[derive(Serialize)]
struct JsonValidation<'a> {
    schema: u32,
    holds: bool,
    #[serde(flatten)]
    validation: &'a validate::Validation,
}

/// Predicts, or validates the model.
pub(crate) fn run(args: &Args) -> Outcome {
    if args.defaults {
        return emit(DEFAULTS.as_bytes(), ExitCode::SUCCESS);
    }
    let sink = args.output.as_deref().map(Sink::file).transpose()?;
    let (text, page, holds) = if args.validate { validated(args)? } else { predicted(args)? };
    if let Some(sink) = sink {
        sink.write(&page)?;
    }
    emit(text.as_bytes(), if holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Text, page, and whether everything holds.
type Answer = (String, String, bool);

fn validated(args: &Args) -> Result<Answer, Failure> {
    let validation = validate::validate(validate::SAMPLES, args.seed).map_err(failure)?;
    let holds = validation.holds();
    let text = if args.json {
        serde_json::to_string_pretty(&JsonValidation { schema: SCHEMA, holds, validation: &validation })?
    } else {
        text::validation(&validation)
    };
    Ok((text + "\n", text::validation_page(&validation), holds))
}

fn predicted(args: &Args) -> Result<Answer, Failure> {
    let counted = args.record.as_deref().map(|folder| counted(folder, args.seed)).transpose()?;
    let parameters = parameters(args, counted.as_ref())?;
    let question = Question {
        threads: args.threads.0.clone(),
        nodes: args.nodes.0.clone(),
        processors: args.processors as usize,
        lines: args.lines,
        shares_vma: !args.own_vma,
        samples: args.samples as usize,
        seed: args.seed,
    };
    let bar = bar("predicting {bar:30} {pos}/{len}");
    let forecasts = forecast(&question, &parameters, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let forecasts = forecasts.map_err(failure)?;
    let text = if args.json {
        serde_json::to_string_pretty(&Json {
            schema: SCHEMA,
            record: counted.as_ref().map(|found| JsonRecord {
                taken: &found.taken,
                sums: &found.sums,
                rows: &found.rows,
            }),
            processors: args.processors,
            lines: args.lines,
            own_vma: args.own_vma,
            samples: args.samples,
            seed: args.seed,
            parameters: &parameters,
            forecasts: &forecasts,
        })?
    } else {
        let before = counted.as_ref().map_or(String::new(), |found| text::counted(found) + "\n");
        before + &text::forecast(&question, &forecasts)
    };
    let page = text::forecast_page(&question, &parameters, &forecasts, counted.as_ref());
    let holds = counted.as_ref().is_none_or(|found| found.sums.iter().all(Sum::holds));
    Ok((text + "\n", page, holds))
}

/// What a record of the kernel lab says, and what the model says of it.
struct Compared {
    record: Counted,
    taken: Vec<Taken>,
    sums: Vec<Sum>,
    rows: Vec<Row>,
}

fn counted(folder: &Path, seed: u64) -> Result<Compared, Failure> {
    let record = Counted::read(folder).map_err(failure)?;
    let sums = record.sums().map_err(failure)?;
    let rows = record.rows(SAMPLES_OF_ROW, seed).map_err(failure)?;
    Ok(Compared { taken: record.taken(), sums, rows, record })
}

fn parameters(args: &Args, counted: Option<&Compared>) -> Result<Parameters, Failure> {
    let counts = match counted {
        Some(found) => found.record.parameters(Parameters::defaults().map_err(failure)?),
        None => Parameters::defaults(),
    };
    // A file of the user's has the last word.
    let read = match &args.parameters {
        Some(file) => counts.and_then(|counts| counts.changed(file)),
        None => counts,
    };
    let parameters = read.map_err(failure)?;
    if !args.this_host {
        return Ok(parameters);
    }
    let bar = bar("measuring the price of faults {bar:30} {pos}/{len}");
    let prices = price::measure(&Host::read(), |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    parameters.with_prices(&prices).map_err(failure)
}

/// A progress bar on a terminal.
fn bar(template: &str) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_lists_or_powers_of_two() {
        let list = |text: &str| counts(text).unwrap().0;
        assert_eq!(list("1..512"), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!((list("3..10"), list("8..8")), (vec![3, 6, 10], vec![8]));
        assert_eq!((list("6, 1,2,2"), list("7")), (vec![1, 2, 6], vec![7]));
        for wrong in ["", "0", "8..1", "1..", "x", "1,,2", "-1", "4000", "1...5"] {
            assert!(counts(wrong).unwrap_err().contains("expected numbers from 1 to"), "{wrong}");
        }
    }
}
