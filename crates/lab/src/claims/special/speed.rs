//! From which speed of everything else on page faults are noticeable, by the cells of `chunks` with `passes`.
//!
//! The document's threshold is a speed of its laptop: 6 GB/s, for page faults at 5.7 GB/s. What another machine can repeat
//! is the relation of the two speeds. "Noticeable" has no figure there; here it is a tenth more time.

use faultless_trace::verdict::Verdict;

use crate::cell::Cell;
use crate::claims::arm::processors;
use crate::claims::finding::{Bounds, Finding, Side, decided_by, joined, short, with_interval};
use crate::claims::need;
use crate::claims::rounds::Rounds;
use crate::claims::special::Told;
use crate::results::Results;

const CHUNKS: &str = "chunks";
/// So much more time is noticeable.
const NOTICED: f64 = 0.1;
/// Bytes of a chunk as it is searched.
const CHUNK_BYTES: f64 = 524_288.0;
/// The document's speed at which faults are noticed, over that of its faults; within a quarter.
const BOUNDS: Bounds = Bounds { low: 6.0 / 5.7 * 0.75, high: 6.0 / 5.7 * 1.25 };

/// A number of passes: the pool's speed, GB/s, and by how much longer mmap takes.
struct Step {
    passes: usize,
    speed: Rounds,
    more: Rounds,
}

/// The speed of the rest at which faults take a tenth more time, over the speed of faults.
pub(super) fn noticeable(results: &Results) -> Option<Told> {
    let steps = steps(results)?;
    let price = price(results)?;
    // With one speed there is nothing to look for.
    let (fastest, slowest) = (steps.first()?, steps.last()?);
    if fastest.passes == slowest.passes {
        return None;
    }
    let (threshold, is_between) = at_threshold(&steps)?;
    let rounds = threshold.ratio(&price);
    let found = rounds.interval()?;
    let side = BOUNDS.side(&found);
    let (verdict, open) = match side {
        Side::Across => (Verdict::CannotSay, need::text(rounds.len(), need::times(&found, BOUNDS))),
        Side::Within if !is_between => {
            (Verdict::CannotSay, decided_by("the speed lies beyond those measured", "more speeds: `passes`"))
        }
        _ => (side.verdict(), String::new()),
    };
    let of = |step: &Step| {
        let figure = |rounds: &Rounds| rounds.median().map_or("-".to_owned(), short);
        let more = step.more.clone().map(|more| 1.0 + more);
        format!("{} times at {} GB/s", figure(&more), figure(&step.speed))
    };
    let all: Vec<String> = steps.iter().map(of).collect();
    let why = format!(
        "mmap takes {} of the pool; faults alone {} GB/s; noticed from a tenth more time on, in the document 1.09 times at 1.1 GB/s",
        all.join(", "),
        price.median().map_or("-".to_owned(), short)
    );
    let unit = "of the speed of faults";
    let finding = Finding {
        verdict,
        ours: with_interval(&found, unit),
        why: joined(&[&open, &why, &BOUNDS.text(unit)]),
    };
    Some(Told { finding, weighed: Some((rounds, BOUNDS)) })
}

/// The cells with one worker per processor and the shortest queue, from the fastest to the slowest.
fn steps(results: &Results) -> Option<Vec<Step>> {
    let workers = processors(results, CHUNKS)?;
    let all = || {
        results
            .cells(CHUNKS)
            .map(|(cell, _)| cell)
            .filter(|cell| cell.number("workers").ok() == Some(workers as usize))
    };
    let queue = all().filter_map(|cell| cell.number("queue").ok()).min()?;
    let of = |memory: &str| {
        let cells =
            all().filter(move |cell| cell.text("memory") == Ok(memory) && cell.number("queue") == Ok(queue));
        cells.map(|cell| (cell.number("passes").unwrap_or(1), cell)).collect::<Vec<_>>()
    };
    let mmap = of("mmap");
    let mut steps: Vec<Step> = of("pool")
        .into_iter()
        .filter_map(|(passes, pool)| {
            let (_, mmap) = mmap.iter().find(|(other, _)| *other == passes)?;
            let bytes = pool.number("chunks").ok()? as f64 * CHUNK_BYTES;
            let (pool, mmap) = (wall(results, pool)?, wall(results, mmap)?);
            let more = mmap.ratio(&pool).map(|times| times - 1.0);
            Some(Step { passes, speed: pool.map(|ns| bytes / ns), more })
        })
        .collect();
    steps.sort_unstable_by_key(|step| step.passes);
    Some(steps)
}

