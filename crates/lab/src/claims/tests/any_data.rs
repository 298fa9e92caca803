//! Every rule against data that its experiment can produce: none may be true, or false, whatever is measured.
//!
//! A draw fills the cells that a claim names with numbers from plausible ranges, log-uniform or steps of two, in eight
//! rounds. Draws have fixed seeds. Each rule that gives a verdict must reach both verdicts.

use std::collections::{BTreeMap, BTreeSet};

use faultless_trace::measurement::Rng;

use super::super::claim::Judge;
use super::*;
use crate::cell::Cell;

const PROCESSORS: usize = 16;
/// Draws within which a rule must reach both verdicts, and those of a claim that is not judged.
const DRAWS: u64 = 4000;
const FEW_DRAWS: u64 = 20;

/// Claims whose verdict no measurement can change: both recompute a column of the document from its own figures.
const CONSTANT: [&str; 2] = ["prezero-wall-column", "prezero-wall-column-lines"];

/// The parameters that an arm need not name.
fn defaults(experiment: &str) -> Vec<(String, String)> {
    let words = match experiment {
        "chunks" => "memory=pool workers=1 queue=8 chunks=932",
        "threshold" => "allocator=glibc kib=640",
        "touch" => "access=write mib=64 threads=1 lock=no mappers=0 flush=no",
        "copy" => "kind=copy mib=512 threads=1",
        "filemap" => "how=fault cache=warm mib=128 threads=1",
        "price" => "kind=touch page=base mib=64",
        "prefault" => "operations=1000000 mib=64",
        "phases" => "page=base threads=1 samples=10000",
        "fault-rate" => "arm=kernel mib=512 threads=1 lines=1",
        "zeroing" => "engine=cached from=cold order=0 mib=128",
        "latency" => "kib=16",
        "major" => "source=file beside=none mib=64",
        "stride" => "array=ones mib=256 stride=1",
        _ => "",
    };
    Cell::parse(experiment, words.split_whitespace()).unwrap().parameters
}

/// A number that depends on the draw and on what it is of.
struct Draw(u64);

