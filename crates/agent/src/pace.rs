//! How often to poll, so that the agent stays within its budget.
//!
//! In: what each interval cost. Out: the next interval: twice as long if the last one cost too much, half as long, but
//! never below what was asked for, once the cost is far below the budget.

use std::time::Duration;

use crate::tuning as t;

/// The pace.
#[derive(Debug)]
pub(crate) struct Pace {
    asked: Duration,
    /// Now.
    pub(crate) interval: Duration,
    /// CPU time per time.
    budget: f64,
    is_first: bool,
}

impl Pace {
    /// As asked for. `budget` is in per cent of a processor.
    pub(crate) fn new(asked: Duration, budget: f64) -> Self {
        Self { asked, interval: asked, budget: budget / 100.0, is_first: true }
    }

    /// Takes the cost of an interval that lasted `wall`. Returns a line to print if the interval changes. The first one
    /// has the cost of the start, and changes nothing.
    pub(crate) fn took(&mut self, cpu: Duration, wall: Duration) -> Option<String> {
        if std::mem::take(&mut self.is_first) {
            return None;
        }
        let share = cpu.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        let next = if share > self.budget {
            (self.interval * 2).min(t::INTERVAL_MAX)
        } else if share < self.budget * t::NARROW_BELOW {
            (self.interval / 2).max(self.asked)
        } else {
            self.interval
        };
        let changes = next != self.interval;
        self.interval = next;
        changes.then(|| {
            format!(
                "the last interval took {:.2} % of a processor; the budget is {:.2} %; polling every {} s now",
                share * 100.0,
                self.budget * 100.0,
                next.as_secs_f64()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_widens_up_to_a_limit_and_returns() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(15 * second, 0.5);
        assert_eq!(pace.took(10 * second, 15 * second), None, "the start");
        let said = pace.took(second, 15 * second).unwrap();
        assert!(said.contains("6.67 %") && said.contains("every 30 s"), "{said}");
        for _ in 0..9 {
            pace.took(9 * second, 15 * second);
        }
        assert_eq!(pace.interval, 300 * second);
        assert_eq!(pace.took(second, 300 * second), None, "0.33 % is within the budget, not far below");
        for _ in 0..9 {
            pace.took(Duration::ZERO, second);
        }
        assert_eq!(pace.interval, 15 * second);
    }
}
