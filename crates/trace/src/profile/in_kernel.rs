//! Time that the kernel measured of every fault -> the rows, the total and the profile, in place of sampled times.
//!
//! Sampled faults tell the kinds of user mode and how their times compare; the sum of these times is the measured one. Of
//! populated pages, which take no trap, the kernel measures nothing: their estimate stays. So does that of major faults, most
//! of whose time is a wait.

use super::mode::Mode;
use super::{FaultTime, Profile, time};
use crate::kind::{KindRow, Source};
use crate::measurement::Interval;
use crate::observation::{FaultSum, Host, InKernel};

/// Half-width of the time of a fault that was not timed, as a share of the mean of the others. Chosen: it ended on another
/// processor or was preempted, which happens to long ones more often.
const UNTIMED_SHARE: f64 = 0.5;

/// Puts the measured time in. `sampled`: what the samples say.
pub(super) fn settle(
    found: &InKernel,
    profile: &mut Profile,
    rows: &mut [KindRow],
    sampled: Option<FaultTime>,
    host: &Host,
    cpu_ns: f64,
) -> FaultTime {
    let [user, kernel] = seconds(found);
    measured(Mode::User, user, profile, rows);
    measured(Mode::Kernel, kernel, profile, rows);
    let others = rows.iter().filter(|row| !is_measured(row));
    let sum = |of: fn(&KindRow) -> Option<f64>| others.clone().filter_map(of).sum::<f64>();
    let seconds = Interval {
        value: user.value + kernel.value + sum(|row| row.seconds),
        low: user.low + kernel.low + sum(|row| Some(row.seconds_interval?.0)),
        high: user.high + kernel.high + sum(|row| Some(row.seconds_interval?.1)),
    };
    let minor = found.sums.all_minor();
    let mean_ns = (minor.mean_ns().unwrap_or(0.0) - found.offset_ns).max(0.0);
    let [p50_ns, p90_ns, p99_ns] = match sampled.filter(|sampled| sampled.timed > 0) {
        Some(sampled) => [sampled.p50_ns, sampled.p90_ns, sampled.p99_ns],
        None => [mean_ns; 3],
    };
    FaultTime {
        source: Source::Measured,
        timed: minor.timed,
        p50_ns,
        p90_ns,
        p99_ns,
        raw_p50_ns: p50_ns + found.offset_ns,
        offset_ns: found.offset_ns,
        seconds,
        share: time::share(seconds, cpu_ns),
        us_per_mib: time::us_per_mib(rows, host),
    }
}

/// Whether the kernel measures the time of its faults.
fn is_measured(row: &KindRow) -> bool {
    matches!(Mode::of_row(row.kind), Some(Mode::User | Mode::Kernel))
}

/// Seconds in minor faults of user mode and of kernel mode.
fn seconds(found: &InKernel) -> [Interval; 2] {
    let of_all_ns = found.sums.all_minor().mean_ns().unwrap_or(0.0);
    let of = |sum: &FaultSum, offset_ns: f64| {
        let each_ns = (sum.mean_ns().unwrap_or(of_all_ns) - offset_ns).max(0.0);
        let faults = sum.faults as f64;
        let untimed = sum.faults.saturating_sub(sum.timed) as f64;
        let off_ns = (faults * found.offset_error_ns).hypot(untimed * each_ns * UNTIMED_SHARE);
        let ns = Interval { value: faults * each_ns, low: 0.0, high: faults * each_ns + off_ns };
        Interval { low: (ns.value - off_ns).max(0.0), ..ns }.times(1e-9)
    };
    let [user, kernel] = &found.sums.minor;
    // A trap from kernel mode has next to nothing outside the two times.
    [of(user, found.offset_ns), of(kernel, found.offset_ns.max(0.0))]
}

