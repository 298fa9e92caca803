//! What a filter left of a run, in a sentence: every filtered view states it the same way.

use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::profile::Selected;

use crate::text::{and_waits, plain};

/// `Shown: thread worker: 20.1 ms of 454 ms (4.4 %), 12 300 of 307 164 faults.`
pub fn sentence(selected: &Selected) -> String {
    format!("Shown: {}: {}.", plain(&selected.words), figures(selected))
}

/// `20.1 ms of 454 ms (4.4 %), 12 300 of 307 164 faults`
pub fn figures(selected: &Selected) -> String {
    let Selected { faults, faults_of_run, time_ns, time_ns_of_run, wait_ns, .. } = *selected;
    let count = |faults: f64| Count(faults.round() as u64);
    let faults = match faults_of_run > 0.0 && time_ns_of_run <= 0.0 {
        true => format!(
            "{} of {} ({})",
            count(faults),
            count(faults_of_run).of("fault"),
            Percent((faults / faults_of_run).min(1.0))
        ),
        false => format!("{} of {}", count(faults), count(faults_of_run).of("fault")),
    };
    match time_ns_of_run > 0.0 {
        true => format!(
            "{} of {} ({}), {faults}{}",
            Nanos(time_ns),
            Nanos(time_ns_of_run),
            Percent((time_ns / time_ns_of_run).min(1.0)),
            and_waits(wait_ns)
        ),
        false => faults,
    }
}
