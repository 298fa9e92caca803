//! When a pool wakes its background thread.
//!
//! In: a policy; then, under the lock, how many bytes are retained and zeroed. Out: whether there is work. Pure.

use crate::policy::{Policy, Prefault, Scrub};
use crate::tuning::FLOOR_BYTES;

/// The bounds, in bytes, that wake a sleeping background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wakeup {
    /// More than this is retained: it may decay.
    pub(crate) retained_above: usize,
    /// Less than this is retained: the stock is low.
    pub(crate) retained_below: usize,
    /// Less than this is zeroed, and more is retained: there is memory to scrub.
    pub(crate) zeroed_below: usize,
}

impl Wakeup {
    /// Nothing wakes the thread: it is awake, or there is none.
    pub(crate) const NEVER: Self = Self { retained_above: usize::MAX, retained_below: 0, zeroed_below: 0 };

    /// The bounds of a policy; equal to [`Wakeup::NEVER`] if the policy needs no thread.
    pub(crate) fn of(policy: Policy) -> Self {
        let retained_above = if policy.retain.decay_ns.is_some() { floor_bytes(policy) } else { usize::MAX };
        let retained_below = if let Prefault::Ahead { low, .. } = policy.prefault { low } else { 0 };
        let zeroed_below = if let Scrub::Ahead { start, .. } = policy.scrub { start } else { 0 };
        Self { retained_above, retained_below, zeroed_below }
    }

    /// Whether there is work, with so many bytes retained and so many of these zeroed.
    pub(crate) fn is_due(self, retained: usize, zeroed: usize) -> bool {
        retained > self.retained_above
            || retained < self.retained_below
            || (zeroed < self.zeroed_below && retained > zeroed)
    }

    /// Whether the policy asks for work ahead of need.
    pub(crate) fn is_ahead(self) -> bool {
        self.retained_below > 0 || self.zeroed_below > 0
    }

    /// Whether free memory decays.
    pub(crate) fn decays(self) -> bool {
        self.retained_above < usize::MAX
    }
}

/// Bytes that never decay: what is not worth a thread, and what was made resident on purpose.
pub(crate) fn floor_bytes(policy: Policy) -> usize {
    let stock = if let Prefault::Ahead { high, .. } = policy.prefault { high } else { 0 };
    FLOOR_BYTES.max(stock).max(policy.prewarm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_due_beyond_each_bound() {
        let wakeup = Wakeup { retained_above: 10, retained_below: 3, zeroed_below: 2 };
        assert!(!wakeup.is_due(10, 2) && wakeup.is_due(11, 2) && wakeup.is_due(2, 2) && wakeup.is_due(5, 1));
        assert!(!wakeup.is_due(3, 3), "nothing is left to zero");
        assert!(!Wakeup::NEVER.is_due(0, 0) && !Wakeup::NEVER.is_due(usize::MAX, 0));
    }
}
