//! `faultless advise`: every candidate cure, interleaved with the program as it is, and a verdict.

mod cures;
mod input;
mod output;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use faultless_os::spawn;
use faultless_prof::{Kernel, Request, Sources};
use faultless_report::advice as report;
use faultless_trace::Stat;
use faultless_trace::advice::{self, Run, Series};
use faultless_trace::observation::Exit;
use indicatif::{ProgressBar, ProgressStyle};

use self::cures::{Cure, Ground};
use self::input::Input;
use self::output::Drain;
use super::sink::Sink;
use super::warm::Warm;
use super::{Failure, Outcome, run as pool};

/// Rounds when the user names none: as many as fit this time, within the bounds below.
const BUDGET: Duration = Duration::from_secs(40);
/// A bootstrap over fewer rounds than 7 says little; more than 20 narrow the interval hardly any more.
const ROUNDS: std::ops::RangeInclusive<u32> = 7..=20;
/// Rounds below which an interrupted comparison is not judged.
const MIN_ROUNDS: u32 = 5;

/// Run a program under each candidate cure and tell which one wins.
///
/// Every round runs the program once as it is and once under each cure, in shuffled order, after a warm-up round; ratios are
/// taken inside a round. With no command the bundled chunk pipeline is run, the program of "A queue of page faults".
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless advise
  faultless advise -- python3 analysis.py
  faultless advise --runs 30 --max-rss-increase 10 --json -- ./engine <queries.txt >advice.json

