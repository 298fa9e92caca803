//! Where faults of several threads wait for each other, by the arrangements of `scale`.
//!
//! Each arrangement is compared with itself with one thread, and then with the next, which shares one lock less.
//! The time that is lost between two arrangements is lost at that lock.

use std::fmt::Write;

use faultless_trace::stat::Interval;

use crate::claims::arm::processors;
use crate::claims::finding::{Bounds, Finding, MORE_ROUNDS, Side, decided_by, short, with_interval};
use crate::claims::rounds::Rounds;
use crate::results::Results;
use crate::sample::OWN_WALL;

/// From here on a step counts as waiting.
const WAITS: f64 = 1.25;

/// Arrangements, from the one that shares most, and what each shares more than the next.
const STEPS: [(&str, &str); 3] = [
    ("interleaved", "the page-table lock"),
    ("shared", "the VMA lock"),
    ("own", "the address space: the mmap lock before Linux 6.4, its counters since"),
];

/// A process-wide lock: threads with mappings of their own wait where processes do not.
pub(super) fn judge(results: &Results) -> Option<Finding> {
    let processors = processors(results, "scale")?;
    if processors < 2.0 {
        let why = "one processor: threads wait for it, not for each other";
        return Some(Finding::unknown(decided_by(why, "two processors or more")));
    }
    let count = (processors as usize).to_string();
    let slow = |memory| slowdowns(results, memory, &count).filter(|found| !found.is_empty());
    let alone = slow("process")?.interval()?;
    let mut why = format!("{count} threads over one: ");
    let mut locks = Vec::new();
    let mut last = None;
    for (index, &(memory, lock)) in STEPS.iter().enumerate() {
        let next = STEPS.get(index + 1).map_or("process", |step| step.0);
        let here = slow(memory)?;
        let _ = write!(why, "{memory} {}, ", short(here.median()?));
        let step = here.ratio(&slow(next)?).interval()?;
        locks.extend((step.low > WAITS).then_some(lock));
        last = Some(step);
    }
    let step = last?;
    let _ = write!(why, "processes {} times; ", short(alone.value));
    if alone.low > WAITS {
        locks.push("the machine: the zone lock, memory bandwidth or the hypervisor");
    }
    match locks.as_slice() {
        [] => why.push_str("no step of 1.25 is certain"),
        locks => {
            let _ = write!(why, "waits at {}", locks.join(" and at "));
        }
    }
    if let Some(found) = beside_writers(results) {
        let found = with_interval(&found, "times");
        let _ = write!(
            why,
            "; beside a thread that maps and unmaps a touch takes {found} what it takes beside a process"
        );
    }
    let bounds = Bounds { low: WAITS, high: f64::MAX };
    let side = bounds.side(&step);
    if side == Side::Across {
        let _ = write!(why, "; {}", MORE_ROUNDS);
    }
    let ours = with_interval(&step, "times what processes take");
    Some(Finding { verdict: side.verdict(), ours, why })
}

/// By round: the time of `count` threads over the time of one, each with the same amount of memory.
fn slowdowns(results: &Results, memory: &str, count: &str) -> Option<Rounds> {
    let of = |threads| wall(results, &[("memory", memory), ("threads", threads), ("writers", "0")]);
    Some(of(count)?.ratio(&of("1")?))
}

/// One thread that touches, beside one thread that maps and unmaps, over the same beside a process.
fn beside_writers(results: &Results) -> Option<Interval> {
    let of =
        |beside| wall(results, &[("memory", "own"), ("threads", "1"), ("writers", "1"), ("beside", beside)]);
    of("threads")?.ratio(&of("processes")?).interval()
}

/// Wall times of the cell of the largest size.
fn wall(results: &Results, wanted: &[(&str, &str)]) -> Option<Rounds> {
    let cells = results.cells("scale");
    let cells = cells.filter(|(cell, _)| wanted.iter().all(|(name, value)| cell.text(name) == Ok(value)));
    let (cell, _) = cells.max_by_key(|(cell, _)| cell.number("mib").unwrap_or(0))?;
    Rounds::of(results, cell, "first", &[OWN_WALL, "wall_ns"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;
    use faultless_trace::verdict::Verdict;

    fn judged(results: &Results) -> Finding {
        judge(results).unwrap_or_else(|| Finding::unknown("not measured"))
    }

    /// Four rounds in which two threads take so many times what one takes.
    fn results(slowdowns: [(&str, f64); 4]) -> Results {
        let mut rows = Vec::new();
        for (memory, slowdown) in slowdowns {
            for (threads, ns) in [(1, 100.0), (2, 100.0 * slowdown)] {
                for round in 1..=4 {
                    let row = |phase: &str, quantity: &str, value| Row {
                        experiment: "scale".into(),
                        cell: format!("memory={memory} threads={threads} mib=1 writers=0 beside=none"),
                        round,
                        phase: phase.into(),
                        quantity: quantity.into(),
                        value,
                    };
                    rows.push(row("first", "wall_ns", ns + f64::from(round)));
                    rows.push(row("setup", "processors", 2.0));
                }
            }
        }
        Results::of(rows).unwrap()
    }

    #[test]
    fn the_lock_is_named_where_the_time_is_lost() {
        let found = judged(&results([("interleaved", 2.0), ("shared", 2.0), ("own", 2.0), ("process", 1.0)]));
        assert_eq!(found.verdict, Verdict::Reproduced, "{found:?}");
        assert!(
            found.why.contains("waits at the address space") && !found.why.contains("VMA"),
            "{}",
            found.why
        );
        let found = judged(&results([("interleaved", 2.0), ("shared", 1.0), ("own", 1.0), ("process", 1.0)]));
        assert_eq!(found.verdict, Verdict::Refuted, "{found:?}");
        assert!(found.why.contains("waits at the page-table lock"), "{}", found.why);
    }

    #[test]
    fn what_processes_lose_too_is_not_the_process() {
        let found = judged(&results([("interleaved", 1.9), ("shared", 1.9), ("own", 1.9), ("process", 1.9)]));
        assert_eq!(found.verdict, Verdict::Refuted, "{found:?}");
        assert!(found.why.contains("waits at the machine"), "{}", found.why);
    }

    #[test]
    fn without_all_arrangements_nothing_is_said() {
        let mut rows = results([("shared", 1.0), ("own", 1.0), ("process", 1.0), ("other", 1.0)]);
        assert_eq!(judged(&rows).verdict, Verdict::CannotSay);
        rows = Results::default();
        assert_eq!(judged(&rows).verdict, Verdict::CannotSay);
    }
}
