//! Kernel stacks of recordings before and after -> the kernel's functions that were added, removed, grown or
//! shrunk, by their share of the time in faults. Only root's recordings have kernel stacks.
//!
//! A sample of the CPU clock counts for the innermost function of its stack, if the stack is in the fault path and
//! not in perf, which is the recorder's own. Shares of one side add up to 1. A share has a sampling error (Agresti &
//! Coull 1998), and is judged as rows of the program are (`spread`). A function that one side never has is added or
//! removed for certain, if the other lets enough hits be expected.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::judge::{Compared, compare};
use super::spread::{Spread, Value, common_spread};
use super::{Class, Pair, Run, comparable};
use crate::findings::{FaultPath, bare};
use crate::measurement::Count;
use crate::tuning::{
    DIFF_APPEARED_FAULTS, DIFF_ERROR, DIFF_KERNEL_SAMPLES, DIFF_KERNEL_SPREAD, DIFF_PRIOR_RUNS,
};

/// One recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelSide {
    /// The command.
    pub command: Vec<String>,
    /// The kernel's version.
    pub kernel: String,
    /// Samples in the fault path, without those inside perf.
    pub samples: u64,
}

/// A function of the kernel before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelRow {
    /// Its name, without what the compiler appended.
    pub function: String,
    /// What became of its share.
    pub class: Class,
    /// Its share of the time in faults, 0 to 1.
    pub share: Pair,
}

/// The kernel's functions before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelDiff {
    /// Version of this document.
    pub schema: u32,
    /// Least difference of a share that counts.
    pub threshold: f64,
    /// Probability that the intervals of all differences hold at once.
    pub confidence: f64,
    /// The recordings before.
    pub before: Vec<KernelSide>,
    /// The recordings after.
    pub after: Vec<KernelSide>,
    /// What differs most first.
    pub functions: Vec<KernelRow>,
    /// Why the figures may not be comparable, a sentence each.
    pub warnings: Vec<String>,
}

/// Samples in the fault path by function, and their sum.
#[derive(Clone, Debug, Default)]
struct Sampled {
    functions: BTreeMap<String, u64>,
    total: u64,
}

/// The share of a function in each run.
type Shares = Vec<Value>;

impl KernelDiff {
    /// Version of the JSON document.
    pub const SCHEMA: u32 = 1;

    /// Compares the kernel's functions in recordings from before and after a change. `threshold`: the smallest
    /// difference of a share that is reported.
    ///
    /// # Errors
    /// An empty side, or a recording with too few samples in the fault path.
    pub fn new(before: &[Run], after: &[Run], threshold: f64) -> Result<Self, String> {
        comparable::check_sides(before, after)?;
        let sampled = |runs: &[Run], which| -> Result<Vec<Sampled>, String> {
            runs.iter()
                .enumerate()
                .map(|(at, run)| Sampled::of(run, &format!("{which} {}", at + 1)))
                .collect()
        };
        let sides = [sampled(before, "before")?, sampled(after, "after")?];
        let names: BTreeSet<&String> = sides.iter().flatten().flat_map(|run| run.functions.keys()).collect();
        let shares =
            |name: &str| [0, 1].map(|side| sides[side].iter().map(|run| run.share(name)).collect::<Shares>());
        let rows: Vec<(&String, [Shares; 2])> = names.into_iter().map(|name| (name, shares(name))).collect();
        let could_count: Vec<&[Shares; 2]> = rows
            .iter()
            .map(|row| &row.1)
            .filter(|sides| sides.iter().flatten().any(|run| run.0 >= threshold))
            .collect();
        let judge = Judge {
            threshold,
            allowed: common_spread(could_count.iter().copied().flatten()).max(DIFF_KERNEL_SPREAD),
            tail: DIFF_ERROR / 2.0 / could_count.len().max(1) as f64,
            samples: [0, 1].map(|side| sides[side].iter().map(|run| run.total).min().unwrap_or(0)),
        };
        let mut functions: Vec<KernelRow> =
            rows.iter().map(|(name, sides)| judge.row((*name).clone(), sides)).collect();
        let size = |row: &KernelRow| (row.class != Class::Unchanged, row.share.difference.value.abs());
        functions.sort_by(|a, b| {
            let order = size(b).partial_cmp(&size(a)).unwrap_or(std::cmp::Ordering::Equal);
            order.then_with(|| a.function.cmp(&b.function))
        });
        let shown = |runs: &[Run], sampled: &[Sampled]| runs.iter().zip(sampled).map(side).collect();
        Ok(Self {
            schema: Self::SCHEMA,
            threshold,
            confidence: 1.0 - DIFF_ERROR,
            before: shown(before, &sides[0]),
            after: shown(after, &sides[1]),
            functions,
            warnings: comparable::warnings(before, after, true),
        })
    }

