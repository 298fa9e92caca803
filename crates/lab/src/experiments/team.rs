//! Threads of an experiment: those that share a piece of work and begin it together, and those that work beside it.
//!
//! In: parts and what to do with one. Out: the sum of what each returned, the CPU time and the faults that they took.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use faultless_os::counters::{self, Who};

use crate::experiment::{Notes, OWN_CPU, OWN_FAULTS, Refusal, processors};

/// Notes how many processors there are: claims about threads need it.
pub(super) fn note_processors(notes: &mut Notes) {
    notes.add("processors", processors() as f64);
}

/// What threads did together, from the moment when all were there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Sum of what they returned.
    pub(super) sum: u64,
    /// CPU time, ns.
    pub(super) cpu_ns: u64,
    /// Page faults.
    pub(super) faults: u64,
}

impl Done {
    /// Notes the CPU time; where others take faults meanwhile, those of these threads too. The sum is the checksum.
    pub(super) fn noted(self, notes: &mut Notes, others_fault: bool) -> u64 {
        notes.add(OWN_CPU, self.cpu_ns as f64);
        if others_fault {
            notes.add(OWN_FAULTS, self.faults as f64);
        }
        self.sum
    }
}

impl std::iter::Sum for Done {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        each.fold(Self::default(), |all, one| Self {
            sum: all.sum.wrapping_add(one.sum),
            cpu_ns: all.cpu_ns + one.cpu_ns,
            faults: all.faults + one.faults,
        })
    }
}

/// Does `work` with every part, each in a thread of its own.
///
/// # Errors
/// What a thread was refused, or a thread panicked. All are waited for.
pub(super) fn together<T: Send>(
    parts: Vec<T>,
    work: impl Fn(T) -> Result<u64, Refusal> + Sync,
) -> Result<Done, Refusal> {
    let (gate, work) = (Barrier::new(parts.len()), &work);
    let alone = |part: T| -> Result<Done, Refusal> {
        gate.wait();
        let faults = || counters::rusage(Who::Thread).map(|usage| usage.minor_faults + usage.major_faults);
        let (faults_before, cpu_before_ns) = (faults()?, counters::thread_cpu_ns());
        let sum = work(part)?;
        let cpu_ns = counters::thread_cpu_ns() - cpu_before_ns;
        Ok(Done { sum, cpu_ns, faults: faults()? - faults_before })
    };
    let alone = &alone;
    thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || alone(part))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).sum()
    })
}

fn panicked() -> Refusal {
    Refusal("a thread of the experiment panicked; see what it printed above".into())
}

/// `len` things in `count` contiguous parts of nearly the same length; the last ones are empty where there are too few.
pub(super) fn parts(len: usize, count: usize) -> Vec<Range<usize>> {
    let each = len.div_ceil(count.max(1));
    (0..count).map(|index| (index * each).min(len)..((index + 1) * each).min(len)).collect()
}

/// Memory in `count` parts as [`parts`] makes them, of whole units; what is left behind the last unit is in no part.
pub(super) fn cut(mut bytes: &mut [u8], count: usize, unit_bytes: usize) -> Vec<&mut [u8]> {
    let parts = parts(bytes.len() / unit_bytes, count);
    let take = |part: Range<usize>| {
        let (head, tail) = std::mem::take(&mut bytes).split_at_mut(part.len() * unit_bytes);
        bytes = tail;
        head
    };
    parts.into_iter().map(take).collect()
}

/// Threads that do something again and again while something else is measured.
#[derive(Debug)]
pub(super) struct Beside {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<(), Refusal>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    turns: AtomicU64,
}

impl Beside {
    /// Starts `count` threads, and returns when each has made its first turn.
    pub(super) fn start<T>(count: usize, turn: T) -> Self
    where
        T: Fn() -> Result<(), Refusal> + Send + Sync + 'static,
    {
        let (shared, turn) = (Arc::new(Shared::default()), Arc::new(turn));
        let gate = Arc::new(Barrier::new(count + 1));
        let one = |_| {
            let (shared, turn, gate) = (shared.clone(), turn.clone(), gate.clone());
            thread::spawn(move || {
                let first = turn();
                gate.wait();
                first?;
                while !shared.stop.load(Ordering::Relaxed) {
                    turn()?;
                    shared.turns.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let threads = (0..count).map(one).collect();
        gate.wait();
        Self { shared, threads }
    }

    /// Turns made since all have begun.
    pub(super) fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::Relaxed)
    }

    /// Ends them.
    ///
    /// # Errors
    /// What a turn was refused.
    pub(super) fn stop(mut self) -> Result<(), Refusal> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::page;
    use faultless_os::touch::Region;
    use std::time::Duration;

    #[test]
    fn parts_cover_everything_once() {
        assert_eq!(parts(10, 4), [0..3, 3..6, 6..9, 9..10]);
        assert_eq!(parts(2, 3), [0..1, 1..2, 2..2]);
        let mut bytes = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(cut(&mut bytes, 2, 2), [&[0_u8, 1, 2, 3][..], &[4, 5]]);
    }

    #[test]
    fn the_faults_of_each_thread_are_counted() {
        let done = together(parts(1000, 3), |range| {
            Region::base_pages(4 * page::size(), page::size())?.touch_write(page::size());
            Ok(range.sum::<usize>() as u64)
        });
        let done = done.unwrap();
        assert_eq!(done.sum, 1000 * 999 / 2);
        assert!((12..60).contains(&done.faults) && done.cpu_ns > 0, "{done:?}");
    }

    #[test]
    fn what_one_of_the_threads_was_refused_is_told() {
        let done =
            together(vec![1, 2], |part| if part == 2 { Err(Refusal("no more".into())) } else { Ok(part) });
        assert_eq!(done, Err(Refusal("no more".into())));
    }

    #[test]
    fn threads_beside_make_turns_until_they_are_stopped() {
        let beside = Beside::start(2, || Ok(()));
        while beside.turns() < 10 {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(beside.stop(), Ok(()));
    }

    #[test]
    fn a_refused_turn_is_told() {
        let beside = Beside::start(2, || Err(Refusal("no file".into())));
        assert_eq!(beside.stop(), Err(Refusal("no file".into())));
    }
}