/// Scales the times of a mode to the measured one. Without any times, faults share it alike.
fn measured(of: Mode, seconds: Interval, profile: &mut Profile, rows: &mut [KindRow]) {
    let is_of = |row: &&KindRow| Mode::of_row(row.kind) == Some(of);
    let sum: f64 = rows.iter().filter(is_of).filter_map(|row| row.seconds).sum();
    let faults: f64 = rows.iter().filter(is_of).map(|row| row.faults as f64).sum();
    let is_alone = rows.iter().filter(is_of).count() == 1;
    let part = seconds.value / sum;
    for row in rows.iter_mut().filter(|row| Mode::of_row(row.kind) == Some(of)) {
        let scaled = row.seconds.filter(|_| sum > 0.0).map(|value| value * part);
        let value = scaled.unwrap_or_else(|| seconds.value * row.faults as f64 / faults);
        let (low, high) = match row.seconds_interval.filter(|_| sum > 0.0 && !is_alone) {
            Some((low, high)) => (low * part, (high * part).min(seconds.high)),
            None => (seconds.low.min(value), seconds.high),
        };
        (row.seconds, row.seconds_interval) = (Some(value), Some((low.min(value), high.max(value))));
    }
    let both = profile.faults.iter_mut().zip(&mut profile.basis);
    for (fault, basis) in both.filter(|(fault, _)| Mode::of(fault.kind, fault.kernel) == of && sum > 0.0) {
        (fault.cost_ns, basis.assumed_ns) = (fault.cost_ns * part, basis.assumed_ns * part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stat;
    use crate::observation::{Counts, FaultSums, Observation, Usage};

    /// A run of 1 000 faults of user mode and 100 of kernel mode, of which 10 were not timed.
    fn observed() -> Observation {
        let user = FaultSum { faults: 1_000, timed: 990, ns: 990 * 600, switched: 4, switched_ns: 400_000 };
        let kernel = FaultSum { faults: 100, timed: 100, ns: 100 * 800, ..FaultSum::default() };
        let sums = FaultSums { minor: [user, kernel], ..FaultSums::default() };
        Observation {
            usage: Usage {
                wall_ns: 1 << 30,
                user_ns: 80_000_000,
                system_ns: 20_000_000,
                minor_faults: 1_100,
                ..Usage::default()
            },
            counts: Counts {
                user_faults: Some(sums.user()),
                all_faults: Some(sums.all()),
                minor_faults: Some(sums.all_minor().faults),
                major_faults: Some(0),
                ..Counts::default()
            },
            in_kernel: Some(InKernel {
                sums,
                tells_switches: true,
                offset_ns: -100.0,
                offset_error_ns: 10.0,
                added_ns: 300.0,
                ..InKernel::default()
            }),
            ..Observation::default()
        }
    }

    #[test]
    fn the_time_is_what_the_kernel_measured_and_rows_add_up_to_it() {
        let stat = Stat::from_observation(&observed());
        let time = stat.time.unwrap();
        assert_eq!((time.source, time.timed), (Source::Measured, 1_090));
        // The trap is added in user mode only.
        let wanted = (1_000.0 * 700.0 + 100.0 * 800.0) / 1e9;
        assert!((time.seconds.value - wanted).abs() < 1e-12, "{time:?}");
        assert!(time.seconds.low < wanted && time.seconds.high < wanted * 1.05, "{time:?}");
        let rows: f64 = stat.rows.iter().filter_map(|row| row.seconds).sum();
        assert!((rows - wanted).abs() < 1e-12, "{:?}", stat.rows);
        assert_eq!(stat.rows.iter().map(|row| row.faults).sum::<u64>(), 1_100);
        let on_cpu_ns = 4.0 * (990.0 * 600.0 + 100.0 * 800.0) / 1_090.0;
        assert!((stat.wait_ns.unwrap() - (400_000.0 - on_cpu_ns)).abs() < 1e-6, "{:?}", stat.wait_ns);
        assert_eq!(stat.recorder_ns, 1_100 * 300);
        assert!(!stat.notes.iter().any(|note| note.contains("no fault of the program was timed")));
    }

    #[test]
    fn rows_add_up_with_major_faults_too() {
        let mut observation = observed();
        observation.usage.major_faults = 5;
        let stat = Stat::from_observation(&observation);
        let rows: f64 = stat.rows.iter().filter_map(|row| row.seconds).sum();
        assert!((rows - stat.time.unwrap().seconds.value).abs() < 1e-12, "{:?}", stat.rows);
    }

    #[test]
    fn faults_without_room_in_the_kernels_table_are_told() {
        let mut observation = observed();
        observation.in_kernel.as_mut().unwrap().beyond = 7;
        let stat = Stat::from_observation(&observation);
        assert!(stat.notes.iter().any(|note| note.starts_with("7 faults")), "{:?}", stat.notes);
    }
}
