//! Samples of the CPU clock in the kernel's fault path -> stacks of its functions, coloured as work or lock.

use std::collections::{BTreeMap, BTreeSet};

use faultless_trace::findings::{FaultPath, bare};
use faultless_trace::measurement::Percent;
use faultless_trace::stat::phase_of_function;
use inferno::flamegraph::color::Color;

use super::colour::Legend;

/// What a function of the fault path is drawn as: word and colour.
const PARTS: [(&str, [u8; 3]); 3] =
    [("locks", [226, 116, 106]), ("zeroing and copying", [136, 199, 140]), ("other work", [132, 174, 222])];

/// Index in [`PARTS`].
fn part(function: &str) -> usize {
    match phase_of_function(function) {
        Some("locks") => 0,
        Some("zeroing") => 1,
        _ => 2,
    }
}

/// The fault path of a recording, folded.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelFold {
    /// Functions, from the entry of the fault on, with their CPU time, ns.
    pub(super) stacks: BTreeMap<Vec<String>, f64>,
    pub(super) samples: u64,
    /// Samples whose innermost function is of each part.
    by_part: [u64; PARTS.len()],
}

impl KernelFold {
    pub(super) fn new(path: &FaultPath, inverted: bool) -> Self {
        let mut fold = Self::default();
        for (functions, count) in &path.stacks {
            let Some(leaf) = functions.first() else { continue };
            fold.by_part[part(leaf)] += count;
            fold.samples += count;
            let names = functions.iter().map(|function| super::fold::clean(bare(function)));
            let names: Vec<String> = if inverted { names.collect() } else { names.rev().collect() };
            *fold.stacks.entry(names).or_default() += *count as f64 * path.period_ns as f64;
        }
        fold
    }

    pub(super) fn colours(&self) -> Vec<(String, Color)> {
        let names = self.stacks.keys().flatten();
        let of = |name: &String| {
            let [r, g, b] = PARTS[part(name)].1;
            (name.clone(), Color { r, g, b })
        };
        names.collect::<BTreeSet<_>>().into_iter().map(of).collect()
    }

    pub(super) fn legend() -> Legend {
        Legend(PARTS.iter().map(|(word, colour)| (*colour, *word)).collect())
    }

    /// `locks 3 %, zeroing and copying 54 %, other work 43 %`, by the innermost functions.
    pub(super) fn parts(&self) -> String {
        let share = |count: u64| count as f64 / self.samples.max(1) as f64;
        let parts = PARTS.iter().zip(self.by_part);
        parts
            .map(|((word, _), count)| format!("{word} {}", Percent(share(count))))
            .collect::<Vec<_>>()
            .join(", ")
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
                stack(&format!("native_queued_spin_lock_slowpath _raw_spin_lock {fault}"), 3),
                stack(fault, 1),
            ],
        };
        let fold = KernelFold::new(&path, false);
        assert_eq!(fold.samples, 10);
        assert_eq!(fold.parts(), "locks 30 %, zeroing and copying 60 %, other work 10 %");
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
