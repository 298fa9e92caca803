//! Durations + strata -> time per fault, seconds per kind and in all, with an interval.
//!
//! A reading is corrected by the calibrated offset (never below 0). A mean takes a reading above
//! [`WAIT_LATENCY_RATIO`] medians of its kind as that: beyond it a fault waits, and the answer is CPU time. Major faults
//! are timed in their row and left out of the seconds: their time is the disk's.
//!
//! Seconds are the sum over the rows of mean x count. Rows without recorded faults (kernel mode, populate, unknown)
//! are priced like anonymous first touches, which is what they mostly are; faults before exec cost the program nothing.

use super::strata::{KINDS, Strata, Stratum};
use super::{FaultTime, Interval, Kind, Row, Source};
use crate::fault::{Fault, Faults};
use crate::measurement::{percentile, weighted_percentile};
use crate::observation::{Calibration, Host, Usage};
use crate::tuning::{CALIBRATED_HIGH, CALIBRATED_LOW, WAIT_LATENCY_RATIO};

/// Timed faults of kernel mode from which on they have their own price.
const KERNEL_TIMED: usize = 30;
const MIB: f64 = (1_u64 << 20) as f64;

/// What a fault of each kind costs.
struct Prices {
    mean_ns: [Option<f64>; KINDS],
    p50_ns: [Option<f64>; KINDS],
    /// Mean of anonymous first touches, or of all where there are none.
    anonymous_ns: f64,
}

/// Fills in the rows' times and gives the whole; `None` with a note where nothing is known of time.
pub(super) fn time(
    faults: &Faults,
    strata: &Strata,
    calibration: Option<&Calibration>,
    host: &Host,
    usage: &Usage,
    rows: &mut [Row],
) -> (Option<FaultTime>, Option<String>) {
    let calibration = calibration.filter(|c| is_latency(c.pair_p50_ns) && is_latency(c.truth_p50_ns));
    let offset_ns = calibration.map_or(0.0, |c| c.offset_ns());
    let timed = Timed::new(faults, strata, offset_ns);
    let Some(prices) = timed.prices(strata) else {
        let truth_ns = calibration.map(|c| c.truth_p50_ns).filter(|ns| *ns > 0.0);
        return match truth_ns {
            Some(truth_ns) => calibrated(truth_ns, host, usage, rows),
            None => (
                None,
                Some("no fault was timed and none was calibrated: nothing is known of time".to_owned()),
            ),
        };
    };
    for row in rows.iter_mut() {
        row.p50_ns = prices.p50_ns[row.kind as usize];
        row.seconds = price(row.kind, &prices).map(|ns| ns * row.faults as f64 / 1e9);
    }
    let value: f64 = rows.iter().filter_map(|r| r.seconds).sum();
    let (low, high) = timed.relative_interval(strata, &prices);
    let (seconds, note) = cap(Interval { value, low: value * low, high: value * high }, usage, rows);
    let user = timed.user();
    let percentile_of = |p| weighted_percentile(&user, p).unwrap_or(0.0);
    let p50_ns = percentile_of(0.5);
    let time = FaultTime {
        source: if strata.is_complete() { Source::Counted } else { Source::Sampled },
        timed: user.len() as u64,
        p50_ns,
        p90_ns: percentile_of(0.9),
        p99_ns: percentile_of(0.99),
        raw_p50_ns: timed.raw_p50_ns,
        offset_ns,
        seconds,
        share: share(seconds, usage),
        us_per_mib: us_per_mib(rows, host),
    };
    (Some(time), note)
}

/// Whether a figure can be the time of a fault at all: below a second.
pub(crate) fn is_latency(ns: f64) -> bool {
    (0.0..1e9).contains(&ns)
}

/// One timed fault: kind, corrected time, faults that it stands for, stratum.
struct Timed {
    user: Vec<(usize, f64, f64, usize)>,
    kernel_ns: Vec<f64>,
    raw_p50_ns: f64,
}

