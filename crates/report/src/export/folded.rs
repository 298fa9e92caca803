//! Folded stacks: `process;thread;root;...;leaf WEIGHT`, one line per stack, sorted.
//!
//! The weight is a whole number, ns or faults. All weights add up to the whole. Stacks of weight 0 are left
//! out. The format can't escape `;`, so `;` in a name becomes `:`. Control characters are replaced. Format:
//! <https://github.com/brendangregg/FlameGraph>.

use std::collections::BTreeMap;
use std::io::{self, Write};

use faultless_trace::profile::Profile;
use faultless_trace::recording::Recording;

use super::{Rounding, Weight, names};
use crate::text::plain;

/// The frame of faults whose stack was not recorded.
const NO_STACK: &str = "[no stack]";

/// Writes the stacks of all faults.
///
/// # Errors
/// `out` fails.
pub fn write(
    recording: &Recording,
    profile: &Profile,
    weight: Weight,
    out: &mut dyn Write,
) -> io::Result<()> {
    let processes = names::processes(recording, profile);
    let mut sums: BTreeMap<(u32, u32, Option<u32>), f64> = BTreeMap::new();
    for fault in profile.faults.iter().chain(&profile.unplaced()) {
        *sums.entry((fault.pid, fault.tid, fault.stack)).or_default() += weight.of(fault);
    }
    let mut lines: BTreeMap<String, f64> = BTreeMap::new();
    for ((pid, tid, stack), sum) in sums {
        let (process, thread) = names::of(&processes, pid, tid);
        let mut parts = vec![word(process), word(thread)];
        let labels = stack.map(|stack| recording.stacks.labels(stack)).unwrap_or_default();
        parts.extend(labels.iter().rev().map(|label| word(label)));
        if labels.is_empty() {
            parts.push(NO_STACK.to_owned());
        }
        *lines.entry(parts.join(";")).or_default() += sum;
    }
    let mut rounding = Rounding::default();
    for (line, sum) in lines {
        match rounding.next(sum) {
            0 => {}
            weight => writeln!(out, "{line} {weight}")?,
        }
    }
    Ok(())
}

fn word(name: &str) -> String {
    if name.is_empty() { "[unnamed]".to_owned() } else { plain(name).replace(';', ":") }
}
