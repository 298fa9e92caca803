//! Kernel stacks of the calling thread, between two calls.
//!
//! In: a rate. Out: [`KernelSamples`] of what the thread did while sampling was on. The ring holds the whole
//! run: nothing reads it meanwhile, so reading is never sampled. Each of several threads has a sampler of its own.
//!
//! It does not sample other processes ([`observe`](crate::observe)).

use faultless_os::perf::{Event, Output, Software, Spec, Target};
use faultless_os::ring::Ring;
use faultless_trace::observation::KernelSamples;

use crate::kernel::KernelStacks;
use crate::remedy::remedy;
use crate::tuning as t;

/// A sampler, off until [`Sampler::enable`].
#[derive(Debug)]
pub struct Sampler {
    event: Event,
    ring: Ring,
    hertz: u64,
}

impl Sampler {
    /// Opens it for the calling thread, at this many samples per second of CPU time.
    ///
    /// # Errors
    /// There is no right to look into the kernel, or the rate is above `kernel.perf_event_max_sample_rate`.
    /// The text has the remedy.
    pub fn of_this_thread(hertz: u64) -> Result<Self, String> {
        let spec = Spec {
            event: Software::CpuClock,
            output: Output::KernelStacks { hertz },
            user_only: false,
            inherit: false,
            on_exec: false,
            disabled: true,
        };
        let event = Event::open(&spec, Target { pid: 0, cpu: None }, None).map_err(remedy)?;
        let ring = Ring::map(&event, t::OWN_RING_PAGES).map_err(remedy)?;
        Ok(Self { event, ring, hertz })
    }

    /// Switches it on.
    ///
    /// # Errors
    /// None in practice.
    pub fn enable(&self) -> faultless_os::Result<()> {
        self.event.enable()
    }

    /// Switches it off.
    ///
    /// # Errors
    /// None in practice.
    pub fn disable(&self) -> faultless_os::Result<()> {
        self.event.disable()
    }

    /// The samples of all these, with the names of functions: some 50 ms of work.
    ///
    /// # Errors
    /// There are too few samples, or no names; the text says which.
    pub fn finish(samplers: Vec<Self>) -> Result<KernelSamples, String> {
        let mut stacks = KernelStacks::at(samplers.first().map_or(0, |sampler| sampler.hertz));
        for mut sampler in samplers {
            stacks.drain(&mut sampler.ring);
        }
        stacks.finish(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::counters::thread_cpu_ns;
    use faultless_os::touch::time_first_touches;

    const PAGES: usize = 4000;

    #[test]
    fn the_faults_of_this_thread_are_seen_in_the_kernel() {
        let sampler = match Sampler::of_this_thread(4_999) {
            Ok(sampler) => sampler,
            Err(why) => return faultless_wants::missing_feature("perf events", why),
        };
        let begin_ns = thread_cpu_ns();
        sampler.enable().unwrap();
        let mut ticks = Vec::with_capacity(PAGES);
        while thread_cpu_ns() - begin_ns < 400_000_000 {
            ticks.clear();
            time_first_touches(PAGES, &mut ticks).unwrap();
        }
        sampler.disable().unwrap();
        match Sampler::finish(vec![sampler]) {
            Ok(samples) => {
                let in_fault = |stack: &[String]| stack.iter().any(|name| name.contains("fault"));
                let found: u64 =
                    samples.stacks.iter().filter(|(stack, _)| in_fault(stack)).map(|(_, n)| n).sum();
                assert!(found > 100, "{found} of {}", samples.total);
            }
            Err(why) => faultless_wants::missing_feature("names of the kernel's functions", why),
        }
    }
}
