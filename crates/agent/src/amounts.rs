//! What is counted of a group, a program or the machine.

use std::ops::{AddAssign, Sub};

/// Counters, or their increase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amounts {
    pub(crate) minor: u64,
    pub(crate) major: u64,
    /// CPU time in minor faults, ns.
    pub(crate) fault_ns: f64,
    pub(crate) cpu_ns: u64,
    /// Huge pages by faults.
    pub(crate) huge: u64,
    /// Huge pages by khugepaged.
    pub(crate) collapses: u64,
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, more: Self) {
        self.minor += more.minor;
        self.major += more.major;
        self.fault_ns += more.fault_ns;
        self.cpu_ns += more.cpu_ns;
        self.huge += more.huge;
        self.collapses += more.collapses;
    }
}

impl Sub for Amounts {
    type Output = Self;

    /// What is left; nothing becomes negative.
    fn sub(self, less: Self) -> Self {
        Self {
            minor: self.minor.saturating_sub(less.minor),
            major: self.major.saturating_sub(less.major),
            fault_ns: (self.fault_ns - less.fault_ns).max(0.0),
            cpu_ns: self.cpu_ns.saturating_sub(less.cpu_ns),
            huge: self.huge.saturating_sub(less.huge),
            collapses: self.collapses.saturating_sub(less.collapses),
        }
    }
}