    /// How many functions are of a class.
    pub fn count(&self, class: Class) -> usize {
        self.functions.iter().filter(|row| row.class == class).count()
    }
}

impl Sampled {
    fn of(run: &Run, name: &str) -> Result<Self, String> {
        let mut sampled = Self::default();
        for (stack, count) in FaultPath::of(&run.recording).into_iter().flat_map(|path| path.stacks) {
            let Some(leaf) = stack.first() else { continue };
            *sampled.functions.entry(bare(leaf).to_owned()).or_default() += count;
            sampled.total += count;
        }
        if sampled.total < DIFF_KERNEL_SAMPLES {
            return Err(format!(
                "recording {name} has {} of the kernel in page faults, {DIFF_KERNEL_SAMPLES} are needed; record as root, \
                 longer or with a higher --frequency",
                Count(sampled.total).of("sample")
            ));
        }
        Ok(sampled)
    }

    /// A function's share. Two more hits and two more misses give a share of 0 a width.
    fn share(&self, function: &str) -> Value {
        const MORE: f64 = 4.0;
        let (hits, total) =
            (self.functions.get(function).map_or(0.0, |hits| *hits as f64), self.total as f64);
        let wide = (hits + MORE / 2.0) / (total + MORE);
        (hits / total, [(wide * (1.0 - wide) / (total + MORE)).sqrt(); 2])
    }
}

/// How shares are judged.
struct Judge {
    threshold: f64,
    /// Allowed relative standard deviation from run to run.
    allowed: f64,
    /// Probability beyond one end of the interval of a difference.
    tail: f64,
    /// Samples of the smallest run of each side.
    samples: [u64; 2],
}

impl Judge {
    fn row(&self, function: String, sides: &[Shares; 2]) -> KernelRow {
        let allowed = |mean: f64| (self.allowed * mean).powi(2);
        let spreads = sides.each_ref().map(|side| Spread::new(side, allowed, DIFF_PRIOR_RUNS));
        let Compared { pair, judged } = compare(&spreads, self.tail);
        let is_seen = sides.each_ref().map(|side| side.iter().any(|run| run.0 > 0.0));
        // No variation of a share explains that one side has no hit where the other lets many be expected.
        let expected = |of: usize, on: usize| {
            let least = sides[of].iter().map(|run| run.0).fold(f64::INFINITY, f64::min);
            least * (1.0 - 3.0 * DIFF_KERNEL_SPREAD) * self.samples[on] as f64
        };
        let is_total = match is_seen {
            [false, true] => expected(1, 0) >= DIFF_APPEARED_FAULTS,
            [true, false] => expected(0, 1) >= DIFF_APPEARED_FAULTS,
            _ => false,
        };
        let is_sure = is_total || judged.low > 0.0 || judged.high < 0.0;
        let difference = pair.difference.value;
        let significant = is_sure && difference.abs() >= self.threshold;
        let class = Class::of(is_seen, significant, difference > 0.0);
        KernelRow { function, class, share: Pair { significant, ..pair } }
    }
}

