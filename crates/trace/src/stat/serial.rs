//! Recorded faults -> whether faults of several threads wait for each other.
//!
//! The figure is the median time of faults that began while k - 1 others of their process were in flight,
//! over the median of single ones. Only anonymous first touches of base pages are compared, because kinds
//! differ in price.

use super::Serialisation;
use crate::fault::Faults;
use crate::measurement::{Count, ratio_of_medians};
use crate::tuning::{SERIAL_FAULTS, SERIAL_RATIO};

/// The reason for programs with one thread, to which the question does not apply.
pub(super) const ONE_THREAD: &str = "only one thread faulted";

/// The verdict. "Serialised" needs the low end of the ratio's 95 % interval above 1.25. Two hardware threads
/// of one core, and memory bandwidth, slow each other by up to that much without any lock.
pub(super) fn serialisation(faults: &Faults, offset_ns: f64) -> Serialisation {
    let cannot = |why: String| Serialisation::CannotSay { why };
    let mut by_count: Vec<Vec<f64>> = Vec::new();
    let comparable = faults.faults.iter().filter(|f| !f.kernel && f.kind.is_first_touch());
    for (in_flight, ns) in comparable.filter_map(|f| Some((f.in_flight as usize, f.duration_ns?))) {
        if by_count.len() <= in_flight {
            by_count.resize(in_flight.min(faults.faults.len()) + 1, Vec::new());
        }
        if let Some(bucket) = by_count.get_mut(in_flight) {
            bucket.push((ns as f64 - offset_ns).max(0.0));
        }
    }
    let count = |k: usize| by_count.get(k).map_or(0, Vec::len);
    if by_count.is_empty() {
        let is_one = !faults.samples.is_empty() && !more_than_one_thread(faults);
        return cannot(if is_one { ONE_THREAD } else { "no first touch was timed" }.to_owned());
    }
    if !more_than_one_thread(faults) {
        return cannot(ONE_THREAD.to_owned());
    }
    let Some(threads) = (2..by_count.len()).rev().find(|k| count(*k) >= SERIAL_FAULTS) else {
        let most = (2..by_count.len()).map(count).max().unwrap_or(0);
        return cannot(format!(
            "{} timed while others were in flight, {} are needed",
            Count(most as u64).were("fault"),
            Count(SERIAL_FAULTS as u64)
        ));
    };
    if count(1) < SERIAL_FAULTS {
        return cannot(format!(
            "only {} alone, {} are needed to compare with",
            Count(count(1) as u64).were("fault"),
            Count(SERIAL_FAULTS as u64)
        ));
    }
    match ratio_of_medians(&by_count[threads], &by_count[1]) {
        None => cannot("a fault alone took no measurable time".to_owned()),
        Some(ratio) if ratio.low > SERIAL_RATIO => {
            Serialisation::Serialised { threads: threads as u32, ratio }
        }
        Some(ratio) => Serialisation::Independent { threads: threads as u32, ratio },
    }
}

fn more_than_one_thread(faults: &Faults) -> bool {
    let mut first: std::collections::HashMap<u32, u32> = std::collections::HashMap::new();
    let samples = faults.samples.iter().map(|(fault, _)| fault);
    faults.faults.iter().chain(samples).any(|f| *first.entry(f.pid).or_insert(f.tid) != f.tid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::kind::Kind;

    fn fault(in_flight: u32, ns: u64) -> Fault {
        Fault { tid: in_flight, in_flight, ..Fault::timed(Kind::MmapFirstWrite, 0, ns) }
    }

    fn verdict(alone: usize, together: usize, ns: u64) -> Serialisation {
        let spread = |i: usize| i as u64 % 50;
        let alone = (0..alone).map(|i| fault(1, 1000 + spread(i)));
        let together = (0..together).map(|i| fault(4, ns + spread(i)));
        serialisation(&Faults { faults: alone.chain(together).collect(), ..Faults::default() }, 0.0)
    }

    #[test]
    fn waiting_for_a_lock_is_told_from_sharing_a_core() {
        assert!(
            matches!(verdict(2000, 2000, 4000), Serialisation::Serialised { threads: 4, ratio } if ratio.low > 3.5)
        );
        assert!(matches!(verdict(2000, 2000, 1200), Serialisation::Independent { threads: 4, .. }));
    }

    #[test]
    fn too_little_is_refused_with_the_reason() {
        let why = |verdict| match verdict {
            Serialisation::CannotSay { why } => why,
            other => format!("{other:?}"),
        };
        assert_eq!(why(verdict(3000, 0, 0)), "only one thread faulted");
        assert_eq!(why(verdict(0, 0, 0)), "no first touch was timed");
        assert!(why(verdict(3000, 1999, 1000)).starts_with("1 999 faults were timed while"));
        assert!(why(verdict(3000, 1, 1000)).starts_with("1 fault was timed while"));
        assert!(why(verdict(12, 2000, 1000)).starts_with("only 12 faults were alone"));
        assert!(why(verdict(1, 2000, 1000)).starts_with("only 1 fault was alone"));
    }
}
