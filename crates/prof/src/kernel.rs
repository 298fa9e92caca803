//! Kernel stacks from the CPU clock, counted as they come.
//!
//! In: the rings of kernel stacks. Out: [`KernelSamples`] by function name, or why there are none.
//!
//! It does not tell zeroing from allocation (`trace`).

use std::collections::HashMap;

use faultless_os::ring::{Raw, Ring, records};
use faultless_trace::measurement::Count;
use faultless_trace::observation::KernelSamples;

use crate::symbols::{HIDDEN, Symbols};
use crate::tuning as t;

/// KernelStacks seen so far, by address.
#[derive(Debug, Default)]
pub(crate) struct KernelStacks {
    hertz: u64,
    total: u64,
    in_kernel: u64,
    counts: HashMap<Vec<u64>, u64>,
    bytes: Vec<u8>,
}

impl KernelStacks {
    /// None yet; samples will come at this rate.
    pub(crate) fn at(hertz: u64) -> Self {
        Self { hertz, ..Self::default() }
    }

    /// Takes what the ring holds.
    pub(crate) fn drain(&mut self, ring: &mut Ring) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        ring.drain_into(&mut bytes);
        self.take(&bytes);
        self.bytes = bytes;
    }

    fn take(&mut self, bytes: &[u8]) {
        for raw in records(bytes) {
            let Raw::Sample(sample) = raw else { continue };
            let chain: Vec<u64> = sample.chain().collect();
            self.count(sample.kernel, &chain, sample.ip);
        }
    }

    /// Counts a sample, with the kernel's part of its chain.
    pub(crate) fn count(&mut self, kernel: bool, chain: &[u64], ip: u64) {
        self.total += 1;
        if kernel {
            self.in_kernel += 1;
            let chain = if chain.is_empty() { std::slice::from_ref(&ip) } else { chain };
            match self.counts.get_mut(chain) {
                Some(count) => *count += 1,
                None => _ = self.counts.insert(chain.to_vec(), 1),
            }
        }
    }

    /// The samples with names. `at_any_cost`: also for a program so short that reading the names would show
    /// in its cost.
    ///
    /// # Errors
    /// There are too few samples, or no names; the text says which.
    pub(crate) fn finish(self, at_any_cost: bool) -> Result<KernelSamples, String> {
        if self.in_kernel < t::KERNEL_SAMPLES_MIN {
            let needed_s = t::KERNEL_SAMPLES_MIN as f64 / self.hertz.max(1) as f64;
            let more =
                if at_any_cost { "" } else { "; ask for this source by name to have five times as many" };
            return Err(format!(
                "{} in the kernel; {} are needed, {needed_s:.1} s of kernel time{more}",
                Count(self.in_kernel).of("sample"),
                t::KERNEL_SAMPLES_MIN,
            ));
        }
        if self.total < t::KERNEL_SAMPLES_CHEAP && !at_any_cost {
            return Err(format!(
                "the program was short ({} of its CPU time): naming the kernel's functions would cost too much beside \
                 it; ask for this source by name to have it all the same",
                Count(self.total).of("sample")
            ));
        }
        Ok(self.named(Symbols::of_kernel().ok_or(HIDDEN)?))
    }

    fn named(self, symbols: &Symbols) -> KernelSamples {
        let mut stacks: HashMap<Vec<String>, u64> = HashMap::new();
        for (chain, count) in self.counts {
            let names = chain.iter().map(|&address| symbols.name(address)).collect();
            *stacks.entry(names).or_default() += count;
        }
        let mut stacks: Vec<_> = stacks.into_iter().collect();
        stacks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        KernelSamples { period_ns: 1_000_000_000 / self.hertz.max(1), total: self.total, stacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_counted_together_and_the_most_frequent_comes_first() {
        let symbols = Symbols::parse("1000 T alpha\n2000 t beta\n");
        let counts = HashMap::from([(vec![0x1001], 2), (vec![0x1002], 3), (vec![0x2000, 0x1000], 1)]);
        let samples =
            KernelStacks { hertz: 997, total: 9, in_kernel: 6, counts, bytes: Vec::new() }.named(&symbols);
        assert_eq!((samples.total, samples.period_ns), (9, 1_003_009));
        let expected = [(vec!["alpha".to_owned()], 5), (vec!["beta".to_owned(), "alpha".to_owned()], 1)];
        assert_eq!(samples.stacks, expected);
    }

    #[test]
    fn few_samples_are_refused_and_short_programs_unless_asked_for() {
        let why =
            KernelStacks { total: 9, in_kernel: 6, ..KernelStacks::default() }.finish(true).unwrap_err();
        assert!(why.contains("6 samples") && why.contains("400"), "{why}");
        let short = || KernelStacks { total: 900, in_kernel: 800, ..KernelStacks::default() };
        assert!(short().finish(false).unwrap_err().contains("short"));
        assert!(!short().finish(true).is_err_and(|why| why.contains("short")));
    }
}