The program's standard output is compared between runs, not shown. Its standard input is read once and given to each run;
where that is a terminal, each run reads nothing.
Exit status: 0 a cure wins, 1 nothing helps, 2 no comparison was possible.")]
pub(crate) struct Args {
    /// Rounds to count; by default as many as fit 40 seconds, 7 to 20.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    runs: Option<u32>,
    /// Do not recommend a cure that takes this much more memory at the peak, in percent.
    #[arg(long, value_name = "P", default_value_t = 50.0, allow_negative_numbers = true)]
    max_rss_increase: f64,
    /// Compare the runs even if the program prints something else each time.
    #[arg(long)]
    any_output: bool,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    json: bool,
    /// Draw the comparison into this file as well.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> Outcome {
    if !args.max_rss_increase.is_finite() || args.max_rss_increase < 0.0 {
        return Err(Failure("--max-rss-increase takes a percentage of 0 or more".into()));
    }
    let svg = args.svg.as_deref().map(Sink::file).transpose()?;
    let bundled = args.command.is_empty();
    let command = if bundled { bundled_workload()? } else { args.command };
    let shown: Vec<String> = match bundled {
        true => [&cures::own_name(), "workload", "chunk-pipeline"].map(String::from).into(),
        false => command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    if let Some(reason) = pool::immune(&command[0]) {
        return Err(Failure(format!("{reason}; no cure that advise knows acts in such a program")));
    }
    let ground = Ground::look(cures::quoted(&shown));
    let host = faultless_prof::host();
    let virtual_machine = host.hypervisor.is_some();
    let bench =
        Bench { command, input: Input::capture()?, cures: cures::candidates(&ground)?, virtual_machine };
    let (series, notes) = bench.measure(args.runs)?;
    let mut advice = advice::judge(shown, host, series, args.max_rss_increase / 100.0, args.any_output)
        .map_err(|refusal| Failure(refusal.to_string()))?;
    advice.notes.splice(0..0, notes);
    if ground.sys_hidden {
        let note = "/sys is hidden, so whether there are huge pages can't be known: cures by huge pages were not tried";
        advice.notes.push(note.to_owned());
    }
    if let Some(file) = svg {
        file.write(&report::svg(&advice))?;
    }
    let text = match args.json {
        true => report::json(&advice),
        false => report::text(&advice, std::io::stdout().is_terminal()),
    };
    super::emit(text.as_bytes(), if advice.winner.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn bundled_workload() -> Result<Vec<OsString>, Failure> {
    let own = std::env::current_exe()?;
    Ok([own.as_os_str(), "workload".as_ref(), "--quiet".as_ref(), "chunk-pipeline".as_ref()]
        .map(OsString::from)
        .into())
}

/// One program, its input, and the ways to run it.
struct Bench {
    command: Vec<OsString>,
    input: Input,
    cures: Vec<Cure>,
    virtual_machine: bool,
}

/// One finished run.
struct Finished {
    run: Run,
    fault_seconds: Option<f64>,
    stderr_tail: String,
}

impl Bench {
    /// A warm-up round that also measures the time in faults, then the rounds that count.
    ///
    /// Interrupted by Ctrl-C, the finished rounds are judged, if there are enough of them.
    fn measure(&self, runs: Option<u32>) -> Result<(Vec<Series>, Vec<String>), Failure> {
        let arms = self.cures.len();
        let progress = progress(arms as u64);
        let mut warm = Warm::new(self.virtual_machine);
        let mut series = self.warm_up(&progress, &mut warm)?;
        let round_ns: u64 = series.iter().map(|series| series.runs[0].wall_ns).sum();
        series.iter_mut().for_each(|series| series.runs.clear());
        let fits = (BUDGET.as_nanos() as u64 / round_ns.max(1)).min(1000) as u32;
        let rounds = runs.unwrap_or(fits.clamp(*ROUNDS.start(), *ROUNDS.end()));
        progress.set_length(arms as u64 * u64::from(rounds + 1));
        let mut notes = Vec::new();
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..arms).collect();
            fastrand::shuffle(&mut order);
            let mut finished = Vec::with_capacity(arms);
            for index in order {
                progress.set_message(format!(
                    "round {} of {rounds}: {}",
                    round + 1,
                    self.cures[index].arm.name
                ));
                warm.touch();
                let run = self.run(&self.cures[index], Sources::NONE)?.run;
                let by_signal =
                    interrupted(run.exit) && series[0].runs.iter().all(|earlier| earlier.exit != run.exit);
                if by_signal || spawn::asked_to_end() {
                    progress.finish_and_clear();
                    if round < MIN_ROUNDS {
                        return Err(Failure(format!("interrupted in round {}: too few to judge", round + 1)));
                    }
                    notes.push(format!("interrupted after {round} of {rounds} rounds"));
                    return Ok((series, notes));
                }
                finished.push((index, run));
                progress.inc(1);
            }
            for (index, run) in finished {
                series[index].runs.push(run);
            }
        }
        progress.finish_and_clear();
        Ok((series, notes))
    }

    /// One recorded run of each arm; a program that fails as it is, is not worth comparing.
    fn warm_up(&self, progress: &ProgressBar, warm: &mut Warm) -> Result<Vec<Series>, Failure> {
        let recorded = Sources { levels: false, kernel: Kernel::No, ..Sources::default() };
        let mut series = Vec::with_capacity(self.cures.len());
        for (index, cure) in self.cures.iter().enumerate() {
            progress.set_message(format!("warm-up: {}", cure.arm.name));
            if index == 0 {
                // Once unrecorded: what it needs is not known yet, and its first run reads files from the disk.
                warm.learn(self.run(cure, Sources::NONE)?.run.peak_rss_bytes);
            }
            warm.touch();
            let Finished { run, fault_seconds, stderr_tail } = self.run(cure, recorded)?;
            warm.learn(run.peak_rss_bytes);
            if interrupted(run.exit) {
                return Err(Failure(format!("the program was ended by {} in the warm-up round", run.exit)));
            }
            if spawn::asked_to_end() {
                return Err(Failure("interrupted in the warm-up round: nothing to judge".into()));
            }
            if index == 0 && run.exit != Exit::Status(0) {
                progress.suspend(|| {
                    eprintln!(
                        "faultless: the program ends with {}; comparing such runs all the same",
                        run.exit
                    );
                    eprint!("{stderr_tail}");
                });
            }
            series.push(Series { arm: cure.arm.clone(), runs: vec![run], fault_seconds });
            progress.inc(1);
        }
        Ok(series)
    }

    fn run(&self, cure: &Cure, allow: Sources) -> Result<Finished, Failure> {
        let (stdout, written) = Drain::open()?;
        let (stderr, said) = Drain::open()?;
        let observation = faultless_prof::observe(Request {
            command: self.command.clone(),
            env: cure.environment.clone(),
            stdin: Some(self.input.open()?.into()),
            stdout: Some(stdout.into()),
            stderr: Some(stderr.into()),
            allow,
        })?;
        let (written, said) = (written.finish()?, said.finish()?);
        let usage = observation.usage;
        let run = Run {
            wall_ns: usage.wall_ns,
            cpu_ns: usage.cpu_ns(),
            system_ns: usage.system_ns,
            faults: usage.minor_faults + usage.major_faults,
            peak_rss_bytes: usage.peak_rss_bytes,
            exit: observation.exit,
            stdout_hash: written.hash,
            stdout_bytes: written.bytes,
        };
        let fault_seconds = match allow.pairs {
            true => Stat::from_observation(&observation).time.map(|time| time.seconds.value),
            false => None,
        };
        Ok(Finished { run, fault_seconds, stderr_tail: said.tail })
    }
}

/// Whether the user, not the program, made an end.
fn interrupted(exit: Exit) -> bool {
    const BY_USER: [i32; 4] = [1, 2, 3, 15]; // SIGHUP, SIGINT, SIGQUIT, SIGTERM: the same on every Linux
    matches!(exit, Exit::Signal(signal) if BY_USER.contains(&signal))
}

fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
