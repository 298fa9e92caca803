//! How many samples were timed: the entry and the end belong to the same fault.
//!
//! In: the end of each sample, and the entry before it in the same thread. Out: a share, in words. Two events
//! with the same period sample the same faults, until one fault counts at only one of them. A fault that ends
//! in a signal does that. From then on they are out of step.
//!
//! It does not realign them (`monitor`).

use faultless_trace::measurement::{Count, Percent};
use faultless_trace::observation::{Record, What};

/// Samples so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pairing {
    samples: u64,
    paired: u64,
}

impl Pairing {
    /// A sample's end, and the last entry of its thread without an end.
    pub(crate) fn add(&mut self, entry: Option<&Record>, end: &Record) {
        let What::Sample { addr, ip, major: false, .. } = end.what else { return };
        let begins = |entry: &Record| matches!(entry.what, What::SampleEnter { addr: a, ip: i, .. } if (a, i) == (addr, ip));
        self.samples += 1;
        self.paired += u64::from(entry.is_some_and(begins));
    }

    /// The note for the reader; `None` without samples.
    pub(crate) fn note(&self) -> Option<String> {
        let Self { samples, paired } = *self;
        let share = Percent(paired as f64 / samples as f64);
        (samples > 0).then(|| format!("{share} of {} timed", Count(samples).of("sample")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: What) -> Record {
        Record { time_ns: 0, pid: 1, tid: 1, what }
    }

    fn entry(addr: u64) -> Record {
        record(What::SampleEnter { addr, ip: 7, mapped_bytes: None })
    }

    fn end(addr: u64, major: bool) -> Record {
        let (kernel, access, stack, weight, mapped_bytes) = (false, None, None, 97, None);
        record(What::Sample { addr, ip: 7, kernel, major, access, stack, weight, mapped_bytes })
    }

    #[test]
    fn a_sample_whose_entry_is_of_another_fault_or_missing_is_not_timed() {
        let mut pairing = Pairing::default();
        assert_eq!(pairing.note(), None);
        for addr in 0..48 {
            pairing.add(Some(&entry(addr)), &end(addr, false));
        }
        pairing.add(Some(&entry(1)), &end(2, false));
        pairing.add(None, &end(3, false));
        assert_eq!(pairing.note().unwrap(), "96 % of 50 samples timed");
    }

    #[test]
    fn a_major_fault_has_no_entry_among_the_samples_and_is_not_counted() {
        let mut pairing = Pairing::default();
        pairing.add(None, &end(1, true));
        assert_eq!(pairing.note(), None);
    }
}
