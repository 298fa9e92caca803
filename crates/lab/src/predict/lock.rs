//! A lock that serves its waiters in order of arrival.
//!
//! In: agents that ask and release. Out: who holds it next, and whose cache had it before. The caller decides
//! how long a section lasts.

use std::collections::VecDeque;

/// A lock.
#[derive(Debug, Default)]
pub(super) struct Lock {
    is_held: bool,
    last: Option<u32>,
    waiting: VecDeque<u32>,
}

/// An agent that now holds the lock, and who held it before.
pub(super) type Grant = (u32, Option<u32>);

impl Lock {
    /// Asks for the lock; `None` if the agent must wait.
    pub(super) fn ask(&mut self, agent: u32) -> Option<Grant> {
        if self.is_held {
            self.waiting.push_back(agent);
            return None;
        }
        Some(self.grant(agent))
    }

    /// Releases the lock; the next waiter gets it.
    pub(super) fn release(&mut self) -> Option<Grant> {
        self.is_held = false;
        let next = self.waiting.pop_front()?;
        Some(self.grant(next))
    }

    fn grant(&mut self, agent: u32) -> Grant {
        self.is_held = true;
        (agent, self.last.replace(agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_served_in_order() {
        let mut lock = Lock::default();
        assert_eq!(lock.ask(1), Some((1, None)));
        assert_eq!((lock.ask(2), lock.ask(3)), (None, None));
        assert_eq!(lock.release(), Some((2, Some(1))));
        assert_eq!((lock.release(), lock.release()), (Some((3, Some(2))), None));
        assert_eq!(lock.ask(3), Some((3, Some(3))));
    }
}
