//! A thread's switches and faults, and the recorded windows -> its states, span by span.

use super::{Class, Lane, State};

/// Whether a thread has a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchedState {
    On,
    Waiting,
    /// Able to run.
    Ready,
    Unknown,
}

/// Fills in a lane's spans and totals. `scheduled`, `recorded` and the lane's faults are by time; `classes` are the faults'.
pub(super) fn fill(
    lane: &mut Lane,
    scheduled: &[(u64, SchedState)],
    recorded: &[(u64, u64)],
    classes: &[Class],
) {
    let end_ns = lane.end_ns.max(lane.begin_ns);
    let timed = lane.faults.iter().filter_map(|&(begin_ns, len_ns, _, class)| {
        let major = classes.get(class as usize).is_some_and(|class| class.major);
        Some((begin_ns, begin_ns.saturating_add(len_ns?), major))
    });
    let mut faults = timed.peekable();
    let mut spans: Vec<(u64, State)> = Vec::new();
    let mut totals_ns = [0; State::ALL.len()];
    let (mut now, mut at, mut cover) = (lane.begin_ns, 0, 0);
    while now < end_ns {
        while faults.peek().is_some_and(|fault| fault.1 <= now) {
            faults.next();
        }
        while scheduled.get(at + 1).is_some_and(|next| next.0 <= now) {
            at += 1;
        }
        while recorded.get(cover).is_some_and(|span| span.1 <= now) {
            cover += 1;
        }
        let fault = faults.peek().copied();
        let span = recorded.get(cover).copied();
        // The current span ends, or the next one begins.
        let edge = |(from, to): (u64, u64)| if from <= now { to } else { from };
        let edges = [
            fault.map(|(from, to, _)| edge((from, to))),
            scheduled.get(at + 1).map(|next| next.0),
            span.map(edge),
        ];
        let len = edges.into_iter().flatten().fold(end_ns, u64::min) - now;
        let state = state(
            scheduled.get(at).map_or(SchedState::Unknown, |at| at.1),
            fault.filter(|fault| fault.0 <= now).map(|fault| fault.2),
            span.is_some_and(|span| span.0 <= now),
        );
        totals_ns[state as usize] += len;
        match spans.last_mut() {
            Some(last) if last.1 == state => last.0 += len,
            _ => spans.push((len, state)),
        }
        now += len;
    }
    (lane.end_ns, lane.spans, lane.totals_ns) = (end_ns, spans, totals_ns);
}

/// `fault`: the thread is in a fault; whether it is a major one. A thread preempted inside a fault waits for
/// a processor, not for memory.
fn state(at: SchedState, fault: Option<bool>, is_recorded: bool) -> State {
    match (fault, at) {
        (_, SchedState::Ready) => State::Preempted,
        (Some(_), SchedState::Waiting) => State::Blocked,
        (Some(true), _) => State::Major,
        (Some(false), _) => State::Minor,
        (None, SchedState::Waiting) => State::Waiting,
        (None, SchedState::On) if is_recorded => State::Running,
        (None, SchedState::On) => State::Unrecorded,
        (None, SchedState::Unknown) => State::Unknown,
    }
}
