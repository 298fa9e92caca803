//! Parameter sets that reproduce the fitted rows, and what they predict.

use super::super::memory::Saturation;
use super::super::model::{Model, Outcome, Scrub, Section, Service, Work, Zone};
use super::super::mva::Network;
use super::super::parallel;
use super::super::range::{Draws, Range, weighted_interval};
use super::rows::{Row, Source};
use super::{HELD, Predicted, ROWS};
use crate::Refusal;

/// The deviation of a rate when the same run is repeated: the standard deviation of its logarithm. A set weighs by the normal density of its distance from the fitted rows.
pub const REPEATED: f64 = 0.02;
/// Sets are kept for deviations up to this, to see how much depends on that figure.
pub(crate) const MOST_REPEATED: f64 = 0.04;
/// A set is given up if a rate is further off than this by exact MVA, which ignores what MVA can't hold...
const SCREENED: f64 = 0.12;
/// ... or by a short run.
const FAR: f64 = 0.10;
/// Sets of less weight than this don't count.
const LEAST_WEIGHT: f64 = 1e-3;
/// How near the patched row of one thread must come, whose scrubbers are calibrated.
const CALIBRATED: f64 = 0.02;

/// Memory is this many times smaller than on the document's machine. Times are not.
const SMALLER: f64 = 128.0;
/// Free memory of the document's machine, which has 6 GB.
const FREE_GB: Range = Range::new(5.0, 5.8);
/// Its processors.
const PROCESSORS: usize = 8;
/// Faults of a short run without the patch, where no stock decides, and of a longer one.
const FAULTS: [f64; 2] = [1200.0, 4800.0];
/// The threads of the rows that are fitted by runs.
const THREADS: [u32; 3] = [2, 4, 8];
/// Lines of a page.
const LINES: f64 = 128.0;

/// What one parameter set says of the document's machine; times in ns.
#[derive(Clone, Debug, PartialEq)]
struct Machine {
    path_ns: f64,
    clear_ns: f64,
    lock: Section,
    saturation: Saturation,
    service: Service,
    /// The least work of a thread compared with the most, by [`THREADS`]; the others lie evenly between.
    least_work: [f64; 3],
    /// The path of the table by lines.
    short_path_ns: f64,
    /// What all lines cost beyond the first.
    lines_ns: f64,
    /// How that grows with their number.
    line_power: f64,
    /// Memory that is free, and zeroed, at the start; the kernel and its page cache have the rest.
    free_gb: f64,
    scrub: Scrub,
    seed: u64,
    /// The sum of the squared distances from the fitted rows.
    squares: f64,
}

/// The parameter sets that reproduce the fitted rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    tried: usize,
    kept: Vec<Machine>,
}

/// Rates that the fit reads, per ns.
struct Targets {
    without: [f64; 4],
    with: f64,
    first_line: f64,
    last_line: f64,
    /// The mean share of the threads that run, with 2, 4 and 8 threads.
    running: [f64; 3],
}

impl Targets {
    fn read(source: &Source) -> Result<Self, Refusal> {
        let row = |name: &str| source.row(name).ok_or_else(|| Refusal(format!("there is no row {name}")));
        let rate = |name: &str| Ok::<f64, Refusal>(row(name)?.per_wall_s / 1e9);
        let running = |name: &str| {
            let row = row(name)?;
            Ok::<f64, Refusal>(row.per_wall_s / row.per_cpu_s / f64::from(row.threads))
        };
        let [one, two, four, eight] =
            ["without, 1 thread", "without, 2 threads", "without, 4 threads", "without, 8 threads"];
        Ok(Self {
            without: [rate(one)?, rate(two)?, rate(four)?, rate(eight)?],
            with: rate("with, 1 thread")?,
            first_line: rate("with, 1 line")?,
            last_line: rate("with, 128 lines")?,
            running: [running(two)?, running(four)?, running(eight)?],
        })
    }
}

/// Tries `samples` parameter sets and keeps those that reproduce the fitted rows.
///
/// # Errors
/// No set does.
pub fn fit(source: &Source, samples: usize, seed: u64) -> Result<Fit, Refusal> {
    const DIMENSIONS: usize = 15;
    let targets = Targets::read(source)?;
    let draws = Draws::new(samples, DIMENSIONS, seed);
    let kept = parallel::map(samples, |index| {
        let machine = Machine::drawn(&targets, &draws, index);
        if !machine.is_near(&targets) {
            return Ok(None);
        }
        match machine.weighed(&targets)? {
            Some(machine) => machine.calibrated(&targets),
            None => Ok(None),
        }
    })?;
    let kept: Vec<Machine> = kept.into_iter().flatten().collect();
    if kept.is_empty() {
        Err(Refusal(format!("none of {samples} parameter sets meets the fitted rows; try more")))
    } else {
        Ok(Fit { tried: samples, kept })
    }
}

