//! `faultless check`: in: a command and a budget file. Out: whether its faults and memory are within the budget.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use faultless_console::{Failure, INTERRUPTED, Outcome, emit, reason, sink::Sink};
use faultless_os::steady::make_steady;
use faultless_prof::{Kernel, Options, Sources};
use faultless_report::check as report;
use faultless_trace::Stat;
use faultless_trace::budget::{self, Budget, Budgets, Checked, Facts, Reading};
use faultless_trace::diff::Run;
use faultless_trace::observation::Observation;

use super::record::{names_folder, runtimes};
use super::rounds::{Engine, Input, Job, Stop};

/// Runs behind a budget. With ten, one more run lies beyond all of them in one of eleven cases.
const BUDGET_RUNS: u32 = 10;
/// Runs that are checked. The median of three is that of the usual run, even if one is odd.
const CHECK_RUNS: u32 = 3;
/// Counts, single faults, and memory over time. Kernel stacks only tell times.
const SOURCES: Sources =
    Sources { counters: true, pairs: true, kernel: Kernel::No, levels: true, bpf: false };

/// Compare the page faults and memory of a program with a budget, as a gate for CI.
///
/// The budget file holds, for each program and host, what some runs showed and a limit for each figure. `--update`
/// writes it; commit it beside the program. Counts of faults hardly suffer from a busy machine. Huge pages and random
/// addresses are switched off for the program, so that a count of faults is a count of bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless check --update -- ./engine queries.txt    # writes faultless.toml
  faultless check -- ./engine queries.txt
  faultless check --budget ci/budget.toml --markdown summary.md --junit faults.xml -- ./engine

The program's output is read and thrown away. Standard input is read once and given to each run.
Exit status: 0 within the budget, 1 over it, 2 no answer (no budget, another host, a program that fails), 130 interrupted.")]
pub(crate) struct Args {
    /// Budget file.
    #[arg(short, long, value_name = "FILE", default_value = "faultless.toml", value_hint = clap::ValueHint::FilePath)]
    budget: PathBuf,
    /// Write the budget of this program and host into the file, instead of comparing.
    #[arg(short, long, conflicts_with_all = ["json", "markdown", "junit"])]
    update: bool,
    /// Name of the program in the file [default: the command].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Runs that count, after one that does not [default: 3, with --update 10].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Refuse a budget of another kernel, C library or number of processors.
    ///
    /// Otherwise it is compared with 10 % more room, and by call site.
    #[arg(long, conflicts_with = "update")]
    strict: bool,
    /// Print one JSON document instead of the text.
    #[arg(long)]
    json: bool,
    /// Also append the answer to FILE as Markdown, such as a CI run's summary.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    markdown: Option<PathBuf>,
    /// Also write the answer to FILE as JUnit's XML.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    junit: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let name = args.name.clone().unwrap_or_else(|| words(&args.command));
    let junit = args.junit.as_deref().map(Sink::file).transpose()?;
    let markdown = args.markdown.as_deref().map(Sink::appended).transpose()?;
    let asked = match args.update {
        true => update(&args, name.clone()),
        false => check(&args, &name),
    };
    let checked = match asked {
        Ok(checked) => checked,
        Err(Stop::Interrupted) => {
            eprintln!("faultless: interrupted: nothing was compared");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(stop) => {
            let failure = stop.failure();
            if let Some(file) = junit {
                file.write(&report::junit_error(&name, &failure.0))?;
            }
            return Err(failure);
        }
    };
    let Some(checked) = checked else { return Ok(ExitCode::SUCCESS) };
    if let Some(file) = junit {
        file.write(&report::junit(&checked))?;
    }
    if let Some(file) = markdown {
        file.write(&report::markdown(&checked))?;
    }
    let text = match args.json {
        true => faultless_report::json(&checked),
        false => report::text(&checked, std::io::stdout().is_terminal()),
    };
    emit(text.as_bytes(), ExitCode::from(u8::from(checked.over)))
}

/// Compares with the budget.
fn check(args: &Args, name: &str) -> Result<Option<Checked>, Stop> {
    let file = args.budget.display();
    let budgets = load(&args.budget)?.ok_or_else(|| {
        Failure(format!("{file}: no such file; `faultless check --update` writes a budget"))
    })?;
    if budgets.budgets.iter().all(|budget| budget.name != name) {
        let others: Vec<&str> = budgets.budgets.iter().map(|budget| budget.name.as_str()).collect();
        let others = others.join(", ");
        let text = format!(
            "{file}: no budget for `{name}`, only for {others}; --name NAME picks one, --update adds one"
        );
        return Err(Failure(text).into());
    }
    let program = Program::new(&args.command, args.repeat.unwrap_or(CHECK_RUNS))?;
    let measured = program.measure()?;
    let Some((budget, differs)) = budgets.find(name, &measured.facts) else { return Ok(None) };
    if !differs.is_empty() {
        if args.strict || !measured.facts.is_comparable(&budget.host) {
            let differs = differs.join(", ");
            let text = format!(
                "{file}: the budget for `{name}` is of another host: {differs}; --update adds this one"
            );
            return Err(Failure(text).into());
        }
        let sites = match program.sites() {
            Err(Stop::Interrupted) => return Err(Stop::Interrupted),
            sites => sites.unwrap_or_default(),
        };
        return Ok(Some(Checked::elsewhere(budget, measured.readings, &sites, &differs)));
    }
    let checked = Checked::new(budget, measured.readings);
    if !checked.over || budget.sites.is_empty() {
        return Ok(Some(checked));
    }
    let sites = program.sites()?;
    Ok(Some(checked.with_sites(budget, &sites)))
}

/// Writes the budget.
fn update(args: &Args, name: String) -> Result<Option<Checked>, Stop> {
    let mut budgets = load(&args.budget)?.unwrap_or_default();
    let file = Sink::file(&args.budget)?;
    let program = Program::new(&args.command, args.repeat.unwrap_or(BUDGET_RUNS))?;
    let Measured { facts, readings } = program.measure()?;
    let sites = match program.sites() {
        Ok(sites) => sites,
        Err(Stop::Interrupted) => return Err(Stop::Interrupted),
        Err(stop) => {
            let failure = stop.failure();
            eprintln!("faultless: {failure}; the budget names no sites");
            BTreeMap::new()
        }
    };
    let Some(budget) = Budget::new(name, facts, &readings, sites) else { return Err(Stop::Interrupted) };
    eprint!("{}", report::written(&budget, &args.budget.display().to_string()));
    budgets.put(budget);
    file.write(&budgets.text())?;
    Ok(None)
}

/// The budgets in a file; `None` if there is no such file.
fn load(path: &Path) -> Result<Option<Budgets>, Failure> {
    let failure = |text: String| Failure(format!("{}: {text}", path.display()));
    match std::fs::read_to_string(path) {
        Ok(text) => Budgets::parse(&text).map(Some).map_err(failure),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failure(format!("{}; name a budget file with --budget", reason(&error)))),
    }
}

