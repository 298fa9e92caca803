//! The metrics: names, help, units and labels, for every format.
//!
//! In: the state of the agent. Out: [`Family`]s. `text` writes them for scrapes, `push` for OTLP.
//!
//! Names follow Prometheus's conventions: the unit ends the name, and `_total` that of a counter. Formats add both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use faultless_trace::observation::SourceNote;

use crate::amounts::Amounts;
use crate::count::Program;
use crate::identity::{Identity, short};
use crate::ledger::Ledger;
use crate::machine::Machine;
use crate::own::{self, Own, Pushed};

/// A metric with all its series.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// Without unit and `_total`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: Unit,
    pub(crate) kind: Kind,
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    None,
    Seconds,
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// A figure of a series.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) labels: Labels,
    pub(crate) value: Value,
    /// When its counter began, ns since 1970; 0: unknown.
    pub(crate) begin_ns: u64,
}

/// Names and values; none is empty.
pub(crate) type Labels = Vec<(&'static str, Arc<str>)>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Count(u64),
    Number(f64),
}

/// The service of all groups without series of their own.
const OTHER: &str = "_other";
/// The service of what no group had.
const UNSEEN: &str = "_unseen";

/// What the last poll found.
#[derive(Debug)]
pub(crate) struct State<'a> {
    pub(crate) begin_ns: u64,
    pub(crate) groups: &'a Ledger<Arc<str>>,
    pub(crate) programs: &'a Ledger<Program>,
    pub(crate) unseen: Amounts,
    pub(crate) machine: Machine,
    /// The mean price of a fault, ns, and the timed faults behind it.
    pub(crate) price_ns: f64,
    pub(crate) timed: usize,
    pub(crate) lost: u64,
    pub(crate) cpus: u32,
    pub(crate) notes: &'a [SourceNote],
}

/// The metrics of the machine and its groups.
pub(crate) fn of(state: &State<'_>) -> Vec<Family> {
    let rest = [(OTHER, state.groups.other), (UNSEEN, state.unseen)];
    let rest = rest.map(|(service, amounts)| Series {
        labels: labels([("service", service)]),
        amounts,
        begin_ns: state.begin_ns,
    });
    let groups = state.groups.rows().map(|(path, row)| {
        let Identity { service, unit, container, pod, cgroup } = Identity::of(path);
        let names = [
            ("service", service),
            ("cgroup", cgroup),
            ("unit", unit),
            ("container", container),
            ("pod", pod),
        ];
        Series { labels: labels(names), amounts: row.total, begin_ns: row.begin_ns }
    });
    let groups: Vec<Series> = groups.chain(rest).collect();
    let other = Series {
        labels: labels([("program", OTHER)]),
        amounts: state.programs.other,
        begin_ns: state.begin_ns,
    };
    let programs = state.programs.rows().map(|((path, program), row)| {
        let Identity { service, cgroup, .. } = Identity::of(path);
        let labels = labels([("program", short(program)), ("service", service), ("cgroup", cgroup)]);
        Series { labels, amounts: row.total, begin_ns: row.begin_ns }
    });
    let programs: Vec<Series> = programs.chain([other]).collect();
    let mut families = by_group(&groups);
    families.extend(by_program(&programs));
    families.extend(of_machine(state));
    families
}

/// Labels and counters of a group or program.
struct Series {
    labels: Labels,
    amounts: Amounts,
    begin_ns: u64,
}

