//! Pressure: whether memory is short, and whether a processor is idle.
//!
//! In: PSI of the machine and of the control group, the group's limit, the running tasks. Out: two facts. There is no
//! unprivileged measure of memory bandwidth; running tasks and PSI replace it.

use faultless_os::pressure::{self, Group, Waiting};

use crate::tuning::{CPU_WAITING, MEMORY_WAITING, NEAR_SHARE};

/// What the machine allows at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pressure {
    /// Tasks wait for memory, or the control group is near its limit.
    pub(crate) memory_is_short: bool,
    /// A processor has nothing to do.
    pub(crate) cpu_is_idle: bool,
    /// What may still be charged to the control group, in bytes; `None` without a limit, or if nothing is known.
    pub(crate) group_left_bytes: Option<u64>,
}

impl Pressure {
    /// Measures. Without `may_read`, no file is opened and nothing is known. The processors matter only for work ahead.
    pub(crate) fn now(may_read: bool, works_ahead: bool) -> Self {
        let waits =
            |waiting: Option<Waiting>, limit| waiting.is_some_and(|waiting| waiting >= Waiting(limit));
        let is_near = |group: Group| group.left_bytes() < group.limit_bytes / NEAR_SHARE;
        let group = may_read.then(pressure::group).flatten();
        Self {
            group_left_bytes: group.map(|group| group.left_bytes()),
            memory_is_short: may_read
                && (waits(pressure::memory(), MEMORY_WAITING)
                    || waits(pressure::group_memory(), MEMORY_WAITING)
                    || group.is_some_and(is_near)),
            cpu_is_idle: may_read
                && works_ahead
                && !waits(pressure::cpu(), CPU_WAITING)
                && pressure::idle_cpus().is_some_and(|idle| idle > 0),
        }
    }
}