/// A program that runs several times.
struct Program<'a> {
    command: &'a [OsString],
    engine: Engine,
    runs: u32,
}

struct Measured {
    facts: Facts,
    readings: Vec<Reading>,
}

impl<'a> Program<'a> {
    fn new(command: &'a [OsString], runs: u32) -> Result<Self, Failure> {
        let engine = Engine::new(Input::capture()?, "{bar:30} run {pos} of {len}", u64::from(runs));
        Ok(Self { command, engine, runs })
    }

    /// One run that does not count, since it reads files from the disk, then those that do.
    fn measure(&self) -> Result<Measured, Stop> {
        let steady = make_steady();
        let facts = facts(&self.observe()?, steady);
        let readings = (0..self.runs).map(|_| {
            self.engine.bar.inc(1);
            Ok(Reading::of(&Stat::from_observation(&self.observe()?)))
        });
        let readings = readings.collect::<Result<Vec<_>, Stop>>()?;
        self.engine.bar.finish_and_clear();
        Ok(Measured { facts, readings })
    }

    fn observe(&self) -> Result<Observation, Stop> {
        let ran = self.engine.observe(self.job(&[]))?;
        Ok(ran.success(&self.name(), SILENT)?.0)
    }

    /// Faults by function and caller, from a run of which every fault is recorded.
    fn sites(&self) -> Result<BTreeMap<String, u64>, Stop> {
        let (environment, runtimes) = runtimes::variables(true, false);
        let options = Options { every_fault: true, names: names_folder(), runtimes, ..Options::default() };
        let ran = self.engine.record(self.job(&environment), &options)?;
        let recording = ran.success(&self.name(), SILENT)?.0;
        Ok(budget::sites(&Run::new(recording)))
    }

    fn job<'b>(&'b self, environment: &'b [(OsString, OsString)]) -> Job<'b> {
        Job { command: self.command, environment, allow: SOURCES }
    }

    fn name(&self) -> String {
        self.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// What a run that fails says.
const SILENT: &str = "its counts say nothing; mend the command";

fn facts(observation: &Observation, steady: faultless_os::steady::Steady) -> Facts {
    let host = &observation.host;
    let mut version = host.kernel.split(['.', '-']);
    let kernel = [version.next(), version.next()].into_iter().flatten().collect::<Vec<_>>().join(".");
    Facts {
        kernel,
        architecture: std::env::consts::ARCH.into(),
        libc: faultless_os::host::glibc(),
        page_bytes: host.page_bytes,
        processors: host.cpus,
        huge_pages: if steady.without_huge_pages { "off".into() } else { host.thp.clone() },
        random_addresses: !steady.with_fixed_addresses,
        recorded: budget::recorded(&observation.sources),
    }
}

fn words(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
