//! Samples: the entry and the end of one fault in so many, and whether they belong together.
//!
//! In: entries and ends of samples. Out: the entry before each end, how many samples were timed, and whether the
//! program's first thread, or a processor, is out of step. Two events with the same period sample the same faults, until
//! one fault counts at only one of them. A fault that ends in a signal does that.
//!
//! It does not realign them (`monitor`).

use faultless_trace::measurement::{Count, Percent};
use faultless_trace::observation::{Record, What};
use faultless_trace::pairer::{OffCpu, Pairer};

use crate::tuning as t;

/// Samples so far.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    entries: Pairer<Record>,
    all: u64,
    timed: u64,
    /// The program's first thread; `None`: the events belong to processors.
    first: Option<u32>,
    /// How many of its last samples, or of all, were out of step.
    apart: u32,
}

impl Samples {
    pub(crate) fn of(first: Option<u32>) -> Self {
        Self { first, ..Self::default() }
    }

    /// A sample's entry.
    pub(crate) fn enter(&mut self, addr: u64, entry: Record) {
        self.entries.enter(entry.tid, entry.time_ns, addr, entry);
    }

    /// A switch of a thread.
    pub(crate) fn switch(&mut self, tid: u32, time_ns: u64, out: bool, preempted: bool) {
        self.entries.switch(tid, time_ns, out, preempted);
    }

    /// A sample's end. Returns the last entry of its thread without an end, and what was waited since. A major fault has no entry among the
    /// samples, unless it is one by chance.
    pub(crate) fn end(&mut self, end: &Record) -> (Option<Record>, OffCpu) {
        let (entry, off_cpu) = self.entries.take(end.tid);
        let entry = entry.map(|entry| entry.with);
        // Processes that fork fault at the same places again and again.
        let is_near = |entry: &Record| end.time_ns.saturating_sub(entry.time_ns) < t::SAMPLE_NS_MAX;
        let entry = entry.filter(|entry| self.first.is_some() || is_near(entry));
        let place = |record: &Record| match record.what {
            What::SampleEnter { addr, ip, .. } | What::Sample { addr, ip, major: false, .. } => {
                Some((addr, ip))
            }
            _ => None,
        };
        if let Some(at) = place(end) {
            let is_timed = entry.as_ref().and_then(place) == Some(at);
            self.all += 1;
            self.timed += u64::from(is_timed);
            if self.first.is_none_or(|first| end.tid == first) {
                self.apart = if is_timed { 0 } else { self.apart + 1 };
            }
        }
        // Without its entry, the waits are of what came before.
        let off_cpu = if entry.is_some() { off_cpu } else { OffCpu::default() };
        (entry, off_cpu)
    }

    /// A thread that has ended.
    pub(crate) fn exit(&mut self, tid: u32) {
        self.entries.take(tid);
    }

    /// Whether samples no longer match. Answers true once per that many mismatches.
    pub(crate) fn is_apart(&mut self) -> bool {
        let is_apart = self.apart >= t::APART_SAMPLES;
        if is_apart {
            self.apart = 0;
        }
        is_apart
    }

    /// The note for the reader; `None` without samples.
    pub(crate) fn note(&self) -> Option<String> {
        let share = Percent(self.timed as f64 / self.all as f64);
        (self.all > 0).then(|| format!("{share} of {} timed", Count(self.all).of("sample")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tid: u32, what: What) -> Record {
        Record { time_ns: 0, pid: 7, tid, what }
    }

    fn end(tid: u32, addr: u64, major: bool) -> Record {
        let (kernel, access, stack, weight, mapped_bytes) = (false, None, None, 97, None);
        record(tid, What::Sample { addr, ip: 1, kernel, major, access, stack, weight, mapped_bytes })
    }

    fn sample(samples: &mut Samples, tid: u32, entry: u64, addr: u64) -> bool {
        samples.enter(entry, record(tid, What::SampleEnter { addr: entry, ip: 1, mapped_bytes: None }));
        samples.end(&end(tid, addr, false));
        samples.is_apart()
    }

    #[test]
    fn a_sample_whose_entry_is_of_another_fault_or_missing_is_not_timed() {
        let mut samples = Samples::default();
        samples.end(&end(1, 1, true));
        assert_eq!(samples.note(), None, "a major fault");
        for addr in 0..48 {
            sample(&mut samples, 1, addr, addr);
        }
        sample(&mut samples, 1, 1, 2);
        samples.end(&end(1, 3, false));
        assert_eq!(samples.note().unwrap(), "96 % of 50 samples timed");
    }

    #[test]
    fn samples_that_are_apart_are_told_once_and_those_of_others_do_not_count() {
        let mut samples = Samples::of(Some(7));
        let mut sample = |tid, entry, end| sample(&mut samples, tid, entry, end);
        assert!(!sample(7, 1, 1) && !sample(7, 1, 2) && !sample(8, 1, 2) && !sample(8, 1, 2));
        assert!(sample(7, 3, 4) && !sample(7, 4, 5), "the second, and asked anew");
        assert!(!sample(7, 5, 5) && !sample(7, 5, 6), "one that matches begins anew");
    }

    #[test]
    fn a_processor_is_apart_by_any_thread_and_an_entry_long_ago_is_of_another_fault() {
        let mut samples = Samples::of(None);
        assert!(!sample(&mut samples, 8, 1, 2) && sample(&mut samples, 9, 1, 2));
        for (took_ns, is_found) in [(t::SAMPLE_NS_MAX - 1, true), (t::SAMPLE_NS_MAX, false)] {
            samples.enter(5, record(3, What::SampleEnter { addr: 5, ip: 1, mapped_bytes: None }));
            let end = Record { time_ns: took_ns, ..end(3, 5, false) };
            assert_eq!(samples.end(&end).0.is_some(), is_found);
        }
    }
}
