//! Metrics of the agent itself: what it takes, and whom it serves.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use faultless_os::counters::process_cpu_ns;

use super::{Family, Unit, Value, alone, counter, gauge, point};
use crate::own::{self, Own, Pushed, Recordings};

/// One of a receiver's counters.
type Part = fn(&Pushed) -> &AtomicU64;

/// Version, CPU time, memory, polls.
pub(super) fn of_cost(own: &Own) -> Vec<Family> {
    vec![
        gauge(
            "faultless_agent_build_info",
            "1; the label is the agent's version.",
            Unit::None,
            vec![point([("version", env!("CARGO_PKG_VERSION"))], Value::Number(1.0))],
        ),
        counter(
            "faultless_agent_cpu",
            "CPU time of the agent.",
            Unit::Seconds,
            vec![alone(Value::Number(process_cpu_ns() as f64 / 1e9))],
        ),
        gauge(
            "faultless_agent_resident_memory",
            "Resident memory of the agent.",
            Unit::Bytes,
            vec![alone(Value::Number(own::resident_bytes() as f64))],
        ),
        gauge(
            "faultless_agent_interval",
            "Time between polls now. It widens if polls cost more than the budget.",
            Unit::Seconds,
            vec![alone(seconds(&own.interval_ns))],
        ),
        gauge(
            "faultless_agent_interval_cpu",
            "CPU time that the agent took in its last interval.",
            Unit::Seconds,
            vec![alone(seconds(&own.poll_cpu_ns))],
        ),
        counter("faultless_agent_polls", "Polls.", Unit::None, vec![alone(count(&own.polls))]),
    ]
}

/// Requests and pushes.
pub(super) fn of_traffic(own: &Own) -> Vec<Family> {
    let receivers = [("otlp", &own.otlp), ("pyroscope", &own.pyroscope), ("pprof", &own.pprof)];
    let pushed = |name: &'static str, parts: &[(&str, Part)]| {
        let each = receivers.iter().flat_map(|(receiver, pushed)| {
            parts.iter().map(move |(part, value)| {
                point([("receiver", *receiver), (name, *part)], count(value(pushed)))
            })
        });
        each.collect::<Vec<_>>()
    };
    vec![
        counter(
            "faultless_agent_requests",
            "Requests over HTTP, and those that were turned away or broke off.",
            Unit::None,
            vec![
                point([("result", "answered")], count(&own.scrapes)),
                point([("result", "refused")], count(&own.refused_scrapes)),
            ],
        ),
        counter(
            "faultless_agent_pushes",
            "Attempts to push a batch to a receiver.",
            Unit::None,
            pushed("result", &[("sent", |pushed| &pushed.sent), ("failed", |pushed| &pushed.failed)]),
        ),
        counter(
            "faultless_agent_dropped_batches",
            "Batches lost: the spool was full, or the receiver refused them for good.",
            Unit::None,
            pushed(
                "reason",
                &[("full", |pushed| &pushed.dropped_full), ("refused", |pushed| &pushed.dropped_refused)],
            ),
        ),
        gauge(
            "faultless_agent_spool_batches",
            "Batches that wait for a receiver.",
            Unit::None,
            pushed("", &[("", |pushed| &pushed.spool)]),
        ),
        gauge(
            "faultless_agent_spool",
            "Memory of the batches that wait.",
            Unit::Bytes,
            pushed("", &[("", |pushed| &pushed.spool_bytes)]),
        ),
    ]
}

/// Recordings.
pub(super) fn of_recordings(Recordings { kept, gone, failed, cpu_ns, bytes }: &Recordings) -> Vec<Family> {
    let results = [("kept", kept), ("gone", gone), ("failed", failed)];
    vec![
        counter(
            "faultless_agent_recordings",
            "Recordings by what became of them: kept, the process had ended, failed.",
            Unit::None,
            results.map(|(result, value)| point([("result", result)], count(value))).into(),
        ),
        counter(
            "faultless_agent_recordings_cpu",
            "CPU time of the programs that record, which the agent starts.",
            Unit::Seconds,
            vec![alone(seconds(cpu_ns))],
        ),
        gauge(
            "faultless_agent_recorded",
            "Space of the recordings that are kept.",
            Unit::Bytes,
            vec![alone(count(bytes))],
        ),
    ]
}

fn seconds(ns: &AtomicU64) -> Value {
    Value::Number(ns.load(Relaxed) as f64 / 1e9)
}

fn count(value: &AtomicU64) -> Value {
    Value::Count(value.load(Relaxed))
}
