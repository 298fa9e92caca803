//! The metrics: names, help, units and labels, for every format.
//!
//! In: the state of the agent. Out: [`Family`]s. `text` writes them for scrapes, `push` for OTLP.
//!
//! Names follow Prometheus's conventions: the unit ends the name, and `_total` that of a counter. Formats add both.

mod agent;
mod groups;
mod machine;
mod recordings;

use std::collections::HashMap;
use std::sync::Arc;

use faultless_trace::observation::SourceNote;

use crate::amounts::Amounts;
use crate::count::Program;
use crate::found::Recorded;
use crate::identity::{Identity, short};
use crate::ledger::Ledger;
use crate::machine::Machine;
use crate::own::Own;

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
    BytesPerSecond,
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

/// What the last poll found.
#[derive(Debug)]
pub(crate) struct State<'a> {
    pub(crate) begin_ns: u64,
    pub(crate) groups: &'a Ledger<Arc<str>>,
    pub(crate) programs: &'a Ledger<Program>,
    /// What the last recordings of programs found.
    pub(crate) recorded: &'a HashMap<Program, Recorded>,
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
    let mut families = groups::of(state);
    families.extend(recordings::of(state.recorded));
    families.extend(machine::of_kernel(&state.machine));
    families.extend(machine::of_state(state));
    families
}

/// The metrics of the agent itself, as of now.
pub(crate) fn of_agent(own: &Own) -> Vec<Family> {
    let mut families = agent::of_cost(own);
    families.extend(agent::of_traffic(own));
    families.extend(agent::of_recordings(&own.recordings));
    families
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

/// Those of a program.
fn labels_of((path, program): &Program) -> Labels {
    let Identity { service, cgroup, .. } = Identity::of(path);
    labels([("program", short(program)), ("service", service), ("cgroup", cgroup)])
}

impl Unit {
    /// As OTLP writes it (UCUM). A count has none: with "1", Prometheus would call a gauge a ratio.
    pub(crate) fn ucum(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::BytesPerSecond => "By/s",
        }
    }
}
