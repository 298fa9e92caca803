//! Metrics by control group and by program.

use super::{Family, Labels, Point, State, Unit, Value, counter, labels, labels_of};
use crate::amounts::Amounts;
use crate::identity::Identity;

/// The service of all groups without series of their own.
const OTHER: &str = "_other";
/// The service of what no group had.
const UNSEEN: &str = "_unseen";

/// Groups, then programs.
pub(super) fn of(state: &State<'_>) -> Vec<Family> {
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
    let programs = state.programs.rows().map(|(program, row)| Series {
        labels: labels_of(program),
        amounts: row.total,
        begin_ns: row.begin_ns,
    });
    let programs: Vec<Series> = programs.chain([other]).collect();
    let mut families = by_group(&groups);
    families.extend(by_program(&programs));
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
