//! The answer in a sentence.

use faultless_trace::Stat;
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent, Seconds};
use faultless_trace::observation::Exit;
use faultless_trace::stat::{FaultTime, Interval, Point, Source};

/// An upper bound of the avoidable share, 0 to 1, below which it is hardly any whatever the lower one says.
const UNKNOWN_FROM: f64 = 0.1;

/// "1.90 s of 4.20 CPU s (45 % ± 3) went to page faults; 96 % of them avoidable with 24 MiB kept."
pub(super) fn answer(stat: &Stat) -> String {
    let faults = stat.faults();
    let mut answer = match (&stat.time, faults) {
        _ if stat.exit == Exit::NotStarted && faults == 0 => {
            return "The command did not start: no page faults.".into();
        }
        (_, 0) => return "There were no page faults.".into(),
        (Some(time), _) => lost(time, stat.cpu_ns()),
        (None, _) => format!("{} page faults; how long they took is not known", Count(faults)),
    };
    if let Some(curve) = &stat.avoidable {
        answer.push_str(&match &curve.knee {
            Some(knee) => format!("; {} of them avoidable with {} kept", share(knee), Bytes(knee.keep_bytes)),
            None => match curve.points.last().filter(|plateau| plateau.high >= UNKNOWN_FROM) {
                Some(most) => format!("; how many are avoidable is not known ({})", share(most)),
                None => "; keeping freed memory would avoid hardly any".to_owned(),
            },
        });
    }
    answer.push('.');
    match stat.exit {
        Exit::Signal(signal) => answer.push_str(&format!(" The command was ended by signal {signal}.")),
        Exit::Status(status) if status != 0 => {
            answer.push_str(&format!(" The command exited with status {status}."))
        }
        _ => {}
    }
    answer
}

fn lost(time: &FaultTime, cpu_ns: u64) -> String {
    let Interval { value, low, high } = time.seconds;
    if is_range(&time.seconds) {
        return between(Interval { value: value * 1e9, low: low * 1e9, high: high * 1e9 }, cpu_ns);
    }
    let about = if time.source == Source::Calibrated { "About " } else { "" };
    format!(
        "{about}{} of {} CPU time ({}) went to page faults",
        Seconds(value),
        Nanos(cpu_ns as f64),
        share_with_spread(&time.share)
    )
}

/// Whether an interval is so wide, to twice its lower end and more, that a figure within it would say what is not known.
pub(crate) fn is_range(interval: &Interval) -> bool {
    interval.high >= 2.0 * interval.low && interval.high > interval.low
}

/// "Between 12.0 ms and 40.0 ms of 50.0 ms CPU time (24 to 80 %) went to page faults"
pub(crate) fn between(time_ns: Interval, cpu_ns: u64) -> String {
    let of = |ns: f64| (ns / cpu_ns.max(1) as f64).clamp(0.0, 1.0);
    let Interval { low, high, .. } = time_ns;
    format!(
        "Between {} and {} of {} CPU time ({}) went to page faults",
        Nanos(low),
        Nanos(high),
        Nanos(cpu_ns as f64),
        percents(of(low), of(high))
    )
}

/// `24 to 80 %` of two shares.
pub(super) fn percents(low: f64, high: f64) -> String {
    let digits = usize::from(high < 0.095);
    format!("{:.digits$} to {:.digits$} %", low * 100.0, high * 100.0)
}

/// `45 % ± 3`, or the two ends where they lie unevenly.
pub(crate) fn share_with_spread(share: &Interval) -> String {
    let (below, above) = ((share.value - share.low) * 100.0, (share.high - share.value) * 100.0);
    let widest = below.max(above);
    if widest < 0.05 {
        Percent(share.value).to_string()
    } else if widest < 0.95 {
        format!("{} ± {widest:.1}", Percent(share.value))
    } else if below.min(above) > 0.5 * widest {
        format!("{} ± {widest:.0}", Percent(share.value))
    } else {
        format!("{}, {:.0} to {:.0}", Percent(share.value), share.low * 100.0, share.high * 100.0)
    }
}

/// Whether the bounds of a share differ by what can be seen.
pub(super) fn has_bounds(point: &Point) -> bool {
    point.high - point.low >= 0.01
}

/// `96 %`, or `91 to 96 %` where the bounds differ.
pub(crate) fn share(point: &Point) -> String {
    if !has_bounds(point) {
        return Percent(f64::midpoint(point.low, point.high)).to_string();
    }
    percents(point.low, point.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_one_figure_where_it_is_even() {
        let spread = |value, low, high| share_with_spread(&Interval { value, low, high });
        assert_eq!(spread(0.45, 0.42, 0.48), "45 % ± 3");
        assert_eq!(spread(0.45, 0.449, 0.451), "45 % ± 0.1");
        assert_eq!(spread(0.45, 0.45, 0.45), "45 %");
        assert_eq!(spread(0.20, 0.19, 0.40), "20 %, 19 to 40");
    }

    #[test]
    fn an_interval_to_twice_its_lower_end_is_a_range_without_a_figure() {
        let interval = |value, low, high| Interval { value, low, high };
        assert!(is_range(&interval(20e6, 12e6, 40e6)) && is_range(&interval(1.0, 0.0, 2.0)));
        assert!(!is_range(&interval(20.0, 15.0, 29.0)) && !is_range(&interval(0.0, 0.0, 0.0)));
        assert_eq!(
            between(interval(20e6, 12e6, 40e6), 50_000_000),
            "Between 12.0 ms and 40.0 ms of 50.0 ms CPU time (24 to 80 %) went to page faults"
        );
    }

    #[test]
    fn bounds_are_shown_where_they_differ() {
        assert_eq!(share(&Point { keep_bytes: 0, low: 0.955, high: 0.961 }), "96 %");
        assert_eq!(share(&Point { keep_bytes: 0, low: 0.276, high: 0.327 }), "28 to 33 %");
        assert_eq!(share(&Point { keep_bytes: 0, low: 0.0, high: 0.05 }), "0.0 to 5.0 %");
    }
}
