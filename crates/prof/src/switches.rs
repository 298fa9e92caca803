//! When thread switches are recorded: while faults may wait, else only now and then.
//!
//! In: how many switches came, and how many faults lost their processor. Out: on or off. A record of a switch costs the
//! program 1 us, and some programs switch 40 000 times a second without a wait in any fault.
//!
//! It does not switch the events.

use crate::tuning as t;

/// The current stretch.
#[derive(Debug)]
pub(crate) struct Switches {
    on: bool,
    begin_ns: u64,
    records: u64,
    waited: u64,
    /// They were off at some time.
    pub(crate) paused: bool,
}

impl Switches {
    /// Recorded from now on.
    pub(crate) fn begin(begin_ns: u64) -> Self {
        Self { on: true, begin_ns, records: 0, waited: 0, paused: false }
    }

    /// More switches, and faults that waited. Returns whether to record switches from now on, if that changes.
    pub(crate) fn seen(&mut self, now_ns: u64, records: u64, waited: u64) -> Option<bool> {
        (self.records, self.waited) = (self.records + records, self.waited + waited);
        let is_over = now_ns.saturating_sub(self.begin_ns) >= t::SWITCHES_NS;
        let is_dear = self.on && self.records >= t::SWITCHES_MOST && self.waited == 0;
        if !is_dear && !is_over && (self.on || self.waited == 0) {
            return None;
        }
        let was_on = std::mem::replace(&mut self.on, !is_dear);
        self.paused |= is_dear;
        // What is off stays so until the stretch is over.
        let begin_ns = if is_dear { self.begin_ns } else { now_ns };
        (self.begin_ns, self.records, self.waited) = (begin_ns, 0, 0);
        (was_on != self.on).then_some(self.on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_NS: u64 = 10_000_000;

    /// Switches recorded in two seconds of a program with so many per step, and with faults that wait.
    fn recorded(per_step: u64, waited: u64) -> u64 {
        let (mut switches, mut on, mut recorded) = (Switches::begin(0), true, 0);
        for step in 1..=2_000_000_000 / STEP_NS {
            let new = if on { per_step } else { 0 };
            recorded += new;
            on = switches.seen(step * STEP_NS, new, if on { waited } else { 0 }).unwrap_or(on);
        }
        recorded
    }

    #[test]
    fn only_switches_that_are_many_and_in_no_fault_are_left_out() {
        assert_eq!(recorded(10, 0), 2_000, "few");
        assert_eq!(recorded(400, 1), 80_000, "faults wait");
        assert!(recorded(400, 0) < 80_000 / 4);
    }

    #[test]
    fn a_major_fault_calls_for_them_at_once() {
        let mut switches = Switches::begin(0);
        assert_eq!(switches.seen(1, t::SWITCHES_MOST, 0), Some(false));
        assert_eq!(switches.seen(2, 0, 0), None);
        assert_eq!(switches.seen(3, 0, 1), Some(true));
    }
}
