//! Metrics of the whole machine, and what the figures rest on.

use super::{Family, State, Unit, Value, alone, counter, gauge, point};
use crate::identity::short;
use crate::machine::Machine;

/// What the kernel counts since boot.
pub(super) fn of_kernel(machine: &Machine) -> Vec<Family> {
    let counted = |name, help, count: Option<u64>| {
        let points = count.map(|count| alone(Value::Count(count)));
        counter(name, help, Unit::None, points.into_iter().collect())
    };
    let waits = [("some", machine.some_waited_s), ("all", machine.all_waited_s)];
    let waits = waits.into_iter().filter_map(|(tasks, s)| Some(point([("tasks", tasks)], Value::Number(s?))));
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
    ]
}

/// Prices, sources, and how many series there are.
pub(super) fn of_state(state: &State<'_>) -> Vec<Family> {
    let shown = state.groups.rows().count() as f64;
    let sources = state.notes.iter().map(|note| {
        let used = Value::Number(f64::from(u8::from(note.used)));
        point([("source", short(&note.source))], used)
    });
    vec![
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
