//! What a run tells while it goes on.
//!
//! In: the counters of a monitor, again and again. Out: a [`Tick`] at each interval, to whoever asked for it.

use std::time::Duration;

use faultless_os::counters::now_ns;
use faultless_trace::observation::Tick;

use super::Monitor;
use crate::levels::Levels;

/// Tells of a run while it goes on.
pub struct Ticker<'a> {
    /// From one call to the next.
    pub every: Duration,
    /// What to call.
    pub tell: &'a mut dyn FnMut(&Tick),
}

/// A ticker, and the counters at its last tick.
pub(crate) struct Ticks<'a> {
    ticker: Ticker<'a>,
    /// Time, faults and CPU time then.
    last: (u64, Option<u64>, Option<u64>),
    next_ns: u64,
}

impl<'a> Ticks<'a> {
    pub(crate) fn new(ticker: Ticker<'a>, monitor: &Monitor) -> Self {
        let next_ns = monitor.begin_ns + ticker.every.as_nanos() as u64;
        Self { ticker, last: (monitor.begin_ns, Some(0), monitor.cpu_ns()), next_ns }
    }

    /// Time until the next tick is due.
    pub(crate) fn left_ns(&self) -> u64 {
        self.next_ns.saturating_sub(now_ns())
    }

    /// Tells of the time since the last tick.
    pub(crate) fn tell(&mut self, monitor: &Monitor) {
        let now = now_ns();
        let counters = (now, monitor.session.faults(), monitor.cpu_ns());
        let (before_ns, faults, cpu_ns) = std::mem::replace(&mut self.last, counters);
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        (self.ticker.tell)(&Tick {
            time_ns: now - monitor.begin_ns,
            span_ns: now - before_ns,
            faults: since(counters.1, faults),
            cpu_ns: since(counters.2, cpu_ns),
            anon_bytes: monitor.levels.as_ref().map(Levels::held_bytes),
        });
        // The next one is due in step with the first, however late this one is.
        let every_ns = (self.ticker.every.as_nanos() as u64).max(1);
        self.next_ns += every_ns * ((now - self.next_ns) / every_ns + 1);
    }
}
