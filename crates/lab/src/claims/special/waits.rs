//! Where faults of several threads wait for each other, by the arrangements of `touch`.
//!
//! Each arrangement is compared with itself with one thread, and then with the next, which shares one lock less.
//! The time that is lost between two arrangements is lost at that lock.

use std::fmt::Write;

use faultless_trace::stat::Interval;

use crate::cell::Cell;
use crate::claims::arm::processors;
use crate::claims::finding::{Bounds, Finding, Side, decided_by, short, with_interval};
use crate::claims::need;
use crate::claims::rounds::Rounds;
use crate::claims::special::Told;
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
pub(super) fn judge(results: &Results) -> Option<Told> {
    let processors = processors(results, "touch")?;
    if processors < 2.0 {
        let why = "one processor: threads wait for it, not for each other";
        let finding = Finding::unknown(decided_by(why, "two processors or more"));
        return Some(Told { finding, weighed: None });
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
        let rounds = here.ratio(&slow(next)?);
        let step = rounds.interval()?;
        locks.extend((step.low > WAITS).then_some(lock));
        last = Some((rounds, step));
    }
    let (rounds, step) = last?;
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
        let _ = write!(why, "; {}", need::text(rounds.len(), need::times(&step, bounds)));
    }
    let ours = with_interval(&step, "times what processes take");
    let finding = Finding { verdict: side.verdict(), ours, why };
    Some(Told { finding, weighed: Some((rounds, bounds)) })
}

/// By round: the time of `count` threads over the time of one, each with the same amount of memory.
fn slowdowns(results: &Results, memory: &str, count: &str) -> Option<Rounds> {
    let of = |threads| wall(results, &[("memory", memory), ("threads", threads), ("beside", "none")]);
    Some(of(count)?.ratio(&of("1")?))
}

/// One thread that touches, beside one thread that maps and unmaps, over the same beside a process.
fn beside_writers(results: &Results) -> Option<Interval> {
    let of =
        |beside| wall(results, &[("memory", "own"), ("threads", "1"), ("beside", beside), ("others", "1")]);
    of("maps")?.ratio(&of("maps-apart")?).interval()
}

/// Wall times of the first touch for each page of one thread, of the cell with as much memory a thread as the largest that
/// all arrangements have.
fn wall(results: &Results, wanted: &[(&str, &str)]) -> Option<Rounds> {
    let each = |cell: &Cell| Some(cell.number("mib").ok()? as f64 / cell.number("threads").ok()? as f64);
    let of_process = |(cell, _): &(&Cell, _)| cell.text("memory") == Ok("process");
    let alike =
        results.cells("touch").filter(of_process).filter_map(|(cell, _)| each(cell)).reduce(f64::max)?;
    let plain = [("access", "write"), ("lines", "1"), ("lock", "no")];
    let is_wanted = |cell: &Cell| {
        let mut all = wanted.iter().chain(&plain);
        all.all(|(name, value)| cell.text(name) == Ok(value)) && each(cell).is_some_and(|mib| mib <= alike)
    };
    let cells = results.cells("touch").filter(|(cell, _)| is_wanted(cell));
    let (cell, _) = cells.max_by_key(|(cell, _)| cell.number("mib").unwrap_or(0))?;
    let mib = each(cell)?;
    Some(Rounds::of(results, cell, "first", &[OWN_WALL, "wall_ns"])?.map(|ns| ns / mib))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;
    use faultless_trace::verdict::Verdict;

    fn judged(results: &Results) -> Finding {
        judge(results).map_or_else(|| Finding::unknown("not measured"), |told| told.finding)
    }

    /// Four rounds in which two threads take so many times what one takes.
    fn results(slowdowns: [(&str, f64); 4]) -> Results {
        let mut rows = Vec::new();
        for (memory, slowdown) in slowdowns {
            for (threads, ns) in [(1, 100.0), (2, 100.0 * slowdown)] {
                for round in 1..=4 {
                    let row = |phase: &str, quantity: &str, value| Row {
                        experiment: "touch".into(),
                        cell: format!(
                            "access=write memory={memory} lines=1 mib={threads} threads={threads} lock=no beside=none"
                        ),
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
