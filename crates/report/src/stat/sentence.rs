//! The answer in a sentence.

use faultless_trace::Stat;
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent, Seconds};
use faultless_trace::observation::Exit;
use faultless_trace::stat::{Interval, Kind, Point};

use crate::figure::Figure;
use crate::tuning::{KIND_FROM, MAJORS_FROM, UNKNOWN_FROM, UNTIMED_FROM, WAITS_FROM};

/// "1.90 ± 0.12 s of 4.20 s CPU time (45 ± 3 %) went to page faults; 96 % of them avoidable with 24 MiB kept."
pub(super) fn answer(stat: &Stat) -> String {
    let faults = stat.faults();
    let mut answer = match (&stat.time, faults) {
        _ if stat.exit == Exit::NotStarted && faults == 0 => {
            return "The command did not start: no page faults.".into();
        }
        (_, 0) => return "There were no page faults.".into(),
        (Some(time), _) => lost(time.seconds.times(1e9), time.share, stat.cpu_ns()),
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
    if let Some((faults, seconds)) = untimed(stat) {
        answer.push_str(&format!(
            "; {} in system calls, which only root can time, took at most {} more",
            Count(faults).of("fault"),
            Seconds(seconds)
        ));
    }
    match stat.wait_ns {
        Some(ns) if waits(stat) => answer.push_str(&format!("; beside that they waited {}", Nanos(ns))),
        None if waits(stat) => answer.push_str(&format!(
            "; {} waited for the disk, for a time that is not known",
            Count(stat.usage.major_faults).of("fault")
        )),
        _ => {}
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

/// Faults that no reading tells the time of, and what they may have taken, in seconds, if that may be worth a word.
pub(super) fn untimed(stat: &Stat) -> Option<(u64, f64)> {
    let row = stat.rows.iter().find(|row| row.kind == Kind::KernelOrPopulate && row.seconds.is_none())?;
    let (_, high) = row.seconds_interval?;
    (high >= UNTIMED_FROM * stat.cpu_ns() as f64 / 1e9).then_some((row.faults, high))
}

/// Whether faults waited so long that it is worth a word: a share of the elapsed time. Without the times of waits, enough
/// faults that read from the disk.
pub(super) fn waits(stat: &Stat) -> bool {
    let major = stat.usage.major_faults;
    match stat.wait_ns {
        Some(ns) => ns >= WAITS_FROM * stat.usage.wall_ns as f64,
        None => major >= MAJORS_FROM && major as f64 >= KIND_FROM * stat.faults() as f64,
    }
}

/// "626 ± 44 ms of 3.05 s CPU time (21 ± 1 %) went to page faults", "About 24 ms of 100 ms CPU time (24 %, 12 to
/// 40) went to page faults". Without the share if the CPU time is unknown.
pub(crate) fn lost(time_ns: Interval, share: Interval, cpu_ns: u64) -> String {
    let time = capital(&Figure::nanos(time_ns).phrase());
    match cpu_ns {
        0 => format!("{time} went to page faults"),
        _ => format!(
            "{time} of {} CPU time ({}) went to page faults",
            Nanos(cpu_ns as f64),
            Figure::share(share).aside()
        ),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Whether the bounds print differently.
pub(super) fn has_bounds(point: &Point) -> bool {
    point.high - point.low >= 0.01
}

/// `96 %`, or `91 to 96 %` if the bounds differ.
pub(crate) fn share(point: &Point) -> String {
    if !has_bounds(point) {
        return Percent(f64::midpoint(point.low, point.high)).to_string();
    }
    let digits = usize::from(point.high < 0.095);
    format!("{:.digits$} to {:.digits$} %", point.low * 100.0, point.high * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_interval_is_told_by_its_share() {
        let all = |value, low, high| Interval { value, low, high };
        let said = lost(all(24e6, 12e6, 40e6), all(0.24, 0.12, 0.4), 100_000_000);
        assert_eq!(said, "About 24 ms of 100 ms CPU time (24 %, 12 to 40) went to page faults");
        let said = lost(all(20e6, 19e6, 21e6), all(0.2, 0.19, 0.21), 0);
        assert_eq!(said, "20.0 ± 1.0 ms went to page faults");
    }

    #[test]
    fn bounds_are_shown_where_they_differ() {
        assert_eq!(share(&Point { keep_bytes: 0, low: 0.955, high: 0.961 }), "96 %");
        assert_eq!(share(&Point { keep_bytes: 0, low: 0.276, high: 0.327 }), "28 to 33 %");
        assert_eq!(share(&Point { keep_bytes: 0, low: 0.0, high: 0.05 }), "0.0 to 5.0 %");
    }
}