impl Timed {
    fn new(faults: &Faults, strata: &Strata, offset_ns: f64) -> Self {
        let mut stratum_of = vec![None; faults.windows.len()];
        strata.strata.iter().enumerate().for_each(|(index, s)| stratum_of[s.window] = Some(index));
        let timed = faults.faults.iter().filter(|f| f.reading_ns().is_some());
        let mut per_stratum = vec![0_u64; strata.strata.len()];
        let stratum = |f: &Fault| f.window.and_then(|w| stratum_of[w]);
        timed.clone().filter(|f| !f.kernel).filter_map(stratum).for_each(|s| per_stratum[s] += 1);
        let (mut user, mut kernel_ns, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        for fault in timed {
            let reading = fault.reading_ns().unwrap_or(0) as f64;
            let ns = (reading - offset_ns).max(0.0);
            if fault.kernel {
                kernel_ns.push(ns);
            } else if let Some(index) = stratum(fault) {
                let s = &strata.strata[index];
                let weight = s.scale() * s.recorded as f64 / per_stratum[index] as f64;
                user.push((fault.kind as usize, ns, weight, index));
                raw.push((reading, weight));
            }
        }
        raw.sort_by(|a, b| a.0.total_cmp(&b.0));
        user.sort_by(|a, b| a.1.total_cmp(&b.1));
        let raw_p50_ns = weighted_percentile(&raw, 0.5).unwrap_or(0.0);
        Timed { user, kernel_ns, raw_p50_ns }
    }

    /// Minor faults as (time, weight), sorted by time.
    fn user(&self) -> Vec<(f64, f64)> {
        let minor = self.user.iter().filter(|(kind, ..)| *kind != Kind::Major as usize);
        minor.map(|(_, ns, weight, _)| (*ns, *weight)).collect()
    }

    /// `None` when no minor fault was timed.
    fn prices(&self, strata: &Strata) -> Option<Prices> {
        let mut by_kind: Vec<Vec<(f64, f64)>> = vec![Vec::new(); KINDS];
        self.user.iter().for_each(|(kind, ns, weight, _)| by_kind[*kind].push((*ns, *weight)));
        let mut prices = Prices { mean_ns: [None; KINDS], p50_ns: [None; KINDS], anonymous_ns: 0.0 };
        for (kind, samples) in by_kind.iter().enumerate() {
            prices.p50_ns[kind] = weighted_percentile(samples, 0.5);
            prices.mean_ns[kind] = prices.p50_ns[kind].and_then(|p50| mean_of(samples, p50));
        }
        let seen = |kinds: &[Kind]| {
            let estimated = strata.by_kind();
            let priced =
                kinds.iter().filter_map(|k| Some((prices.mean_ns[*k as usize]?, estimated[*k as usize])));
            let (sum, weight) =
                priced.fold((0.0, 0.0), |(sum, n), (mean, faults)| (sum + mean * faults, n + faults));
            (weight > 0.0).then_some(sum / weight)
        };
        let minor: Vec<Kind> = super::rows::ALL.into_iter().filter(|k| *k != Kind::Major).collect();
        prices.anonymous_ns = seen(&FIRST_TOUCHES).or_else(|| seen(&minor))?;
        if self.kernel_ns.len() >= KERNEL_TIMED {
            let p50 = percentile(&self.kernel_ns, 0.5);
            let alike: Vec<(f64, f64)> = self.kernel_ns.iter().map(|ns| (*ns, 1.0)).collect();
            prices.p50_ns[Kind::KernelMode as usize] = p50;
            prices.mean_ns[Kind::KernelMode as usize] = p50.and_then(|p50| mean_of(&alike, p50));
        }
        Some(prices)
    }

    /// The interval of the user faults' time as factors of its value.
    fn relative_interval(&self, strata: &Strata, prices: &Prices) -> (f64, f64) {
        let means: Vec<[f64; 1]> = self.means(strata, prices).into_iter().map(|mean| [mean]).collect();
        let factors = |i: Interval| (i.value > 0.0).then(|| (i.low / i.value, i.high / i.value));
        match strata.intervals(&means) {
            Some([interval]) => factors(interval).unwrap_or((1.0, 1.0)),
            // One window: what others cost is only bounded by how its own faults differ.
            None => {
                let user = self.user();
                let at = |p| weighted_percentile(&user, p).unwrap_or(0.0);
                let mean = means.first().map_or(0.0, |m| m[0]);
                let low = if mean > 0.0 { (at(0.1) / mean).min(1.0) } else { return (0.0, 1.0) };
                // A few waits lift the mean above nine tenths of the faults: the others may still be dearer.
                (low, (at(0.9) / mean).max(if low > 0.0 { 1.0 / low } else { 1.0 }))
            }
        }
    }

    /// Mean time of a minor fault in each stratum; a kind that was not timed there has its price of the whole run.
    fn means(&self, strata: &Strata, prices: &Prices) -> Vec<f64> {
        let mut sums = vec![([0.0; KINDS], [0_u64; KINDS]); strata.strata.len()];
        for (kind, ns, _, index) in &self.user {
            let cap = prices.p50_ns[*kind].map_or(f64::MAX, |p50| p50 * WAIT_LATENCY_RATIO);
            sums[*index].0[*kind] += ns.min(cap);
            sums[*index].1[*kind] += 1;
        }
        let mean = |(stratum, (sum, timed)): (&Stratum, &([f64; KINDS], [u64; KINDS]))| {
            let (mut whole, mut faults) = (0.0, 0_u64);
            for kind in (0..KINDS).filter(|kind| *kind != Kind::Major as usize) {
                let n = stratum.kinds[kind];
                let one =
                    if timed[kind] > 0 { Some(sum[kind] / timed[kind] as f64) } else { prices.mean_ns[kind] };
                whole += n as f64 * one.unwrap_or(prices.anonymous_ns);
                faults += n;
            }
            if faults > 0 { whole / faults as f64 } else { 0.0 }
        };
        strata.strata.iter().zip(&sums).map(mean).collect()
    }
}

const FIRST_TOUCHES: [Kind; 4] =
    [Kind::MmapFirstWrite, Kind::HeapFirstWrite, Kind::BssFirstWrite, Kind::FirstTouch];

/// Weighted mean with waits cut; samples are (time, weight).
fn mean_of(samples: &[(f64, f64)], p50: f64) -> Option<f64> {
    let cap = if p50 > 0.0 { p50 * WAIT_LATENCY_RATIO } else { f64::MAX };
    let (sum, weight) = samples.iter().fold((0.0, 0.0), |(sum, n), (ns, w)| (sum + ns.min(cap) * w, n + w));
    Some(sum / weight).filter(|mean| mean.is_finite())
}

fn price(kind: Kind, prices: &Prices) -> Option<f64> {
    match kind {
        Kind::Major | Kind::BeforeExec => None,
        _ => Some(prices.mean_ns[kind as usize].unwrap_or(prices.anonymous_ns)),
    }
}

fn calibrated(
    truth_ns: f64,
    host: &Host,
    usage: &Usage,
    rows: &mut [Row],
) -> (Option<FaultTime>, Option<String>) {
    for row in rows.iter_mut().filter(|r| !matches!(r.kind, Kind::Major | Kind::BeforeExec)) {
        row.seconds = Some(truth_ns * row.faults as f64 / 1e9);
    }
    let value: f64 = rows.iter().filter_map(|r| r.seconds).sum();
    let all = Interval { value, low: value * CALIBRATED_LOW, high: value * CALIBRATED_HIGH };
    let (seconds, capped) = cap(all, usage, rows);
    let time = FaultTime {
        source: Source::Calibrated,
        timed: 0,
        p50_ns: truth_ns,
        p90_ns: truth_ns,
        p99_ns: truth_ns,
        raw_p50_ns: truth_ns,
        offset_ns: 0.0,
        seconds,
        share: share(seconds, usage),
        us_per_mib: us_per_mib(rows, host),
    };
    let note = "no fault of the program was timed: seconds are the number of faults times the price of a first touch \
                measured at start; kinds cost half to twice of it";
    (Some(time), Some(capped.map_or_else(|| note.to_owned(), |more| format!("{note}; {more}"))))
}

/// Fault time is part of the CPU time: cut to it, all rows by the same factor, and say so.
fn cap(seconds: Interval, usage: &Usage, rows: &mut [Row]) -> (Interval, Option<String>) {
    let cpu = usage.cpu_ns() as f64 / 1e9;
    let cut =
        Interval { value: seconds.value.min(cpu), low: seconds.low.min(cpu), high: seconds.high.min(cpu) };
    if seconds.value > cpu {
        rows.iter_mut().filter_map(|r| r.seconds.as_mut()).for_each(|s| *s *= cpu / seconds.value);
    }
    let note = (seconds.value > cpu).then(|| {
        "the faults' times add up to more than the CPU time: they waited (locks, reclaim, the hypervisor); all \
         rows are cut to it alike"
            .to_owned()
    });
    (cut, note)
}

fn share(seconds: Interval, usage: &Usage) -> Interval {
    let cpu = usage.cpu_ns() as f64 / 1e9;
    let of = |s: f64| if cpu > 0.0 { (s / cpu).clamp(0.0, 1.0) } else { 0.0 };
    Interval { value: of(seconds.value), low: of(seconds.low), high: of(seconds.high) }
}

/// Bytes of anonymous memory that a fault of this kind makes resident; `None` for kinds that are no part of us per MiB:
/// file-backed (fault-around maps what is there), zero page, shared, and the unknown.
pub fn bytes_made_resident(kind: Kind, host: &Host) -> Option<f64> {
    use Kind::{
        BssFirstWrite, CowAfterFork, FilePrivateWrite, FirstTouch, HeapFirstWrite, KernelMode,
        KernelOrPopulate, MmapFirstWrite, Populate, Stack, Thp, WriteAfterZeroRead,
    };
    match kind {
        Thp => Some(host.thp_bytes as f64),
        MmapFirstWrite | HeapFirstWrite | BssFirstWrite | FirstTouch | WriteAfterZeroRead | CowAfterFork
        | Stack | FilePrivateWrite | KernelMode | Populate | KernelOrPopulate => Some(host.page_bytes as f64),
        _ => None,
    }
}

fn us_per_mib(rows: &[Row], host: &Host) -> Option<f64> {
    let known =
        rows.iter().filter_map(|r| Some((r.seconds?, bytes_made_resident(r.kind, host)? * r.faults as f64)));
    let (seconds, bytes) = known.fold((0.0, 0.0), |(s, b), (seconds, bytes)| (s + seconds, b + bytes));
    (bytes > 0.0).then(|| seconds * 1e6 / (bytes / MIB)).filter(|us| us.is_finite())
}
