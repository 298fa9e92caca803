//! Times by kind -> seconds per kind and in all, with intervals.
//!
//! Seconds are the sum over the rows of mean times count. Rows without recorded faults (populate, unknown) have the
//! price of anonymous first touches, which most of them are; of populated pages less the trap. Faults that a user
//! can't see, in system calls, have a range and are no part of the sum. Faults before exec cost the program nothing.
//! Waits, as for a disk, are no part of the seconds.

use serde::{Deserialize, Serialize};

use super::kinds::Kinds;
use super::weigh::Huge;
use crate::kind::{ALL, FIRST_TOUCHES, Kind, KindRow, Source};
use crate::measurement::Interval;
use crate::observation::Host;
use crate::reconcile::TimeBound;
use crate::tuning::{CALIBRATED_HIGH, CALIBRATED_LOW, POPULATE_SAVES, THP_PRICE_RATIO, UNTIMED};

const MIB: f64 = (1_u64 << 20) as f64;

/// How long faults took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultTime {
    /// Where the figures come from.
    pub source: Source,
    /// Faults timed.
    pub timed: u64,
    /// Median, corrected, in ns.
    pub p50_ns: f64,
    /// 90th percentile, corrected, in ns.
    pub p90_ns: f64,
    /// 99th percentile, corrected, in ns.
    pub p99_ns: f64,
    /// Median as read, before correction, in ns.
    pub raw_p50_ns: f64,
    /// The offset subtracted from each reading, in ns.
    pub offset_ns: f64,
    /// CPU seconds in faults.
    pub seconds: Interval,
    /// The same as a share of the program's CPU time, 0 to 1.
    pub share: Interval,
    /// Microseconds per MiB of memory that faults made resident, if known.
    pub us_per_mib: Option<f64>,
}

/// What the time rests on.
pub(crate) struct Inputs<'a> {
    pub(crate) kinds: &'a Kinds,
    /// Every fault was recorded.
    pub(crate) complete: bool,
    /// Calibrated time of a first touch, ns.
    pub(crate) truth_ns: Option<f64>,
    /// The offset subtracted from each reading, ns.
    pub(crate) offset_ns: f64,
    /// Faults of huge pages, if anything is known of them.
    pub(crate) huge: Option<Huge>,
    /// Calibrated time of one of them, ns.
    pub(crate) huge_ns: Option<f64>,
    pub(crate) host: &'a Host,
    /// CPU time that the program had without recorder, ns.
    pub(crate) cpu_ns: f64,
}

/// Fills in the rows' times and returns the total, not yet limited by CPU time; `None` with a note if no time
/// is known.
pub(crate) fn time(inputs: &Inputs<'_>, rows: &mut [KindRow]) -> (Option<FaultTime>, Option<String>) {
    let kinds = inputs.kinds;
    if kinds.timed() == 0 {
        return match inputs.truth_ns {
            Some(truth_ns) => calibrated(truth_ns, inputs, rows),
            None => (
                None,
                Some("no fault was timed and none was calibrated: nothing is known of time".to_owned()),
            ),
        };
    }
    let minor: Vec<Kind> = ALL.into_iter().filter(|kind| *kind != Kind::Major).collect();
    let usual_ns = kinds.mean_ns_of(&FIRST_TOUCHES).or_else(|| kinds.mean_ns_of(&minor)).unwrap_or(0.0);
    let mut foreign = 0.0;
    // Faults outside all recorded ones have the price of first touches.
    let own = kinds.time_ns().times(1e-9);
    let timed = rows.iter().filter_map(|row| kinds.kind_time_ns(row.kind));
    let of_rows = timed.map(|time_ns| time_ns.value / 1e9).sum::<f64>();
    // A kind of less than half a fault has time, and no row: the others take it, if there are any.
    let own = if of_rows > 0.0 { own } else { Interval::default() };
    let part = if of_rows > 0.0 { own.value / of_rows } else { 1.0 };
    for row in rows.iter_mut().filter(|row| row.kind != Kind::BeforeExec) {
        row.p50_ns = kinds.p50_ns(row.kind);
        if row.kind == Kind::KernelOrPopulate {
            // The kernel's work on them, if any, is in no reading: no part of the sum.
            row.seconds_interval = Some((0.0, usual_ns * row.faults as f64 / 1e9 * CALIBRATED_HIGH));
            continue;
        }
        let time = kinds.kind_time_ns(row.kind).map(|time_ns| time_ns.times(part / 1e9));
        let time = time.unwrap_or_else(|| {
            let saved = if row.kind == Kind::Populate { POPULATE_SAVES[1] } else { 0.0 };
            let value = usual_ns * (1.0 - saved) * row.faults as f64 / 1e9;
            foreign += value;
            Interval { value, low: value * CALIBRATED_LOW, high: value * CALIBRATED_HIGH }
        });
        row.seconds = Some(time.value);
        row.seconds_interval = Some((time.low, time.high));
    }
    let value = own.value + foreign;
    let low = own.low + foreign * CALIBRATED_LOW;
    let high = own.high + foreign * CALIBRATED_HIGH;
    let seconds = Interval { value, low, high };
    let p50_ns = kinds.percentile_ns(0.5).unwrap_or(0.0);
    let time = FaultTime {
        source: if inputs.complete { Source::Counted } else { Source::Sampled },
        timed: kinds.timed(),
        p50_ns,
        p90_ns: kinds.percentile_ns(0.9).unwrap_or(0.0),
        p99_ns: kinds.percentile_ns(0.99).unwrap_or(0.0),
        raw_p50_ns: p50_ns + inputs.offset_ns,
        offset_ns: inputs.offset_ns,
        seconds,
        share: share(seconds, inputs.cpu_ns),
        us_per_mib: us_per_mib(rows, inputs.host),
    };
    (Some(time), None)
}

