//! Threads of an experiment: those that share a piece of work and begin it together, and those that work beside
//! it.
//!
//! In: parts of the work, and what to do with each. Out: the sum of the return values, the time and the faults.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use faultless_os::counters::{self, Who};
use faultless_os::procfs;
use faultless_os::touch::Churner;

use crate::cell::Refusal;
use crate::experiment::{Notes, processors};
use crate::sample::{OWN_CPU, OWN_FAULTS, OWN_WALL};

/// Notes how many processors there are: claims about threads need it.
pub(super) fn note_processors(notes: &mut Notes) {
    notes.add("processors", processors() as f64);
}

/// The work of all threads together, from the moment when all have started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Sum of their return values.
    pub(super) sum: u64,
    /// CPU time, ns.
    pub(super) cpu_ns: u64,
    /// Page faults.
    pub(super) faults: u64,
    /// When the first began and the last ended, by [`counters::now_ns`].
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

impl Done {
    /// Notes CPU and wall time, and the threads' own faults where others fault meanwhile. Returns the sum as
    /// checksum.
    pub(super) fn noted(self, notes: &mut Notes, others_fault: bool) -> u64 {
        notes.add(OWN_CPU, self.cpu_ns as f64);
        notes.add(OWN_WALL, self.end_ns.saturating_sub(self.begin_ns) as f64);
        if others_fault {
            notes.add(OWN_FAULTS, self.faults as f64);
        }
        self.sum
    }
}

impl std::iter::Sum for Done {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        let all = each.reduce(|all, one| Self {
            sum: all.sum.wrapping_add(one.sum),
            cpu_ns: all.cpu_ns + one.cpu_ns,
            faults: all.faults + one.faults,
            begin_ns: all.begin_ns.min(one.begin_ns),
            end_ns: all.end_ns.max(one.end_ns),
        });
        all.unwrap_or_default()
    }
}