fn wall(results: &Results, cell: &Cell) -> Option<Rounds> {
    Rounds::of(results, cell, "timed", &["wall_ns"])
}

/// The speed of map, touch and unmap on one thread, GB/s.
fn price(results: &Results) -> Option<Rounds> {
    let cells = results
        .cells(CHUNKS)
        .filter(|(cell, _)| cell.text("memory") == Ok("mmap") && cell.number("workers") == Ok(1));
    let of = |cell: &Cell| {
        let of = |name: &str| Rounds::of(results, cell, "price", &[name]);
        Some(of("price_bytes")?.ratio(&of("wall_ns")?))
    };
    cells.into_iter().find_map(|(cell, _)| of(cell))
}

/// By round: the speed at which mmap takes a tenth longer, between the two measured speeds around it. If it does so at
/// all of them, the least speed, and if at none, the highest: then the second value is false, because the figure lies
/// beyond them.
fn at_threshold(steps: &[Step]) -> Option<(Rounds, bool)> {
    let mut is_between = true;
    let mut rounds = Vec::new();
    for (round, _) in steps.first()?.speed.iter() {
        let of = |rounds: &Rounds| rounds.iter().find(|(other, _)| *other == round).map(|(_, value)| value);
        let points = steps.iter().map(|step| Some((of(&step.speed)?, of(&step.more)?)));
        let Some(points) = points.collect::<Option<Vec<(f64, f64)>>>() else { continue };
        let at = points.iter().rposition(|(_, more)| *more >= NOTICED);
        is_between &= at.is_some_and(|at| at + 1 < points.len());
        let speed = match at {
            None => points[0].0,
            Some(at) if at + 1 == points.len() => points[at].0,
            Some(at) => {
                let ((fast, more), (slow, less)) = (points[at], points[at + 1]);
                slow + (fast - slow) * (NOTICED - less) / (more - less)
            }
        };
        rounds.push((round, speed));
    }
    (!rounds.is_empty()).then(|| (rounds.into_iter().collect(), is_between))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    /// Three rounds of a pool that takes so many ms for each number of passes, and of mmap, which takes 100 ms more.
    /// Faults alone have so many GB/s.
    fn results(pool_ms: &[(usize, f64)], price: f64) -> Results {
        let mut rows = Vec::new();
        for &(passes, ms) in pool_ms {
            for (memory, ms) in [("pool", ms), ("mmap", ms + 100.0)] {
                for (workers, round) in
                    [1, 2].into_iter().flat_map(|workers| (1..=3).map(move |round| (workers, round)))
                {
                    let more = format!(" passes={passes}");
                    let row = |phase: &str, quantity: &str, value| Row {
                        experiment: CHUNKS.into(),
                        cell: format!("memory={memory} workers={workers} queue=8 chunks=1000{more}"),
                        round,
                        phase: phase.into(),
                        quantity: quantity.into(),
                        value,
                    };
                    rows.push(row("timed", "wall_ns", ms * 1e6));
                    rows.push(row("timed", "processors", 2.0));
                    rows.push(row("price", "price_bytes", 1e9));
                    rows.push(row("price", "wall_ns", 1e9 / price));
                }
            }
        }
        Results::of(rows).unwrap()
    }

    fn judged(pool_ms: &[(usize, f64)], price: f64) -> Finding {
        noticeable(&results(pool_ms, price)).unwrap().finding
    }

    #[test]
    fn the_speed_at_which_faults_are_noticed_is_held_against_theirs() {
        // A tenth more at 1 s: 0.52 GB/s.
        let times = [(1, 200.0), (4, 500.0), (16, 2000.0)];
        let found = judged(&times, 0.5);
        assert_eq!(found.verdict, Verdict::Reproduced, "{found:?}");
        assert!(found.why.contains("1.50 times at 2.62 GB/s"), "{found:?}");
        assert_eq!(
            [0.1, 5.0].map(|price| judged(&times, price).verdict),
            [Verdict::Refuted, Verdict::Refuted]
        );
    }

    #[test]
    fn a_speed_beyond_those_measured_refutes_but_does_not_reproduce() {
        // Noticed at every speed: the threshold lies below 1.05 GB/s.
        let times = [(1, 200.0), (4, 500.0)];
        assert_eq!(judged(&times, 5.0).verdict, Verdict::Refuted);
        let found = judged(&times, 1.0);
        assert!(found.verdict == Verdict::CannotSay && found.why.contains("decided by"), "{found:?}");
    }

    #[test]
    fn one_speed_is_no_threshold() {
        assert!(noticeable(&results(&[(1, 200.0)], 1.0)).is_none());
    }
}
