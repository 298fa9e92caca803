//! Faults that the kernel has timed itself, added up: no record of them was written.

use serde::{Deserialize, Serialize};

/// Faults of one kind and mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSum {
    /// All of them.
    pub faults: u64,
    /// Those whose thread had its processor from begin to end.
    pub timed: u64,
    /// Their time, uncorrected, ns.
    pub ns: u64,
    /// Those whose thread lost its processor meanwhile and got the same one back. The others were not timed: they ended
    /// on another processor, or a fault of another thread came between.
    pub switched: u64,
    /// Their time with the wait, ns.
    pub switched_ns: u64,
}

/// Faults by kind and mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSums {
    /// Minor ones: of user mode, of kernel mode.
    pub minor: [FaultSum; 2],
    /// Major ones likewise.
    pub major: [FaultSum; 2],
}

/// Every fault of a run, timed in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InKernel {
    /// The faults.
    pub sums: FaultSums,
    /// Switches of threads are known: a fault that waited is not among the timed ones.
    pub tells_switches: bool,
    /// Faults of the machine that are in no sum: there was no room for their process.
    pub beyond: u64,
    /// What a time in the kernel exceeds the time of a fault by, ns; may be negative.
    pub offset_ns: f64,
    /// Half-width of its 95 % interval, ns.
    pub offset_error_ns: f64,
    /// What timing adds to a fault, ns.
    pub added_ns: f64,
}

impl FaultSum {
    fn plus(self, other: Self) -> Self {
        Self {
            faults: self.faults + other.faults,
            timed: self.timed + other.timed,
            ns: self.ns + other.ns,
            switched: self.switched + other.switched,
            switched_ns: self.switched_ns + other.switched_ns,
        }
    }

    /// Mean time of those that were timed, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.ns as f64 / self.timed as f64)
    }
}

impl FaultSums {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let both = |of: [FaultSum; 2], with: [FaultSum; 2]| [of[0].plus(with[0]), of[1].plus(with[1])];
        Self { minor: both(self.minor, other.minor), major: both(self.major, other.major) }
    }

    /// Faults of user mode.
    pub fn user(&self) -> u64 {
        self.minor[0].faults + self.major[0].faults
    }

    /// Faults of all modes.
    pub fn all(&self) -> u64 {
        self.all_minor().faults + self.all_major().faults
    }

    /// Minor faults of all modes.
    pub fn all_minor(&self) -> FaultSum {
        self.minor[0].plus(self.minor[1])
    }

    /// Major faults of all modes.
    pub fn all_major(&self) -> FaultSum {
        self.major[0].plus(self.major[1])
    }
}

impl InKernel {
    /// How long faults waited, ns; `None` if switches are not known. A major fault that was not timed waited as long as
    /// the others.
    pub(crate) fn wait_ns(&self) -> Option<f64> {
        self.tells_switches.then_some(())?;
        let (minor, major) = (self.sums.all_minor(), self.sums.all_major());
        let waited = |sum: &FaultSum| {
            let on_cpu_ns = sum.mean_ns().unwrap_or(0.0) * sum.switched as f64;
            (sum.switched_ns as f64 - on_cpu_ns).max(0.0)
        };
        let of_major = waited(&major);
        let each_ns = if major.switched > 0 { of_major / major.switched as f64 } else { 0.0 };
        let unseen = major.faults.saturating_sub(major.timed + major.switched) as f64;
        Some(waited(&minor) + of_major + unseen * each_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_what_exceeds_the_time_on_a_processor_and_unseen_major_faults_wait_as_long() {
        let minor = FaultSum { faults: 11, timed: 10, ns: 10_000, switched: 1, switched_ns: 51_000 };
        let major = FaultSum { faults: 4, timed: 1, ns: 5_000, switched: 2, switched_ns: 210_000 };
        let sums = FaultSums { minor: [minor, FaultSum::default()], major: [FaultSum::default(), major] };
        let found = InKernel { sums, tells_switches: true, ..InKernel::default() };
        assert_eq!(found.wait_ns(), Some(50_000.0 + 200_000.0 + 100_000.0));
        assert_eq!(InKernel { tells_switches: false, ..found }.wait_ns(), None);
        assert_eq!((sums.user(), sums.all()), (11, 15));
    }
}
