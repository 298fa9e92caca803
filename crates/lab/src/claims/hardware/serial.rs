//! Where faults of several threads wait for each other, as far as the arrangements of `scale` tell.
//!
//! Each arrangement is held against itself with one thread, and then against the one that shares a lock less: what is lost
//! from one to the next is lost at what the next does not share.

use std::fmt::Write;

use faultless_trace::measurement;
use faultless_trace::stat::Interval;

use super::judge::{self, Parameters};
use crate::claims::{Finding, NOT_MEASURED, Verdict, short, with_interval};
use crate::results::Results;

/// From here on a step counts as waiting.
const WAITS: f64 = 1.25;

/// Arrangements, from the one that shares most, and what each shares more than the next.
const STEPS: [(&str, &str); 3] = [
    ("interleaved", "the page-table lock"),
    ("shared", "the VMA lock"),
    ("own", "the address space: the mmap lock before Linux 6.4, its counters since"),
];

/// A process-wide lock: threads with mappings of their own wait where processes do not.
pub(super) fn judge(results: &Results) -> Finding {
    let Some(processors) = judge::processors(results, "scale") else { return Finding::unknown(NOT_MEASURED) };
    if processors < 2.0 {
        return Finding::unknown("one processor: threads wait for it, not for each other");
    }
    let count = (processors as usize).to_string();
    let slow = |memory| slowdowns(results, memory, &count).filter(|found| !found.is_empty());
    let Some(apart) = slow("process") else { return Finding::unknown(NOT_MEASURED) };
    let mut why = format!("{count} threads over one: ");
    let mut places = Vec::new();
    let (mut verdict, mut ours) = (Verdict::CannotSay, String::new());
    for (index, &(memory, place)) in STEPS.iter().enumerate() {
        let next = STEPS.get(index + 1).map_or("process", |step| step.0);
        let (Some(here), Some(beyond)) = (slow(memory), slow(next)) else {
            return Finding::unknown(NOT_MEASURED);
        };
        let _ = write!(why, "{memory} {}, ", short(measurement::median(&here).unwrap_or(0.0)));
        let Some(step) = judge::over(&here, &beyond) else { return Finding::unknown(NOT_MEASURED) };
        if step.low > WAITS {
            places.push(place);
        }
        if next == "process" {
            verdict = decided(&step);
            ours = with_interval(&step, 1.0, "times what processes take");
        }
    }
    let alone = measurement::median_interval(&apart);
    let _ = write!(why, "processes {} times; ", alone.map_or("-".into(), |found| short(found.value)));
    if alone.is_some_and(|found| found.low > WAITS) {
        places.push("the machine: the zone lock, memory bandwidth or the hypervisor");
    }
    match places.as_slice() {
        [] => why.push_str("no step of 1.25 is certain"),
        places => {
            let _ = write!(why, "waits at {}", places.join(" and at "));
        }
    }
    if let Some(found) = beside_writers(results) {
        let found = with_interval(&found, 1.0, "times");
        let _ = write!(
            why,
            "; beside a thread that maps and unmaps a touch takes {found} what it takes beside a process"
        );
    }
    Finding { verdict, ours, why }
}

fn decided(step: &Interval) -> Verdict {
    match () {
        () if step.low > WAITS => Verdict::Reproduced,
        () if step.high < WAITS => Verdict::Refuted,
        () => Verdict::CannotSay,
    }
}

/// By round: the time of `count` threads over that of one, each with the same amount of memory.
fn slowdowns(results: &Results, memory: &str, count: &str) -> Option<Vec<f64>> {
    let of = |threads| wall(results, &[("memory", memory), ("threads", threads), ("writers", "0")]);
    Some(judge::quotients(of(count)?, of("1")?))
}

/// One thread that touches, beside one thread that maps and unmaps, over the same beside a process.
fn beside_writers(results: &Results) -> Option<Interval> {
    let of =
        |beside| wall(results, &[("memory", "own"), ("threads", "1"), ("writers", "1"), ("beside", beside)]);
    judge::over(of("threads")?, of("processes")?)
}

fn wall<'a>(results: &'a Results, wanted: Parameters) -> Option<&'a [f64]> {
    judge::largest(results, "scale", wanted).map(|found| judge::samples(found, "first", "wall_ns"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

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
        let found = judge(&results([("interleaved", 2.0), ("shared", 2.0), ("own", 2.0), ("process", 1.0)]));
        assert_eq!(found.verdict, Verdict::Reproduced, "{found:?}");
        assert!(
            found.why.contains("waits at the address space") && !found.why.contains("VMA"),
            "{}",
            found.why
        );
        let found = judge(&results([("interleaved", 2.0), ("shared", 1.0), ("own", 1.0), ("process", 1.0)]));
        assert_eq!(found.verdict, Verdict::Refuted, "{found:?}");
        assert!(found.why.contains("waits at the page-table lock"), "{}", found.why);
    }

    #[test]
    fn what_processes_lose_too_is_not_the_process() {
        let found = judge(&results([("interleaved", 1.9), ("shared", 1.9), ("own", 1.9), ("process", 1.9)]));
        assert_eq!(found.verdict, Verdict::Refuted, "{found:?}");
        assert!(found.why.contains("waits at the machine"), "{}", found.why);
    }

    #[test]
    fn without_all_arrangements_nothing_is_said() {
        let mut rows = results([("shared", 1.0), ("own", 1.0), ("process", 1.0), ("other", 1.0)]);
        assert_eq!(judge(&rows).verdict, Verdict::CannotSay);
        rows = Results::default();
        assert_eq!(judge(&rows).verdict, Verdict::CannotSay);
    }
}
