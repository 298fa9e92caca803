//! Samples of the CPU clock in the kernel's fault path -> stacks of its functions, coloured as work or lock.

use std::collections::{BTreeMap, BTreeSet};

use faultless_trace::findings::{FaultPath, bare};
use faultless_trace::measurement::Percent;
use faultless_trace::stat::{LOCKS, lock_of, phase_of_function, phase_of_stack};
use inferno::flamegraph::color::Color;
use serde_json::{Value, json};

use super::colour::Legend;

/// What a function of the fault path is drawn as: word and colour.
const PARTS: [(&str, [u8; 3]); 3] =
    [("locks", [226, 116, 106]), ("zeroing and copying", [136, 199, 140]), ("other work", [132, 174, 222])];

/// The parts' names in JSON.
const NAMES: [&str; PARTS.len()] = ["locks", "zeroing", "other"];

/// Those of [`LOCKS`].
const LOCK_NAMES: [&str; LOCKS.len()] =
    ["mmap_lock", "page_table_lock", "zone_lock", "lru_lock", "other_lock"];

/// Index in [`PARTS`].
fn part(phase: &str) -> usize {
    NAMES.iter().position(|name| *name == phase).unwrap_or(PARTS.len() - 1)
}

/// The fault path of a recording, folded.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelFold {
    /// Functions, from the entry of the fault on, with their CPU time, ns.
    pub(super) stacks: BTreeMap<Vec<String>, f64>,
    pub(super) samples: u64,
    /// Samples of each part, sorted as the phases of `stat` are.
    by_part: [u64; PARTS.len()],
    /// Those at locks, by lock.
    by_lock: [u64; LOCKS.len()],
    /// The same by innermost function. A function whose name does not tell has the colour of most of its samples.
    by_leaf: BTreeMap<String, [u64; PARTS.len()]>,
}

impl KernelFold {
    pub(super) fn new(path: &FaultPath, inverted: bool) -> Self {
        let mut fold = Self::default();
        for (functions, count) in &path.stacks {
            if functions.is_empty() {
                continue;
            }
            let part = part(phase_of_stack(functions));
            fold.by_part[part] += count;
            if let Some(lock) = lock_of(functions) {
                fold.by_lock[lock] += count;
            }
            fold.samples += count;
            let leaf = super::fold::clean(bare(&functions[0]));
            fold.by_leaf.entry(leaf).or_default()[part] += count;
            let names = functions.iter().map(|function| super::fold::clean(bare(function)));
            let names: Vec<String> = if inverted { names.collect() } else { names.rev().collect() };
            *fold.stacks.entry(names).or_default() += *count as f64 * path.period_ns as f64;
        }
        fold
    }

    pub(super) fn colours(&self) -> Vec<(String, Color)> {
        let names = self.stacks.keys().flatten();
        let of = |name: &String| {
            let mostly = |counts: &[u64; PARTS.len()]| (0..PARTS.len()).max_by_key(|&part| counts[part]);
            let by_samples = || self.by_leaf.get(name).and_then(mostly).unwrap_or(PARTS.len() - 1);
            let [r, g, b] = PARTS[phase_of_function(name).map_or_else(by_samples, part)].1;
            (name.clone(), Color { r, g, b })
        };
        names.collect::<BTreeSet<_>>().into_iter().map(of).collect()
    }

    pub(super) fn legend() -> Legend {
        Legend(PARTS.iter().map(|(word, colour)| (*colour, *word)).collect())
    }

    /// `locks 3 %, zeroing and copying 54 %, other work 43 %`.
    pub(super) fn parts(&self) -> String {
        let parts = PARTS.iter().zip(self.by_part);
        let parts = parts.map(|((word, _), count)| format!("{word} {}", Percent(self.share(count))));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// `page-table lock 1 %, zone lock 2 %`: the locks that were met, if any.
    pub(super) fn locks(&self) -> String {
        let met = LOCKS.iter().zip(self.by_lock).filter(|(_, count)| *count > 0);
        let met = met.map(|(name, count)| format!("{name} {}", Percent(self.share(count))));
        met.collect::<Vec<_>>().join(", ")
    }

    /// The same as JSON: samples and share of each part, and of each lock.
    pub(super) fn parts_json(&self) -> [Value; 2] {
        let of = |names: &[&str], counts: &[u64]| -> Value {
            let one = |(name, count): (&&str, &u64)| {
                ((*name).to_owned(), json!({ "samples": count, "share": self.share(*count) }))
            };
            Value::Object(names.iter().zip(counts).map(one).collect())
        };
        [of(&NAMES, &self.by_part), of(&LOCK_NAMES, &self.by_lock)]
    }

    fn share(&self, count: u64) -> f64 {
        count as f64 / self.samples.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &str, count: u64) -> (Vec<String>, u64) {
        (functions.split(' ').map(str::to_owned).collect(), count)
    }

    #[test]
    fn samples_are_work_or_locks_from_the_entry_to_the_innermost_function() {
        let fault = "handle_mm_fault exc_page_fault asm_exc_page_fault";
        let path = FaultPath {
            period_ns: 1_000,
            stacks: vec![
                stack(&format!("clear_page_erms clear_huge_page.constprop.0 {fault}"), 6),
                stack(&format!("native_queued_spin_lock_slowpath _raw_spin_lock {fault}"), 2),
                stack(&format!("mas_walk lock_vma_under_rcu {fault}"), 1),
                stack(fault, 1),
            ],
        };
        let fold = KernelFold::new(&path, false);
        assert_eq!(fold.samples, 10);
        let colour = |name: &str| fold.colours().into_iter().find(|(own, _)| own == name).unwrap().1;
        let red = PARTS[0].1;
        assert_eq!(
            colour("mas_walk"),
            Color { r: red[0], g: red[1], b: red[2] },
            "as the lock that it is under"
        );
        assert_eq!(fold.parts(), "locks 30 %, zeroing and copying 60 %, other work 10 %");
        assert_eq!(fold.locks(), "mmap and VMA lock 10 %, other lock 20 %");
        let [parts, locks] = fold.parts_json();
        assert_eq!(parts["zeroing"], json!({ "samples": 6, "share": 0.6 }));
        assert_eq!(locks["other_lock"]["samples"], 2);
        let names: Vec<String> = fold.stacks.keys().map(|names| names.join(" ")).collect();
        assert!(
            names.iter().all(|names| names.starts_with("asm_exc_page_fault exc_page_fault")),
            "{names:?}"
        );
        assert!(names.iter().any(|names| names.ends_with("clear_huge_page clear_page_erms")), "{names:?}");
        assert_eq!(fold.stacks.values().sum::<f64>(), 10_000.0);
        let inverted = KernelFold::new(&path, true);
        assert!(inverted.stacks.keys().any(|names| names[0] == "clear_page_erms"));
    }
}
