//! What prezeroing would change on a machine of so many threads and nodes: ranges, never one number.
//!
//! In: [`Parameters`] and the numbers of threads and nodes. Out: a [`Forecast`] for each pair: the model is
//! run with many samples of the parameters, and a range holds the central 90 % of them.
//!
//! Four runs share one sample. *Stocked*: every fault finds a zeroed page, as after a pause or at start.
//! *Sustained*: no page is zeroed at first, the threads fault and unmap without a pause, and scrubbers work
//! beside them. Each is compared with the same work *without* prezeroing, where every fault clears its page.

use faultless_trace::stat::Interval;
use serde::Serialize;

use super::memory::Saturation;
use super::model::{Model, Outcome, Scrub, Section, Service, Work, Zone};
use super::parallel;
use super::parameters::Parameters;
use super::range::{Draws, interval};
use crate::Refusal;

/// The share of the samples that a range holds.
pub const HELD: f64 = 0.9;
/// Faults of a run that all threads share.
const FAULTS: usize = 2048;
/// Fewest pages of a thread.
const LEAST_PAGES: usize = 32;
/// Times that each thread faults its pages in a sustained run.
const PASSES: u32 = 5;
const MOST_ORDER: u8 = 7;
/// The order that wakes scrubbers and that they stop at: blocks of 2 MiB would be too coarse for these sizes.
const SCRUB_ORDER: u8 = 4;

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Numbers of nodes.
    pub nodes: Vec<usize>,
    /// Processors of a node.
    pub processors: usize,
    /// Cache lines that the program touches of each page.
    pub lines: u32,
    /// Whether the threads fault in one VMA; else each has its own.
    pub shares_vma: bool,
    /// Samples of the parameters.
    pub samples: usize,
    /// Seed of the samples.
    pub seed: u64,
}

/// The answer for one number of threads and nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Threads.
    pub threads: usize,
    /// Nodes.
    pub nodes: usize,
    /// Faults per second without prezeroing.
    pub without_per_s: Interval,
    /// The same if every fault finds a zeroed page.
    pub stocked_per_s: Interval,
    /// The same without a pause.
    pub sustained_per_s: Interval,
    /// How many times as many faults a stocked pool gives.
    pub stocked_gain: Interval,
    /// How many times as many a sustained run gives.
    pub sustained_gain: Interval,
    /// The share of faults that find a zeroed page in a sustained run.
    pub hit_ratio: Interval,
    /// Latency that one fault in 100 exceeds, without prezeroing.
    pub without_p99_ns: Interval,
    /// The same if every fault finds a zeroed page.
    pub stocked_p99_ns: Interval,
}

/// Answers a question, by nodes and then threads. A pair with more threads than processors is left out.
///
/// # Errors
/// No pair is left, or a run fails.
pub fn forecast(
    question: &Question,
    parameters: &Parameters,
    progress: impl Fn(usize, usize),
) -> Result<Vec<Forecast>, Refusal> {
    let pairs: Vec<(usize, usize)> = question
        .nodes
        .iter()
        .flat_map(|nodes| question.threads.iter().map(|threads| (*nodes, *threads)))
        .filter(|(nodes, threads)| *threads <= nodes * question.processors)
        .collect();
    if pairs.is_empty() {
        return Err(Refusal(format!(
            "no node has {} processors for so many threads; ask for more --nodes, more --processors or fewer --threads",
            question.processors
        )));
    }
    let all = pairs.len();
    let answer = |(at, (nodes, threads)): (usize, (usize, usize))| {
        progress(at, all);
        one(question, parameters, nodes, threads)
    };
    pairs.into_iter().enumerate().map(answer).collect()
}