impl Machine {
    /// A parameter set that meets the rows of one thread by construction.
    fn drawn(targets: &Targets, draws: &Draws, index: usize) -> Self {
        let mut sample = draws.sample(index);
        // Uniform, with the same deviation.
        let most = REPEATED * 3_f64.sqrt();
        let mut again = |rate: f64| rate * (1.0 + sample.take(Range::new(-most, most)));
        let (whole_ns, hit_ns) = (1.0 / again(targets.without[0]), 1.0 / again(targets.with));
        let (first_ns, last_ns) = (1.0 / again(targets.first_line), 1.0 / again(targets.last_line));
        // The shorter test bounds the path from below, a run without a miss from above.
        let path_ns = sample.take(Range::new(first_ns.min(hit_ns), hit_ns));
        let clear_ns = whole_ns - path_ns;
        let locked = sample.take(Range::new(0.1, 1.0));
        let moved_ns = sample.take(Range::new(0.0, 4_000.0));
        let saturation = if sample.choose(&[true, true, false]) {
            Saturation::Share(sample.take(Range::new(0.0, 0.8)))
        } else {
            Saturation::Streams(sample.take(Range::new(1.5, 8.0)))
        };
        let service = sample.choose(&[Service::Fixed, Service::Exponential]);
        let line_power = sample.take(Range::new(0.8, 1.2));
        let free_gb = sample.take(FREE_GB);
        let scrub = Scrub {
            per_node: sample.choose(&[2, 4, 7]),
            start_order: 4,
            stop_order: 4,
            page_ns: clear_ns * sample.take(Range::new(0.7, 1.0)),
            idle_share: 1.0,
            busy_share: sample.take(Range::new(0.0, 0.5)),
            poll_ns: None,
        };
        Self {
            path_ns: path_ns * (1.0 - locked),
            clear_ns,
            lock: Section { section_ns: path_ns * locked, near_ns: moved_ns, far_ns: moved_ns },
            saturation,
            service,
            least_work: targets.running.map(|running| (2.0 * running - 1.0).clamp(0.05, 1.0)),
            short_path_ns: first_ns,
            lines_ns: last_ns - first_ns,
            line_power,
            free_gb,
            scrub,
            seed: index as u64,
            squares: 0.0,
        }
    }

    /// The work of each thread, `pages` in all and in each of `reps` repetitions.
    fn work(&self, threads: u32, reps: u32, pages: f64) -> Vec<Work> {
        let at = THREADS.iter().position(|of| *of == threads);
        let least = at.map_or(1.0, |at| self.least_work[at]);
        let weight = |thread: u32| 1.0 - (1.0 - least) * f64::from(thread) / f64::from(threads.max(2) - 1);
        let all: f64 = (0..threads).map(weight).sum();
        let pages_of = |thread: u32| (pages * weight(thread) / all).round().max(1.0) as u32;
        (0..threads).map(|thread| Work::passes(reps, pages_of(thread))).collect()
    }

    /// The run of a row. Of the row only the set-up is read.
    fn model(&self, row: &Row) -> Model {
        self.model_of(row, FAULTS[1])
    }

    /// The same with so many faults if the kernel is not patched.
    fn model_of(&self, row: &Row, faults: f64) -> Model {
        const BLOCK: f64 = 32.0;
        let pages = if row.is_patched { row.pages() / SMALLER } else { faults };
        let reps = if row.is_patched { row.reps } else { 1 };
        let memory = (self.free_gb / f64::from(row.gb) * pages / BLOCK).ceil() * BLOCK;
        // The table by lines has no contention, and a path of its own.
        let is_by_lines = row.gb == 1;
        let touch = (f64::from(row.lines - 1) / (LINES - 1.0)).powf(self.line_power);
        Model {
            threads: self.work(row.threads, reps, pages),
            has_barrier: true,
            unmaps_apart: false,
            pause_ns: 0.0,
            nodes: 1,
            processors: PROCESSORS,
            // A mean of few exponential times would add noise of its own.
            service: if is_by_lines { Service::Fixed } else { self.service },
            path_ns: if is_by_lines { self.short_path_ns } else { self.path_ns },
            clear_ns: self.clear_ns,
            touch_ns: if is_by_lines { self.lines_ns * touch } else { 0.0 },
            free_ns: 0.0,
            lock: if is_by_lines { Section::default() } else { self.lock },
            lock_threads: PROCESSORS,
            zone: Zone {
                lock: Section::default(),
                batch: 4,
                high: 8,
                pages: memory as u32,
                most_order: 5,
                zeroed: if row.is_patched { 1.0 } else { 0.0 },
                is_apart: true,
                is_prefilled: false,
                dirty: 0,
            },
            saturation: self.saturation,
            far_times: 1.0,
            scrub: row.is_patched.then_some(self.scrub),
            seed: self.seed,
        }
    }