fn calibrated(
    truth_ns: f64,
    inputs: &Inputs<'_>,
    rows: &mut [KindRow],
) -> (Option<FaultTime>, Option<String>) {
    let [low, usual, high] = UNTIMED;
    // A huge page is never cheaper than a base page.
    let huge_ns = inputs.huge_ns.unwrap_or(THP_PRICE_RATIO * truth_ns).max(high * truth_ns);
    let is_touch = |row: &KindRow| !matches!(row.kind, Kind::Major | Kind::BeforeExec);
    let faults: f64 = rows.iter().filter(|row| is_touch(row)).map(|row| row.faults as f64).sum();
    let [least, most] = inputs.huge.map_or([0.0; 2], |huge| [huge.least.min(faults), huge.most.min(faults)]);
    let seconds = |huge: f64, [price, huge_price]: [f64; 2]| {
        ((faults - huge) * price * truth_ns + huge * huge_price * huge_ns) / 1e9
    };
    let seconds = Interval {
        value: seconds(least, [usual, 1.0]),
        low: seconds(least, [low, CALIBRATED_LOW]),
        high: seconds(most, [high, CALIBRATED_HIGH]),
    };
    for row in rows.iter_mut().filter(|row| is_touch(row)) {
        let time = seconds.times(row.faults as f64 / faults.max(1.0));
        (row.seconds, row.seconds_interval) = (Some(time.value), Some((time.low, time.high)));
    }
    let time = FaultTime {
        source: Source::Calibrated,
        timed: 0,
        p50_ns: truth_ns,
        p90_ns: truth_ns,
        p99_ns: truth_ns,
        raw_p50_ns: truth_ns,
        offset_ns: 0.0,
        seconds,
        share: share(seconds, inputs.cpu_ns),
        us_per_mib: us_per_mib(rows, inputs.host),
    };
    let note = "no fault of the program was timed: seconds are the number of faults times 1.5 times the price of a first touch \
                measured at start, in a range of 0.75 to 4 times; each huge page that its memory shows has half to twice a price \
                of its own";
    (Some(time), Some(note.to_owned()))
}

impl FaultTime {
    /// Cuts the seconds to a bound that they can't exceed. Returns the part of them that is left.
    pub(crate) fn cut(&mut self, bound: &TimeBound, cpu_ns: f64) -> f64 {
        let seconds = self.seconds.times(1e9);
        let value_ns = match bound.likely_ns {
            Some(likely_ns) if seconds.value > bound.ns => likely_ns,
            _ if self.timed == 0 => seconds.value.min(bound.ns),
            _ => mean_below(&seconds, bound.ns),
        };
        let part = value_ns / seconds.value.max(f64::MIN_POSITIVE);
        let seconds = Interval { high: seconds.high, ..seconds.times(part) };
        self.seconds = seconds.map(|ns| ns.min(bound.ns) / 1e9);
        self.share = share(self.seconds, cpu_ns);
        part
    }
}

/// The mean of a normal distribution with this lower end, cut off at `bound` (Johnson, Kotz & Balakrishnan 1994, ch. 13). A
/// value far above the bound is taken for one just above it. The distribution function is that of a logistic one with a
/// factor of 1.702, off by less than 0.01.
fn mean_below(interval: &Interval, bound: f64) -> f64 {
    let deviation = (interval.value - interval.low.max(0.0)) / 1.96;
    if deviation <= 0.0 {
        return interval.value.min(bound);
    }
    let value = interval.value.min(bound + deviation);
    let at = (bound - value) / deviation;
    let density = (-at * at / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let mean = value - deviation * density * (1.0 + (-1.702 * at).exp());
    // Times are not negative: of a far wider distribution a level part is left, from 0 on.
    mean.max(interval.value.min(bound / 2.0))
}

pub(super) fn share(seconds: Interval, cpu_ns: f64) -> Interval {
    let cpu = cpu_ns / 1e9;
    seconds.map(|seconds| if cpu > 0.0 { (seconds / cpu).clamp(0.0, 1.0) } else { 0.0 })
}

/// Microseconds per MiB that faults made resident.
pub(crate) fn us_per_mib(rows: &[KindRow], host: &Host) -> Option<f64> {
    let known =
        rows.iter().filter_map(|r| Some((r.seconds?, host.bytes_made_resident(r.kind)? * r.faults as f64)));
    let (seconds, bytes) = known.fold((0.0, 0.0), |(s, b), (seconds, bytes)| (s + seconds, b + bytes));
    (bytes > 0.0).then(|| seconds * 1e6 / (bytes / MIB)).filter(|us| us.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_below_a_bound_is_that_of_what_is_left_of_the_distribution() {
        let mean =
            |value: f64, bound| mean_below(&Interval { value, low: value - 19.6, high: value + 19.6 }, bound);
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.5, "{found} for {wanted}");
        near(mean(100.0, 200.0), 100.0);
        near(mean(100.0, 110.0), 97.1);
        near(mean(100.0, 100.0), 92.0);
        near(mean(110.0, 100.0), 94.7);
        near(mean(300.0, 100.0), 94.7);
        near(mean(30.0, 2.0), 1.0);
    }
}
