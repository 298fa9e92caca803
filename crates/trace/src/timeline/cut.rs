//! Lanes -> the threads and the time that a filter asks for.

use super::{Lane, State};
use crate::filter::Filter;

/// The begin and end that are shown, ns.
pub(super) fn bounds(filter: &Filter, begin_ns: u64, end_ns: u64) -> (u64, u64) {
    let Some(range) = &filter.time_ns else { return (begin_ns, end_ns) };
    let at = |since: u64| begin_ns.saturating_add(since).clamp(begin_ns, end_ns);
    (at(range.start), at(range.end))
}

/// Drops other threads, other times, and faults that are not selected.
pub(super) fn to_selection(
    lanes: &mut Vec<Lane>,
    filter: &Filter,
    begin_ns: u64,
    is_selected: impl Fn(u64, u32) -> bool,
) {
    let mut processes: std::collections::HashMap<u32, String> = std::collections::HashMap::new();
    for lane in lanes.iter().filter(|lane| lane.pid == lane.tid) {
        processes.insert(lane.pid, lane.name.clone());
    }
    let process = |pid: u32| processes.get(&pid).map_or("", String::as_str);
    lanes.retain(|lane| filter.holds_thread(lane.pid, lane.tid, process(lane.pid), &lane.name));
    for lane in lanes.iter_mut() {
        lane.faults.retain(|fault| is_selected(fault.0, lane.tid));
        if filter.time_ns.is_some() {
            let (begin_ns, end_ns) = bounds(filter, begin_ns, u64::MAX);
            cut(lane, begin_ns, end_ns);
        }
    }
    lanes.retain(|lane| lane.begin_ns < lane.end_ns || filter.time_ns.is_none());
}

/// Cuts a lane to a time.
fn cut(lane: &mut Lane, begin_ns: u64, end_ns: u64) {
    let (mut at, mut spans, mut totals_ns) = (lane.begin_ns, Vec::new(), [0; State::ALL.len()]);
    for (len_ns, state) in std::mem::take(&mut lane.spans) {
        let next = at.saturating_add(len_ns);
        let kept = next.min(end_ns).saturating_sub(at.max(begin_ns));
        if kept > 0 {
            spans.push((kept, state));
            totals_ns[state as usize] += kept;
        }
        at = next;
    }
    let holds = |ns: u64| (begin_ns..end_ns).contains(&ns);
    lane.lock_waits.retain(|wait| holds(wait.0));
    lane.cpu.retain(|sample| holds(sample.0));
    (lane.spans, lane.totals_ns) = (spans, totals_ns);
    lane.begin_ns = lane.begin_ns.max(begin_ns);
    lane.end_ns = lane.end_ns.min(end_ns).max(lane.begin_ns);
}