fn by_group(groups: &[Series]) -> Vec<Family> {
    vec![
        faults(
            "faultless_page_faults",
            "Page faults by control group, exact where the group counts them (memory controller). Service _other sums up \
             the groups without series of their own; _unseen has what ended between two polls.",
            groups,
        ),
        counter(
            "faultless_fault",
            "CPU time in minor page faults, estimated: faults at the mean time of those that were timed in the group's \
             processes. Waits of major faults are not in it.",
            Unit::Seconds,
            each(groups, |amounts| Value::Number(amounts.fault_ns / 1e9)),
        ),
        counter(
            "faultless_cpu",
            "CPU time by control group. Service _unseen also has that of the kernel's threads.",
            Unit::Seconds,
            each(groups, |amounts| Value::Number(amounts.cpu_ns as f64 / 1e9)),
        ),
        counter(
            "faultless_huge_page_faults",
            "Faults that mapped a huge page, by control group (version 2 of control groups only).",
            Unit::None,
            each(groups, |amounts| Value::Count(amounts.huge)),
        ),
        counter(
            "faultless_collapses",
            "Huge pages that khugepaged made, by control group (version 2 of control groups only).",
            Unit::None,
            each(groups, |amounts| Value::Count(amounts.collapses)),
        ),
    ]
}

fn by_program(programs: &[Series]) -> Vec<Family> {
    vec![
        faults(
            "faultless_program_page_faults",
            "Page faults by program: the processes of one name in a control group. Those that began and ended between \
             two polls are missing.",
            programs,
        ),
        counter(
            "faultless_program_fault",
            "CPU time in minor page faults by program, estimated as faultless_fault_seconds_total.",
            Unit::Seconds,
            each(programs, |amounts| Value::Number(amounts.fault_ns / 1e9)),
        ),
        counter(
            "faultless_program_cpu",
            "CPU time by program, in steps of a clock tick (10 ms as a rule).",
            Unit::Seconds,
            each(programs, |amounts| Value::Number(amounts.cpu_ns as f64 / 1e9)),
        ),
    ]
}

fn faults(name: &'static str, help: &'static str, series: &[Series]) -> Family {
    let kinds = |series: &Series| {
        let point = |kind: &str, count| Point {
            labels: series.labels.iter().cloned().chain([("kind", kind.into())]).collect(),
            value: Value::Count(count),
            begin_ns: series.begin_ns,
        };
        [point("minor", series.amounts.minor), point("major", series.amounts.major)]
    };
    counter(name, help, Unit::None, series.iter().flat_map(kinds).collect())
}

fn each(series: &[Series], value: impl Fn(&Amounts) -> Value) -> Vec<Point> {
    let point = |series: &Series| Point {
        labels: series.labels.clone(),
        value: value(&series.amounts),
        begin_ns: series.begin_ns,
    };
    series.iter().map(point).collect()
}

fn of_machine(state: &State<'_>) -> Vec<Family> {
    let machine = &state.machine;
    let counted = |name, help, count: Option<u64>| {
        let points = count.map(|count| alone(Value::Count(count)));
        counter(name, help, Unit::None, points.into_iter().collect())
    };
    let waits = [("some", machine.some_waited_s), ("all", machine.all_waited_s)];
    let waits = waits.into_iter().filter_map(|(tasks, s)| Some(point([("tasks", tasks)], Value::Number(s?))));
    let shown = state.groups.rows().count() as f64;
    let sources = state.notes.iter().map(|note| {
        let used = Value::Number(f64::from(u8::from(note.used)));
        point([("source", short(&note.source))], used)
    });
    vec![
        counted("faultless_machine_huge_page_faults", "Faults that mapped a huge page.", machine.huge_faults),
        counted(
            "faultless_machine_huge_page_fallbacks",
            "Faults that wanted a huge page and got a base page.",
            machine.huge_fallbacks,
        ),
        counted("faultless_machine_collapses", "Huge pages that khugepaged made.", machine.collapses),
        counted("faultless_machine_huge_page_splits", "Huge pages that were split.", machine.splits),
        counted(
            "faultless_machine_compaction_stalls",
            "Allocations that waited for compaction.",
            machine.compaction_stalls,
        ),
        counted(
            "faultless_machine_reclaim_stalls",
            "Allocations that reclaimed pages themselves.",
            machine.reclaim_stalls,
        ),
        counter(
            "faultless_machine_memory_wait",
            "Time in which some or all tasks waited for memory (PSI).",
            Unit::Seconds,
            waits.collect(),
        ),
        gauge(
            "faultless_fault_price",
            "Mean CPU time of a minor fault now. Without timed faults it is that of the agent's own, measured at its start.",
            Unit::Seconds,
            vec![alone(Value::Number(state.price_ns / 1e9))],
        ),
        gauge(
            "faultless_timed_faults",
            "Timed faults behind the price; 0 without the right to time faults (CAP_PERFMON).",
            Unit::None,
            vec![alone(Value::Number(state.timed as f64))],
        ),
        gauge(
            "faultless_groups",
            "Control groups with processes: with series of their own, ended ones included, and folded into _other.",
            Unit::None,
            vec![
                point([("series", "own")], Value::Number(shown)),
                point([("series", "folded")], Value::Number(state.groups.folded as f64)),
            ],
        ),
        gauge(
            "faultless_folded_programs",
            "Programs without series of their own.",
            Unit::None,
            vec![alone(Value::Number(state.programs.folded as f64))],
        ),
        gauge(
            "faultless_processors",
            "Processors.",
            Unit::None,
            vec![alone(Value::Number(state.cpus.into()))],
        ),
        gauge(
            "faultless_agent_source",
            "1 if the agent can use a source of data, else 0.",
            Unit::None,
            sources.collect(),
        ),
        counter(
            "faultless_agent_lost_records",
            "Records that the kernel dropped because the agent read too late. Only prices rest on them.",
            Unit::None,
            vec![alone(Value::Count(state.lost))],
        ),
    ]
}

