//! Events in the order of their time. Events of the same time keep the order in which they were added.
//!
//! In: a time and an event. Out: the earliest event. Nothing here is random, so a run can be repeated.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A time in ns that has an order. No time of a run is NaN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) f64);

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Time {}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// An agent has finished a delay, or its section of a lock.
    Step(u32),
    /// The next piece of work on the memory of a node is finished, unless its load has changed since.
    Memory {
        /// The node.
        node: u32,
        /// The version of the load that this event is about.
        version: u32,
    },
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    added: u64,
}

impl Queue {
    /// Adds an event.
    pub(super) fn add(&mut self, at_ns: f64, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((Time(at_ns), self.added, event)));
    }

    /// Removes the earliest event.
    pub(super) fn next(&mut self) -> Option<(f64, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at.0, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_age() {
        let mut queue = Queue::default();
        for (at, agent) in [(2.0, 1), (1.0, 2), (2.0, 3), (0.5, 4)] {
            queue.add(at, Event::Step(agent));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(_, event)| event).collect();
        assert_eq!(order, [4, 2, 1, 3].map(Event::Step));
    }
}