fn side((run, sampled): (&Run, &Sampled)) -> KernelSide {
    let header = &run.recording.header;
    KernelSide { command: header.command.clone(), kernel: header.host.kernel.clone(), samples: sampled.total }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Rng;
    use crate::observation::KernelSamples;
    use crate::recording::Recording;

    type Weights = [(&'static str, usize); 5];

    /// A recording of `samples` samples, drawn from functions with these weights, which add up to 100.
    fn run(functions: &Weights, samples: u64, seed: u64) -> Run {
        let mut random = Rng::from_seed(seed);
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for _ in 0..samples {
            let mut at = random.below(100);
            for (name, weight) in functions {
                match at.checked_sub(*weight) {
                    Some(left) => at = left,
                    None => {
                        *counts.entry(name).or_default() += 1;
                        break;
                    }
                }
            }
        }
        let stack = |leaf: &str| [leaf, "handle_mm_fault", "exc_page_fault"].map(str::to_owned).to_vec();
        let mut stacks: Vec<(Vec<String>, u64)> =
            counts.into_iter().map(|(leaf, count)| (stack(leaf), count)).collect();
        // Neither of these is the kernel's work on a fault.
        stacks.push((stack("perf_output_copy"), samples));
        stacks.push((vec!["zap_pte_range".to_owned(), "__x64_sys_munmap".to_owned()], samples));
        let mut recording = Recording::default();
        recording.observation.kernel =
            Some(KernelSamples { period_ns: 1_000_000, total: 9 * samples, stacks });
        Run { recording, ..Run::default() }
    }

    const OLD: Weights =
        [("clear_page_erms", 60), ("mt_find", 6), ("down_read.part.0", 8), ("mas_walk", 2), ("rmqueue", 24)];
    const NEW: Weights = [
        ("clear_page_erms", 60),
        ("lock_vma_under_rcu", 6),
        ("mas_walk", 8),
        ("rmqueue", 24),
        ("down_read", 2),
    ];

    fn named(diff: &KernelDiff) -> Vec<(&str, Class)> {
        let changed = diff.functions.iter().filter(|row| row.class != Class::Unchanged);
        let mut named: Vec<_> = changed.map(|row| (row.function.as_str(), row.class)).collect();
        named.sort_by_key(|row| row.0);
        named
    }

    #[test]
    fn functions_that_were_added_removed_grown_and_shrunk_are_named() {
        let runs = |functions, from: u64| (from..from + 3).map(|seed| run(functions, 20_000, seed)).collect();
        let (before, after): (Vec<Run>, Vec<Run>) = (runs(&OLD, 1), runs(&NEW, 5));
        let found = KernelDiff::new(&before, &after, 0.01).unwrap();
        let expected = [
            ("down_read", Class::Shrunk),
            ("lock_vma_under_rcu", Class::Added),
            ("mas_walk", Class::Grown),
            ("mt_find", Class::Removed),
        ];
        assert_eq!(named(&found), expected);
        assert_eq!((found.before[0].samples, found.count(Class::Unchanged)), (20_000, 2));
        // One recording a side tells what is new or gone, and no change that runs of one kernel may show.
        let one = KernelDiff::new(&before[..1], &after[..1], 0.01).unwrap();
        assert_eq!(named(&one), [expected[1], expected[3]]);
        let sum: f64 = found.functions.iter().map(|row| row.share.before.value).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let added = one.functions.iter().find(|row| row.class == Class::Added).unwrap();
        assert!(added.share.difference.low > 0.04 && added.share.difference.high < 0.08, "{added:?}");
    }

    #[test]
    fn too_few_samples_are_refused_with_the_remedy() {
        let (enough, few) = (run(&OLD, 500, 1), run(&OLD, 499, 2));
        let one = std::slice::from_ref(&enough);
        assert!(KernelDiff::new(one, one, 0.01).is_ok());
        let told = KernelDiff::new(one, &[enough.clone(), few], 0.01).unwrap_err();
        assert!(told.contains("after 2 has 499 samples") && told.contains("as root"), "{told}");
        let told = KernelDiff::new(&[Run::default()], &[enough], 0.01).unwrap_err();
        assert!(told.contains("before 1 has 0 samples"), "{told}");
    }
}