/// The metrics of the agent itself, as of now.
pub(crate) fn of_agent(own: &Own) -> Vec<Family> {
    let count = |value: &AtomicU64| Value::Count(value.load(Relaxed));
    let number = |value: &AtomicU64, unit: f64| Value::Number(value.load(Relaxed) as f64 / unit);
    let receivers = [("otlp", &own.otlp), ("pyroscope", &own.pyroscope)];
    let pushed = |name: &'static str, parts: &[(&str, fn(&Pushed) -> &AtomicU64)]| {
        let each = receivers.iter().flat_map(|(receiver, pushed)| {
            parts.iter().map(move |(part, value)| {
                point([("receiver", *receiver), (name, *part)], count(value(pushed)))
            })
        });
        each.collect::<Vec<_>>()
    };
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
            vec![alone(Value::Number(own::cpu_ns() as f64 / 1e9))],
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
            vec![alone(number(&own.interval_ns, 1e9))],
        ),
        gauge(
            "faultless_agent_interval_cpu",
            "CPU time that the agent took in its last interval.",
            Unit::Seconds,
            vec![alone(number(&own.poll_cpu_ns, 1e9))],
        ),
        counter("faultless_agent_polls", "Polls.", Unit::None, vec![alone(count(&own.polls))]),
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

fn counter(name: &'static str, help: &'static str, unit: Unit, points: Vec<Point>) -> Family {
    Family { name, help, unit, kind: Kind::Counter, points }
}

fn gauge(name: &'static str, help: &'static str, unit: Unit, points: Vec<Point>) -> Family {
    Family { name, help, unit, kind: Kind::Gauge, points }
}

fn point<V: AsRef<str>, const N: usize>(names: [(&'static str, V); N], value: Value) -> Point {
    Point { labels: labels(names), value, begin_ns: 0 }
}

fn alone(value: Value) -> Point {
    Point { labels: Labels::new(), value, begin_ns: 0 }
}

/// An empty label is the same as none.
fn labels<V: AsRef<str>, const N: usize>(names: [(&'static str, V); N]) -> Labels {
    let filled = names.into_iter().filter(|(_, value)| !value.as_ref().is_empty());
    filled.map(|(name, value)| (name, Arc::from(value.as_ref()))).collect()
}

impl Unit {
    /// As OTLP writes it (UCUM). A count has none: with "1", Prometheus would call a gauge a ratio.
    pub(crate) fn ucum(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Seconds => "s",
            Self::Bytes => "By",
        }
    }
}