impl Draw {
    fn random(&self, of: &str) -> Rng {
        let hash = of.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Rng::from_seed(hash ^ self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Log-uniform between two numbers, or, in half of the cases, the upper one over a power of two.
    fn between(&self, of: &str, low: f64, high: f64) -> f64 {
        let mut random = self.random(of);
        let mut share = || random.below(1 << 20) as f64 / f64::from(1 << 20);
        let octaves = (high / low).log2();
        let steps = share() * octaves;
        if share() < 0.5 { high / steps.round().exp2() } else { high / steps.exp2() }
    }

    /// One of these.
    fn one(&self, of: &str, values: &[f64]) -> f64 {
        values[self.random(of).below(values.len())]
    }

    /// A quantity of a phase of a cell.
    fn value(&self, cell: &Cell, phase: &str, quantity: &str) -> f64 {
        let of = format!("{cell} {phase} {quantity}");
        let bytes = cell.mib("mib").map_or(932.0 * 655_360.0, |bytes| bytes as f64);
        let pages = bytes / faultless_os::page::size() as f64;
        match quantity {
            "processors" => PROCESSORS as f64,
            "pages" => pages,
            "mapped_bytes" | "commit_limit_bytes" | "price_bytes" | "handed_out_bytes" => bytes,
            "resident_bytes" => bytes * self.one(&of, &[0.0, 0.001, 0.5, 1.0]),
            "most_committed_bytes" => self.between(&of, bytes / 4.0, 2.0 * bytes),
            "requested_bytes" => self.between(&of, bytes / 64.0, bytes),
            "is_commit_strict" => self.one(&of, &[0.0, 1.0]),
            "line_bytes" => self.one(&of, &[32.0, 64.0, 128.0, 256.0]),
            "page_bytes" => faultless_os::page::size() as f64,
            "loads" => 4e6,
            "cycles" => 100.0,
            "pages_per_cycle" => cell.kib("kib").unwrap() as f64 / faultless_os::page::size() as f64,
            "slabs" => 519.0,
            "slab_pages" => 256.0,
            "minor_faults" if cell.experiment == "threshold" => {
                self.value(cell, phase, "pages_per_cycle") * self.one(&of, &[0.0, 1.0, 50.0, 100.0])
            }
            "minor_faults" if cell.text("way").is_ok() => 132_864.0 / self.one(&of, &[1.0, 2.0, 512.0, 1e6]),
            "minor_faults" | "major_faults" => {
                pages * self.one(&of, &[0.0, 1.0 / 512.0, 1.0 / 16.0, 0.25, 0.5, 1.0, 2.0])
            }
            share if share.ends_with("_share") => self.between(&of, 0.01, 1.0),
            // A part of the CPU time.
            "system_ns" | "user_ns" => self.value(cell, phase, "cpu_ns") * self.between(&of, 0.25, 1.0),
            // With less than a quarter of a ns per page it would be a violation.
            _ if phase == "second" => self.between(&of, pages / 4.0, 256e6),
            // All times.
            _ => self.between(&of, 1e6, 256e6),
        }
    }

    /// Eight rounds. Counts are the same in each; times differ by up to 0.4 %.
    fn rows(&self, cell: &Cell, phase: &str, quantity: &str) -> Vec<Row> {
        let value = self.value(cell, phase, quantity);
        let noise = if quantity.ends_with("_ns") { 1.0 } else { 0.0 };
        let mut random = self.random(&format!("{cell} {phase} {quantity} noise"));
        let mut row = |round| {
            let noise = noise * (random.below(100) as f64 - 50.0) / 12_500.0;
            row(&cell.to_string(), round, phase, quantity, value * (1.0 + noise))
        };
        (1..=8).map(&mut row).collect()
    }
}

/// What a claim's rules read: cells, phases, quantities.
fn leaves(claim: &Claim, formulas: &[&Formula]) -> BTreeSet<(Cell, String, String)> {
    let arms = &claim.shared.arms;
    let mut leaves = BTreeSet::new();
    let examples = |arm: &str| arms[arm].examples(arms, PROCESSORS, &defaults);
    for formula in formulas {
        for arm in formula.arms() {
            // For a parameter the cell alone matters.
            leaves.extend(
                examples(arm).into_iter().map(|cell| (cell, "setup".to_owned(), "processors".to_owned())),
            );
        }
        for [arm, phase, quantity] in formula.leaves() {
            let phase = if phase == "every" { "timed" } else { phase };
            let quantity = match quantity {
                "thread_wall_ns" => "wall_ns",
                "thread_cpu_ns" => "cpu_ns",
                other => other,
            };
            leaves
                .extend(examples(arm).into_iter().map(|cell| (cell, phase.to_owned(), quantity.to_owned())));
        }
    }
    leaves
}

/// What the judges in code read.
fn leaves_in_code(experiment: &str) -> BTreeSet<(Cell, String, String)> {
    let cells: Vec<(String, &[(&str, &str)])> = match experiment {
        "scale" => ["interleaved", "shared", "own", "process"]
            .iter()
            .flat_map(|memory| [1, PROCESSORS].map(|threads| (memory, threads)))
            .map(|(memory, threads)| {
                format!("memory={memory} threads={threads} mib=64 writers=0 beside=none")
            })
            .map(|words| (words, &[("first", "wall_ns"), ("setup", "processors")][..]))
            .collect(),
        "chunks" => ["", " passes=4", " passes=16"]
            .iter()
            .flat_map(|passes| {
                [("pool", PROCESSORS), ("mmap", PROCESSORS), ("mmap", 1)].map(|(memory, workers)| {
                    format!("memory={memory} workers={workers} queue=8 chunks=932{passes}")
                })
            })
            .map(|words| {
                let price = [("price", "price_bytes"), ("price", "wall_ns")];
                (
                    words,
                    [&[("timed", "wall_ns"), ("timed", "processors")][..], &price].concat().leak() as &[_],
                )
            })
            .collect(),
        _ => ["glibc", "glibc-fixed", "jemalloc", "mimalloc", "tcmalloc"]
            .iter()
            .flat_map(|name| [128, 65_536].map(|kib| format!("allocator={name} kib={kib}")))
            .map(|words| {
                (words, &[("later", "minor_faults"), ("later", "cycles"), ("later", "pages_per_cycle")][..])
            })
            .collect(),
    };
    let of_cell = |(words, quantities): (String, &[(&str, &str)])| {
        let cell = Cell::parse(experiment, words.split_whitespace()).unwrap();
        let all = quantities
            .iter()
            .map(|(phase, quantity)| (cell.clone(), (*phase).to_owned(), (*quantity).to_owned()));
        all.collect::<Vec<_>>()
    };
    cells.into_iter().flat_map(of_cell).collect()
}

/// The verdicts that a rule reaches in so many draws; it stops once both of `wanted` were reached.
fn reached(
    draws: u64,
    leaves: &BTreeSet<(Cell, String, String)>,
    wanted: [Verdict; 2],
    judge: impl Fn(&Results) -> Finding,
) -> BTreeMap<&'static str, Finding> {
    let mut found = BTreeMap::new();
    for draw in (0..draws).map(Draw) {
        let rows = leaves.iter().flat_map(|(cell, phase, quantity)| draw.rows(cell, phase, quantity));
        let finding = judge(&Results::of(rows.collect()).unwrap());
        found.entry(finding.verdict.words()).or_insert(finding);
        if wanted.iter().all(|verdict| found.contains_key(verdict.words())) {
            break;
        }
    }
    found
}

/// The formulas of a claim's rules, and whether they give a verdict.
fn formulas(claim: &Claim) -> (Vec<&Formula>, bool) {
    let rules = &claim.rules;
    let (measures, is_judged): (Vec<&Formula>, bool) = match &rules.judge {
        Judge::Bounds(measure, _) => (vec![measure], true),
        Judge::Every(measures, _) => (measures.iter().collect(), true),
        Judge::Special(_) => (Vec::new(), true),
        Judge::NotComparable(measure) => (measure.iter().collect(), false),
        Judge::NotMeasured => (Vec::new(), false),
    };
    let conditions = rules.needs.iter().chain(&rules.no_verdict);
    let conditions = conditions.flat_map(|condition| [&condition.left, &condition.right]);
    (measures.into_iter().chain(conditions).collect(), is_judged)
}

#[test]
fn no_claim_is_true_or_false_for_all_data() {
    let mut stuck = Vec::new();
    for claim in all().unwrap() {
        let (formulas, is_judged) = formulas(&claim);
        let leaves = match &claim.rules.judge {
            Judge::Special(_) => leaves_in_code(&claim.experiment),
            _ => leaves(&claim, &formulas),
        };
        let wanted = [Verdict::Reproduced, Verdict::Refuted];
        let is_constant = CONSTANT.contains(&claim.id.as_str());
        let draws = if is_judged && !is_constant { DRAWS } else { FEW_DRAWS };
        let found = reached(draws, &leaves, wanted, |results| claim.judge(results));
        let count = wanted.iter().filter(|verdict| found.contains_key(verdict.words())).count();
        for finding in found.values().filter(|finding| finding.verdict == Verdict::CannotSay) {
            assert!(finding.why.contains("decided by"), "{} {}", claim.id, finding.why);
        }
        match (is_judged, is_constant) {
            (false, _) => assert_eq!(count, 0, "{}", claim.id),
            (true, true) => assert_eq!(count, 1, "{}", claim.id),
            (true, false) if count < 2 => {
                stuck.push((claim.id.clone(), found.into_keys().collect::<Vec<_>>()))
            }
            (true, false) => {}
        }
    }
    assert!(stuck.is_empty(), "{stuck:#?}");
}