    /// Whether exact MVA, with as many customers as there are running threads, comes near the rows without
    /// the patch.
    fn is_near(&self, targets: &Targets) -> bool {
        let rate = |customers: usize| {
            // The lock moves unless the same thread comes again.
            let moved = self.lock.near_ns * (customers as f64 - 1.0) / customers as f64;
            let network = Network {
                delay_ns: self.path_ns,
                lock_ns: self.lock.section_ns + moved,
                memory_ns: self.clear_ns,
                saturation: self.saturation,
            };
            network.throughput(customers)
        };
        THREADS.iter().zip(targets.running).zip(&targets.without[1..]).all(|((threads, running), target)| {
            let customers = running * f64::from(*threads);
            let (low, high) = (rate(customers.floor() as usize), rate(customers.ceil() as usize));
            let rate = low + (high - low) * customers.fract();
            (rate / target).ln().abs() <= SCREENED
        })
    }

    /// Runs the rows without the patch: makes the threads' work as unequal as the rows' CPU time says, and
    /// weighs the set by its distance. `None` if it is far.
    fn weighed(mut self, targets: &Targets) -> Result<Option<Self>, Refusal> {
        /// How much less the threads run together if the least work is less.
        const SLOPE: f64 = 0.5;
        for faults in FAULTS {
            let mut squares = 0.0;
            for (at, threads) in THREADS.into_iter().enumerate() {
                let outcome = self.model_of(&Row { threads, ..set_up(false) }, faults).run()?;
                let off = (outcome.faults_per_s() / 1e9 / targets.without[at + 1]).ln();
                if off.abs() > FAR {
                    return Ok(None);
                }
                squares += off.powi(2);
                let running = outcome.busy_ns / outcome.wall_ns / f64::from(threads);
                let least = self.least_work[at] + (targets.running[at] - running) / SLOPE;
                self.least_work[at] = least.clamp(0.02, 1.0);
            }
            self.squares = squares;
        }
        Ok((weight(self.squares, MOST_REPEATED) >= LEAST_WEIGHT).then_some(self))
    }

    /// Finds what the scrubbers take of an idle processor, so that one patched thread is as fast as in the
    /// document.
    fn calibrated(mut self, targets: &Targets) -> Result<Option<Self>, Refusal> {
        const STEPS: usize = 5;
        let row = set_up(true);
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..STEPS {
            self.scrub.idle_share = (low + high) / 2.0;
            let rate = self.model(&row).run()?.faults_per_s() / 1e9;
            if (rate / targets.with - 1.0).abs() <= CALIBRATED {
                return Ok(Some(self));
            }
            if rate < targets.with { low = self.scrub.idle_share } else { high = self.scrub.idle_share }
        }
        Ok(None)
    }
}

/// The weight of a set, if rates repeat with this deviation.
fn weight(squares: f64, repeated: f64) -> f64 {
    (-squares / repeated.powi(2) / 2.0).exp()
}

/// The set-up of the table by threads, for one thread. It has no figure of the document.
fn set_up(is_patched: bool) -> Row {
    Row { name: "", is_patched, gb: 4, reps: 3, threads: 1, lines: 1, per_cpu_s: 0.0, per_wall_s: 0.0 }
}

/// What the kept sets give for each row of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    tried: usize,
    squares: Vec<f64>,
    /// For each row, an outcome of each set.
    outcomes: Vec<(Row, Vec<Outcome>)>,
}

impl Fit {
    /// Runs every row of the document with every set.
    ///
    /// # Errors
    /// A run fails.
    pub fn run(&self) -> Result<Runs, Refusal> {
        let of = |row: &Row| {
            let outcomes = parallel::map(self.kept.len(), |index| self.kept[index].model(row).run())?;
            Ok((*row, outcomes))
        };
        Ok(Runs {
            tried: self.tried,
            squares: self.kept.iter().map(|machine| machine.squares).collect(),
            outcomes: ROWS.iter().map(of).collect::<Result<_, Refusal>>()?,
        })
    }
}

impl Runs {
    /// How many parameter sets were tried, how many were kept, and how many of equal weight would say as much.
    pub fn counts(&self) -> (usize, usize, f64) {
        let weights = self.squares.iter().map(|squares| weight(*squares, REPEATED));
        let (all, squares) =
            weights.fold((0.0, 0.0), |(all, squares), weight| (all + weight, squares + weight * weight));
        (self.tried, self.squares.len(), all * all / squares)
    }

    /// All rows of the document beside their intervals, if rates repeat with this deviation.
    pub(crate) fn predictions(&self, repeated: f64) -> Vec<Predicted> {
        let predicted = |(row, outcomes): &(Row, Vec<Outcome>)| {
            let of = |figure: fn(&Outcome) -> f64| {
                let weights = self.squares.iter().map(|squares| weight(*squares, repeated));
                let values: Vec<_> = outcomes.iter().map(figure).zip(weights).collect();
                weighted_interval(&values, HELD).unwrap_or_default()
            };
            Predicted {
                row: row.name,
                is_fitted: row.is_fitted(),
                per_wall_s: of(Outcome::faults_per_s),
                document_per_wall_s: row.per_wall_s,
                per_cpu_s: of(Outcome::faults_per_busy_s),
                document_per_cpu_s: row.per_cpu_s,
                hit_ratio: of(Outcome::hit_ratio),
            }
        };
        self.outcomes.iter().map(predicted).collect()
    }
}
