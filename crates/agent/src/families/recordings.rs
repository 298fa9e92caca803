//! Metrics of the last recording of each program: why it faults, and what would help.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Family, Labels, Point, Unit, Value, gauge, labels_of};
use crate::count::Program;
use crate::found::Recorded;
use crate::identity::short;

const BOUNDS: [&str; 2] = ["low", "high"];

/// All of them. Programs that were not recorded have none.
pub(super) fn of(recorded: &HashMap<Program, Recorded>) -> Vec<Family> {
    let all: Vec<(Labels, &Recorded)> =
        recorded.iter().map(|(program, recorded)| (labels_of(program), recorded)).collect();
    let one = |of: fn(&Recorded) -> Option<f64>| {
        let points = all.iter().filter_map(|(labels, recorded)| Some(point(labels, &[], of(recorded)?)));
        points.collect::<Vec<_>>()
    };
    let (mut shares, mut savings) = (Vec::new(), Vec::new());
    for (labels, Recorded { found, .. }) in &all {
        // A recording may have a mechanism twice, by different callers.
        let (mut by_mechanism, mut by_cure) = (BTreeMap::<_, f64>::new(), BTreeMap::<_, [f64; 2]>::new());
        for mechanism in &found.mechanisms {
            *by_mechanism.entry(&mechanism.id).or_default() += mechanism.share;
            // The first cure with an estimate.
            let Some(cure) = mechanism.cures.iter().find(|cure| cure.saves_ns.high > 0.0) else { continue };
            let sums = by_cure.entry((&mechanism.id, short(&cure.how))).or_default();
            for (sum, ns) in sums.iter_mut().zip([cure.saves_ns.low, cure.saves_ns.high]) {
                *sum += ns / found.cpu_ns.max(1) as f64;
            }
        }
        shares.extend(by_mechanism.into_iter().map(|(id, share)| point(labels, &[("mechanism", id)], share)));
        for ((id, cure), ends) in by_cure {
            savings.extend(BOUNDS.iter().zip(ends).map(|(&bound, share)| {
                point(labels, &[("mechanism", id), ("cure", &cure), ("bound", bound)], share)
            }));
        }
    }
    let avoidable = all.iter().flat_map(|(labels, recorded)| {
        let ends = recorded.found.avoidable.map(|point| [point.low, point.high]);
        let ends = ends.into_iter().flat_map(|ends| BOUNDS.into_iter().zip(ends));
        ends.map(|(bound, share)| point(labels, &[("bound", bound)], share))
    });
    vec![
        gauge(
            "faultless_mechanism_cpu_share",
            "Share of the program's CPU time that a mechanism of page faults took, in faults and in calls that give memory \
             back, by the program's last recording.",
            Unit::None,
            shares,
        ),
        gauge(
            "faultless_mechanism_saving_share",
            "Share of the program's CPU time that the mechanism's first cure saves, estimated.",
            Unit::None,
            savings,
        ),
        gauge(
            "faultless_avoidable_share",
            "Share of the program's faults that keeping freed memory avoids. None below a twentieth.",
            Unit::None,
            avoidable.collect(),
        ),
        gauge(
            "faultless_given_back",
            "Resident memory that the program gave back to the kernel.",
            Unit::BytesPerSecond,
            one(|recorded| recorded.found.given_bytes_per_s),
        ),
        gauge(
            "faultless_taken_again",
            "Memory of faults that took again what had been given back.",
            Unit::BytesPerSecond,
            one(|recorded| recorded.found.taken_bytes_per_s),
        ),
        gauge(
            "faultless_recorded_timestamp",
            "When the program was recorded last, since 1970.",
            Unit::Seconds,
            one(|recorded| Some(recorded.time_ns as f64 / 1e9)),
        ),
    ]
}

fn point(labels: &Labels, more: &[(&'static str, &str)], value: f64) -> Point {
    let more = more.iter().map(|(name, value)| (*name, Arc::from(*value)));
    let labels = labels.iter().cloned().chain(more).collect();
    Point { labels, value: Value::Number(value), begin_ns: 0 }
}