/// Does `work` with every part, each in its own thread.
///
/// # Errors
/// A thread was refused something, or panicked. All threads are waited for.
pub(super) fn together<T: Send>(
    parts: Vec<T>,
    work: impl Fn(T) -> Result<u64, Refusal> + Sync,
) -> Result<Done, Refusal> {
    let (gate, work) = (Barrier::new(parts.len()), &work);
    let alone = |part: T| -> Result<Done, Refusal> {
        gate.wait();
        let faults = || counters::rusage(Who::Thread).map(|usage| usage.minor_faults + usage.major_faults);
        let (faults_before, cpu_before_ns) = (faults()?, counters::thread_cpu_ns());
        let begin_ns = counters::now_ns();
        let sum = work(part)?;
        let end_ns = counters::now_ns();
        let cpu_ns = counters::thread_cpu_ns() - cpu_before_ns;
        Ok(Done { sum, cpu_ns, faults: faults()? - faults_before, begin_ns, end_ns })
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

/// `len` things in `count` contiguous parts of nearly the same length; some are empty where there are too few things.
pub(super) fn parts(len: usize, count: usize) -> Vec<Range<usize>> {
    (0..count).map(|index| len * index / count..len * (index + 1) / count).collect()
}

/// Memory in `count` parts as [`parts`] makes them, of whole units. The rest behind the last unit is in no
/// part.
pub(super) fn cut(mut bytes: &mut [u8], count: usize, unit_bytes: usize) -> Vec<&mut [u8]> {
    let parts = parts(bytes.len() / unit_bytes, count);
    let take = |part: Range<usize>| {
        let (head, tail) = std::mem::take(&mut bytes).split_at_mut(part.len() * unit_bytes);
        bytes = tail;
        head
    };
    parts.into_iter().map(take).collect()
}

/// What goes on while something else is measured.
pub(super) enum Others {
    /// Threads that repeat something.
    Threads(Turns),
    /// Processes that map and unmap, which end when they are dropped.
    Processes(Vec<Churner>),
}

/// Threads, and what is known of their turns.
#[derive(Debug)]
pub(super) struct Turns {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<(), Refusal>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    turns: AtomicU64,
    /// Whether a turn returned the wrong value.
    wrong: AtomicBool,
}

/// How long others may take until they are at work.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Waits until something holds.
fn wait_for(holds: impl Fn() -> bool) {
    let begin_ns = counters::now_ns();
    while !holds() && counters::now_ns() - begin_ns < PATIENCE_NS {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process runs and has done something.
fn is_at_work(child: &Churner) -> bool {
    procfs::stat(child.pid()).is_some_and(|stat| !stat.has_ended() && stat.user_ns + stat.system_ns > 0)
}

impl Others {
    /// Starts `count` threads, and returns when each has made its first turn. Every turn must return `each`.
    pub(super) fn threads<T>(count: usize, each: u64, turn: T) -> Self
    where
        T: Fn() -> Result<u64, Refusal> + Send + Sync + 'static,
    {
        let shared = Arc::new(Shared::default());
        let told = shared.clone();
        let turn = Arc::new(move || -> Result<(), Refusal> {
            if turn()? != each {
                told.wrong.store(true, Ordering::Relaxed);
            }
            Ok(())
        });
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
        Self::Threads(Turns { shared, threads })
    }

    /// These processes, as soon as each is at work.
    pub(super) fn processes(children: Vec<Churner>) -> Self {
        wait_for(|| children.iter().all(is_at_work));
        Self::Processes(children)
    }

    /// Ends them. Returns 1 if there are any and all did their work; notes the turns of threads.
    ///
    /// # Errors
    /// A turn was refused something.
    pub(super) fn end(others: &mut Option<Self>, notes: &mut Notes) -> Result<u64, Refusal> {
        match others.take() {
            Some(Self::Threads(turns)) => turns.end(notes),
            Some(Self::Processes(children)) => {
                Ok(u64::from(!children.is_empty() && children.iter().all(is_at_work)))
            }
            None => Ok(0),
        }
    }
}

impl Turns {
    fn end(mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let turns = || self.shared.turns.load(Ordering::Relaxed);
        notes.add("beside_turns", turns() as f64);
        // A short measurement may fall within one turn, which is then still running.
        wait_for(|| turns() > 0 || self.threads.iter().any(JoinHandle::is_finished));
        let is_right = turns() > 0 && !self.shared.wrong.load(Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))?;
        Ok(u64::from(is_right))
    }
}

impl Drop for Turns {
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

    #[test]
    fn parts_cover_everything_once() {
        assert_eq!(parts(10, 4), [0..2, 2..5, 5..7, 7..10]);
        assert_eq!(parts(2, 3), [0..0, 0..1, 1..2]);
        let mut bytes = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(cut(&mut bytes, 2, 2), [&[0_u8, 1][..], &[2, 3, 4, 5]]);
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
        assert!(done.begin_ns > 0 && done.end_ns > done.begin_ns, "{done:?}");
    }

    #[test]
    fn what_one_of_the_threads_was_refused_is_told() {
        let done =
            together(vec![1, 2], |part| if part == 2 { Err(Refusal("no more".into())) } else { Ok(part) });
        assert_eq!(done, Err(Refusal("no more".into())));
    }

    #[test]
    fn others_that_do_nothing_are_noticed_and_a_refused_turn_is_told() {
        let mut notes = Notes::default();
        let mut end = |others| Others::end(&mut Some(others), &mut notes);
        assert_eq!(end(Others::threads(2, 7, || Ok(7))), Ok(1));
        assert_eq!(end(Others::threads(1, 7, || Ok(0))), Ok(0));
        let refused = Others::threads(2, 0, || Err(Refusal("no file".into())));
        assert_eq!(end(refused), Err(Refusal("no file".into())));
        assert_eq!(end(Others::processes(Vec::new())), Ok(0));
        assert!(notes.of("beside_turns").is_some());
    }
}
