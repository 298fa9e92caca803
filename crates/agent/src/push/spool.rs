//! Batches that wait for a receiver: bounded in number and bytes, the oldest go first.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Batch;
use crate::tuning as t;

/// The batches, oldest first.
#[derive(Debug)]
pub(super) struct Spool {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    bytes_max: usize,
}

impl Spool {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Adds a batch. Returns how many were dropped to make room, itself included if it is larger than all room.
    pub(super) fn put(&mut self, batch: Batch) -> u64 {
        if batch.len_bytes() > self.bytes_max {
            return 1;
        }
        let mut dropped = 0;
        while self.batches.len() >= t::SPOOL_BATCHES_MAX || self.bytes + batch.len_bytes() > self.bytes_max {
            let Some(oldest) = self.batches.pop_front() else { break };
            self.bytes -= oldest.len_bytes();
            dropped += 1;
        }
        self.bytes += batch.len_bytes();
        self.batches.push_back(Arc::new(batch));
        dropped
    }

    /// The oldest batch.
    pub(super) fn first(&self) -> Option<Arc<Batch>> {
        self.batches.front().cloned()
    }

    /// Takes out a batch that was the oldest. It may have been dropped meanwhile.
    pub(super) fn remove(&mut self, batch: &Arc<Batch>) {
        if self.batches.front().is_some_and(|first| Arc::ptr_eq(first, batch)) {
            self.batches.pop_front();
            self.bytes -= batch.len_bytes();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Batch {
    /// Its memory.
    fn len_bytes(&self) -> usize {
        self.bytes.len() + self.target.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(byte: u8, len: usize) -> Batch {
        Batch { bytes: vec![byte; len], ..Batch::default() }
    }

    #[test]
    fn the_oldest_go_when_bytes_or_number_are_too_many() {
        let mut spool = Spool::new(10);
        assert_eq!((spool.put(batch(1, 4)), spool.put(batch(2, 4)), spool.put(batch(3, 4))), (0, 0, 1));
        assert_eq!((spool.len(), spool.bytes(), spool.first().unwrap().bytes[0]), (2, 8, 2));
        assert_eq!((spool.put(batch(9, 11)), spool.len()), (1, 2), "too large for any room");
        let mut spool = Spool::new(1 << 20);
        let dropped: u64 = (0..1_000).map(|_| spool.put(batch(0, 10))).sum();
        assert_eq!(dropped as usize + spool.len(), 1_000);
        assert_eq!((spool.len(), spool.bytes()), (t::SPOOL_BATCHES_MAX, t::SPOOL_BATCHES_MAX * 10));
    }

    #[test]
    fn what_was_sent_is_removed_unless_it_was_dropped_meanwhile() {
        let mut spool = Spool::new(8);
        spool.put(batch(1, 4));
        let sent = spool.first().unwrap();
        spool.put(batch(2, 8));
        spool.remove(&sent);
        assert_eq!((spool.len(), spool.bytes()), (1, 8));
        let sent = spool.first().unwrap();
        spool.remove(&sent);
        assert_eq!((spool.len(), spool.bytes()), (0, 0));
    }
}
