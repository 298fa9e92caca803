//! Which thread does what, and when: jobs and pieces of large files for the threads of a build.
//!
//! In: requests of the threads, and what the writer has written. Out: the next task of a thread.
//!
//! * Threads take jobs in order. A thread that reads a large file only cuts it. Its pieces wait in a queue, and any
//!   thread packs them before it takes a new job.
//! * Chunks that are not written yet are bounded. Beyond the bound a thread waits before it makes a chunk, and packs
//!   pieces meanwhile. The job that is written next has a bound of its own, so it never waits for later jobs.
//!
//! It does not read, pack or write.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::store::segment::ChunkContent;

/// A part of a job: its number in the job, and the number of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartId {
    pub(super) job: usize,
    pub(super) part: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) id: PartId,
    pub(super) text: Vec<u8>,
    pub(super) content: ChunkContent,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    Job(usize),
    Pack(Piece),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It may.
    Go,
    /// Not yet. There is a piece to pack.
    Pack(Piece),
    /// No more is written.
    Stop,
}

pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    jobs: usize,
    /// Most chunks ahead of the job that is written next, and most unwritten parts of that job.
    ahead: usize,
    queue_max: usize,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    next_job: usize,
    next: PartId,
    /// Chunks that were made and not written.
    unwritten: usize,
    queue: VecDeque<Piece>,
}

impl Turns {
    pub(super) fn new(jobs: usize, ahead: usize, queue_max: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), jobs, ahead, queue_max }
    }

    /// Waits for a task. `None` if all is written, or no more is.
    pub(super) fn next_task(&self) -> Option<Task> {
        self.wait(|state| {
            if state.is_stopped {
                return Some(None);
            }
            if let Some(piece) = state.queue.pop_front() {
                return Some(Some(Task::Pack(piece)));
            }
            let job = state.next_job;
            (job < self.jobs).then(|| {
                state.next_job += 1;
                Some(Task::Job(job))
            })
        })
    }

    /// Waits until the chunk `id` may be made, or there is something to do meanwhile.
    pub(super) fn wait_for(&self, id: PartId) -> Turn {
        self.wait(|state| {
            let is_early = if id.job == state.next.job {
                id.part >= state.next.part + self.ahead
            } else {
                state.unwritten >= self.ahead
            };
            if state.is_stopped {
                Some(Turn::Stop)
            } else if is_early {
                state.queue.pop_front().map(Turn::Pack)
            } else {
                state.unwritten += 1;
                Some(Turn::Go)
            }
        })
    }

    /// Puts `piece` into the queue, or gives it back if the queue is full.
    pub(super) fn offer(&self, piece: Piece) -> Option<Piece> {
        let mut state = self.lock();
        if state.queue.len() >= self.queue_max {
            return Some(piece);
        }
        state.queue.push_back(piece);
        self.changed.notify_all();
        None
    }

    /// A part of the next job has been written. `is_chunk`: it was a chunk.
    pub(super) fn part_written(&self, is_chunk: bool) {
        let mut state = self.lock();
        state.next.part += 1;
        state.unwritten -= usize::from(is_chunk);
        self.changed.notify_all();
    }

    pub(super) fn job_written(&self) {
        let mut state = self.lock();
        state.next = PartId { job: state.next.job + 1, part: 0 };
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<R>(&self, mut ready: impl FnMut(&mut State) -> Option<R>) -> R {
        let mut state = self.lock();
        loop {
            if let Some(answer) = ready(&mut state) {
                return answer;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The job of a thread that panics is never written, so nobody may wait for it.
pub(super) struct StopIfPanicking<'a>(pub(super) &'a Turns);

impl Drop for StopIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(job: usize, part: usize) -> PartId {
        PartId { job, part }
    }

    fn piece(part: usize) -> Piece {
        Piece { id: id(0, part), text: Vec::new(), content: ChunkContent::LargeFile }
    }

    #[test]
    fn pieces_come_before_jobs_and_a_full_queue_gives_them_back() {
        let turns = Turns::new(2, 9, 1);
        assert_eq!(turns.next_task(), Some(Task::Job(0)));
        assert_eq!(turns.offer(piece(0)), None);
        assert_eq!(turns.offer(piece(1)), Some(piece(1)));
        assert_eq!(turns.next_task(), Some(Task::Pack(piece(0))));
        assert_eq!(turns.next_task(), Some(Task::Job(1)));
        std::thread::scope(|scope| {
            let further = scope.spawn(|| turns.next_task());
            turns.stop();
            assert_eq!(further.join().unwrap(), None);
        });
    }

    #[test]
    fn chunks_wait_for_the_writer_and_their_threads_pack_meanwhile() {
        let turns = &Turns::new(3, 2, 1);
        let waits = |id| {
            std::thread::scope(|scope| {
                let turn = scope.spawn(move || turns.wait_for(id));
                std::thread::sleep(std::time::Duration::from_millis(20));
                let waits = !turn.is_finished();
                assert_eq!(turns.offer(piece(7)), None);
                waits && turn.join().unwrap() == Turn::Pack(piece(7))
            })
        };
        assert_eq!([turns.wait_for(id(1, 0)), turns.wait_for(id(2, 0))], [Turn::Go, Turn::Go]);
        assert!(waits(id(1, 1)), "two are ahead");
        assert_eq!([turns.wait_for(id(0, 0)), turns.wait_for(id(0, 1))], [Turn::Go, Turn::Go]);
        assert!(waits(id(0, 2)), "of the next job, too");
        turns.part_written(true);
        assert_eq!(turns.wait_for(id(0, 2)), Turn::Go);
        [true, true, false].into_iter().for_each(|is_chunk| turns.part_written(is_chunk));
        assert!(waits(id(2, 1)));
        turns.job_written();
        assert_eq!(turns.wait_for(id(1, 1)), Turn::Go);
        turns.stop();
        assert_eq!(turns.wait_for(id(1, 2)), Turn::Stop);
    }
}