fn one(
    question: &Question,
    parameters: &Parameters,
    nodes: usize,
    threads: usize,
) -> Result<Forecast, Refusal> {
    let draws = Draws::new(question.samples, parameters.all().len(), question.seed);
    let runs = parallel::map(question.samples, |index| {
        let models = models(question, parameters, (nodes, threads), (&draws, index));
        let [without, stocked, steady, sustained] = models;
        Ok([without.run()?, stocked.run()?, steady.run()?, sustained.run()?])
    })?;
    let of = |figure: &dyn Fn(&[Outcome; 4]) -> f64| {
        let values: Vec<f64> = runs.iter().map(figure).collect();
        interval(&values, HELD).unwrap_or_default()
    };
    // While all threads run: the last ones of a short run are alone.
    let rate = |outcome: &Outcome| outcome.faults_per_busy_s() * threads as f64;
    Ok(Forecast {
        threads,
        nodes,
        without_per_s: of(&|[without, ..]| rate(without)),
        stocked_per_s: of(&|[_, stocked, ..]| rate(stocked)),
        sustained_per_s: of(&|[.., sustained]| rate(sustained)),
        stocked_gain: of(&|[without, stocked, ..]| rate(stocked) / rate(without)),
        sustained_gain: of(&|[.., steady, sustained]| rate(sustained) / rate(steady)),
        hit_ratio: of(&|[.., sustained]| sustained.hit_ratio()),
        without_p99_ns: of(&|[without, ..]| without.p99_ns),
        stocked_p99_ns: of(&|[_, stocked, ..]| stocked.p99_ns),
    })
}

/// Two runs of one sample.
pub(super) struct Sample {
    /// Every fault clears its page.
    pub(super) without: Outcome,
    /// Every fault finds a zeroed page.
    pub(super) stocked: Outcome,
    /// Clearing one page, alone on its node.
    pub(super) clear_ns: f64,
}

/// The runs without prezeroing and with a stocked pool, of every sample of a question's first pair.
pub(super) fn first_two(question: &Question, parameters: &Parameters) -> Result<Vec<Sample>, Refusal> {
    let draws = Draws::new(question.samples, parameters.all().len(), question.seed);
    let pair = (question.nodes[0], question.threads[0]);
    parallel::map(question.samples, |index| {
        let [without, stocked, ..] = models(question, parameters, pair, (&draws, index));
        Ok(Sample { clear_ns: without.clear_ns, without: without.run()?, stocked: stocked.run()? })
    })
}

/// The four runs of one sample.
fn models(
    question: &Question,
    parameters: &Parameters,
    (nodes, threads): (usize, usize),
    (draws, index): (&Draws, usize),
) -> [Model; 4] {
    let mut sample = draws.sample(index);
    let mut take = |range| sample.take(range);
    let page_bytes = take(parameters.page_bytes);
    let speed = take(parameters.instructions_per_ns);
    let misses_ns = take(parameters.path_misses) * take(parameters.miss_ns);
    let path_ns = take(parameters.path_instructions) / speed + misses_ns;
    let lock_ns = take(parameters.lock_instructions) / speed;
    let free_ns = take(parameters.free_instructions) / speed;
    let mark_ns = take(parameters.mark_instructions) / speed;
    let batch = take(parameters.batch).round();
    let zone_ns = take(parameters.zone_instructions) / speed * batch;
    let moves = take(parameters.lock_moves);
    let (near_ns, far_ns) = (take(parameters.near_ns), take(parameters.far_ns));
    let clear_ns = page_bytes / take(parameters.clear_bytes_per_ns);
    let pages = (FAULTS / threads).max(LEAST_PAGES);
    let high = (take(parameters.recycled) * pages as f64) as u32;
    let steady = Model {
        threads: vec![Work::passes(PASSES, pages as u32); threads],
        has_barrier: false,
        unmaps_apart: false,
        pause_ns: 0.0,
        nodes,
        processors: question.processors,
        service: Service::Exponential,
        path_ns,
        clear_ns,
        touch_ns: take(parameters.line_ns) * f64::from(question.lines),
        free_ns,
        lock: Section { section_ns: lock_ns, near_ns: near_ns * moves, far_ns: far_ns * moves },
        lock_threads: if question.shares_vma { threads } else { 1 },
        zone: Zone {
            lock: Section { section_ns: zone_ns, near_ns, far_ns },
            batch: batch as u32,
            high,
            pages: room(threads.div_ceil(nodes), pages as u32, high + 2 * batch as u32),
            most_order: MOST_ORDER,
            zeroed: 0.0,
            is_apart: true,
            is_prefilled: true,
            dirty: 0,
        },
        saturation: Saturation::Streams(take(parameters.node_streams)),
        far_times: take(parameters.far_times),
        scrub: None,
        seed: question.seed.wrapping_add(index as u64),
    };
    let scrub = Scrub {
        per_node: take(parameters.scrubbers).round() as usize,
        start_order: SCRUB_ORDER,
        stop_order: SCRUB_ORDER,
        page_ns: page_bytes / take(parameters.scrub_bytes_per_ns),
        idle_share: take(parameters.idle_share),
        busy_share: take(parameters.busy_share),
        poll_ns: None,
    };
    let sustained = Model { path_ns: path_ns + mark_ns, scrub: Some(scrub), ..steady.clone() };
    let once = vec![Work::passes(1, pages as u32); threads];
    let without = Model { threads: once.clone(), ..steady.clone() };
    let zone = Zone { zeroed: 1.0, ..steady.zone };
    let stocked = Model { threads: once, zone, scrub: None, ..sustained.clone() };
    [without, stocked, steady, sustained]
}

/// Pages of a node: twice what its threads and their lists hold, in whole blocks.
fn room(threads: usize, pages: u32, lists: u32) -> u32 {
    let block = 1 << MOST_ORDER;
    (2 * threads as u32 * (pages + lists)).div_ceil(block) * block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(threads: &[usize], nodes: &[usize]) -> Question {
        Question {
            threads: threads.to_vec(),
            nodes: nodes.to_vec(),
            processors: 8,
            lines: 1,
            shares_vma: true,
            samples: 6,
            seed: 1,
        }
    }

    #[test]
    fn forecasts_are_ranges_and_repeat() {
        let parameters = Parameters::defaults().unwrap();
        let question = question(&[1, 8, 64], &[1, 8]);
        let found = forecast(&question, &parameters, |_, _| {}).unwrap();
        let pairs: Vec<_> = found.iter().map(|found| (found.nodes, found.threads)).collect();
        assert_eq!(pairs, [(1, 1), (1, 8), (8, 1), (8, 8), (8, 64)], "64 threads need 8 nodes");
        for found in &found {
            for range in [found.without_per_s, found.stocked_per_s, found.stocked_gain, found.without_p99_ns]
            {
                assert!(0.0 < range.low && range.low < range.high, "{found:?}");
            }
            assert!(found.stocked_gain.low > 0.9, "{found:?}");
            assert!(
                found.hit_ratio.high <= 1.0 && found.sustained_gain.high <= found.stocked_gain.high * 1.1
            );
        }
        assert_eq!(found, forecast(&question, &parameters, |_, _| {}).unwrap());
    }

    #[test]
    fn a_shared_vma_limits_many_threads() {
        let parameters = Parameters::defaults().unwrap();
        let shared = question(&[32], &[4]);
        let own = Question { shares_vma: false, ..shared.clone() };
        let rate = |question: &Question| forecast(question, &parameters, |_, _| {}).unwrap()[0].stocked_per_s;
        assert!(rate(&own).value > 1.3 * rate(&shared).value, "{:?} {:?}", rate(&own), rate(&shared));
    }

    #[test]
    fn too_many_threads_are_refused() {
        let parameters = Parameters::defaults().unwrap();
        let told = forecast(&question(&[512], &[1]), &parameters, |_, _| {}).unwrap_err().to_string();
        assert!(told.contains("fewer --threads"), "{told}");
    }
}
