//! A bounded queue of slots of one length in shared memory: any number of writers, one reader, no locks.
//!
//! In: memory that was zero at first. Out: slots to fill, and full slots. A writer claims the next slot by
//! one compare-and-swap, fills it, and publishes it by its state. The reader takes the slots in the order of
//! the claims. If no slot is free, the writer counts a loss and goes on. If a writer died or stalled, the
//! reader gives its slot up. When that writer comes back, its publish fails.
//!
//! ```text
//! head | lost | slot 0: state, owner, payload | slot 1 ...      state: 2 lap = free, 2 lap + 1 = published
//! ```
//! It does not look into the payload.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Cache lines, so that writers of different slots don't share one.
pub(super) const LINE_BYTES: usize = 64;
/// Bytes before the first slot.
const HEAD_BYTES: usize = 2 * LINE_BYTES;
/// Bytes of a slot before its payload: its state, and who fills it.
pub(super) const OWNED_BYTES: usize = 2 * size_of::<u64>();

/// Where a queue lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    base: *mut u8,
    slots: u64,
    slot_bytes: usize,
}

/// A claimed slot, for the claimer to fill.
#[derive(Debug)]
pub(super) struct Claim {
    slot: *mut u8,
    lap: u64,
}

/// What the reader found.
#[derive(Debug)]
pub(super) enum Slot {
    /// Nothing was claimed.
    Nothing,
    /// The slot is claimed and not published; by this owner, or 0 if the owner is not written yet.
    Claimed(u64),
    /// The payload of a full slot.
    Full(*const u8),
}

impl Queue {
    /// Bytes that a queue takes.
    pub(super) const fn bytes(slots: u64, slot_bytes: usize) -> usize {
        HEAD_BYTES + slots as usize * slot_bytes
    }

    /// A queue of `slots` slots, a power of two.
    ///
    /// # Safety
    /// `base` must be valid for [`Queue::bytes`] as long as the queue is used, aligned to 8, zero when the first queue was made
    /// there, and used by queues alone.
    pub(super) const unsafe fn new(base: *mut u8, slots: u64, slot_bytes: usize) -> Self {
        Self { base, slots, slot_bytes }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: every caller's offset lies inside the queue, see `new`.
        let word = unsafe { self.base.add(offset) }.cast();
        // SAFETY: valid and aligned as `new` demands, and only ever used as an atomic.
        unsafe { AtomicU64::from_ptr(word) }
    }

    fn head(&self) -> &AtomicU64 {
        self.word(0)
    }

    fn slot(&self, position: u64) -> *mut u8 {
        let number = (position & (self.slots - 1)) as usize;
        // SAFETY: the number is below the count of slots.
        unsafe { self.base.add(HEAD_BYTES + number * self.slot_bytes) }
    }

    /// The two words before a payload: state and owner.
    fn marks<'a>(slot: *mut u8) -> (&'a AtomicU64, &'a AtomicU64) {
        // SAFETY: slots are made by `slot`; both words lie inside, aligned, and are only ever used as atomics.
        let state = unsafe { AtomicU64::from_ptr(slot.cast()) };
        // SAFETY: as above.
        let owner = unsafe { AtomicU64::from_ptr(slot.add(size_of::<u64>()).cast()) };
        (state, owner)
    }

    /// How many entries were lost because no slot was free.
    pub(super) fn lost(&self) -> u64 {
        self.word(LINE_BYTES).load(Relaxed)
    }

    /// Claims the next free slot; `None`, and a loss is counted, if there is none.
    pub(super) fn claim(&self, owner: u64) -> Option<Claim> {
        let mut position = self.head().load(Relaxed);
        loop {
            let (slot, lap) = (self.slot(position), position / self.slots);
            let (state, owners) = Self::marks(slot);
            let ahead = state.load(Acquire).wrapping_sub(2 * lap).cast_signed();
            if ahead == 0 {
                match self.head().compare_exchange_weak(position, position + 1, Relaxed, Relaxed) {
                    Ok(_) => {
                        owners.store(owner, Relaxed);
                        return Some(Claim { slot, lap });
                    }
                    Err(now) => position = now,
                }
                continue;
            }
            let now = self.head().load(Relaxed);
            if ahead < 0 && now == position {
                self.word(LINE_BYTES).fetch_add(1, Relaxed);
                return None;
            }
            position = now;
        }
    }

    /// What lies at a position.
    pub(super) fn peek(&self, position: u64) -> Slot {
        let slot = self.slot(position);
        let (state, owner) = Self::marks(slot);
        if state.load(Acquire) == 2 * (position / self.slots) + 1 {
            // SAFETY: the payload follows inside the slot.
            return Slot::Full(unsafe { slot.add(OWNED_BYTES) });
        }
        if self.head().load(Relaxed) <= position { Slot::Nothing } else { Slot::Claimed(owner.load(Relaxed)) }
    }

    /// Who filled the slot at a position.
    pub(super) fn owner(&self, position: u64) -> u64 {
        Self::marks(self.slot(position)).1.load(Relaxed)
    }

    /// Gives the slot at a position back to the writers, published or not.
    pub(super) fn free(&self, position: u64) {
        let (state, owner) = Self::marks(self.slot(position));
        owner.store(0, Relaxed);
        state.store(2 * (position / self.slots) + 2, Release);
    }
}

impl Claim {
    /// Where the payload goes.
    pub(super) fn payload(&self) -> *mut u8 {
        // SAFETY: the payload follows inside the slot.
        unsafe { self.slot.add(OWNED_BYTES) }
    }

    /// Publishes the slot, unless the reader has given it up.
    pub(super) fn publish(self) {
        let (state, _) = Queue::marks(self.slot);
        let _ = state.compare_exchange(2 * self.lap, 2 * self.lap + 1, Release, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_BYTES: usize = LINE_BYTES;

    /// A queue on memory of its own.
    struct Plain {
        _words: Vec<u64>,
        queue: Queue,
    }

    // SAFETY: a queue is for any number of threads.
    unsafe impl Sync for Plain {}

    fn plain(slots: u64) -> Plain {
        let mut words = vec![0_u64; Queue::bytes(slots, SLOT_BYTES) / 8];
        // SAFETY: zero, aligned, long enough, and kept as long as the queue.
        let queue = unsafe { Queue::new(words.as_mut_ptr().cast(), slots, SLOT_BYTES) };
        Plain { _words: words, queue }
    }

    fn write(queue: &Queue, value: u64) -> bool {
        let Some(claim) = queue.claim(7) else { return false };
        // SAFETY: a payload holds a word.
        unsafe { claim.payload().cast::<u64>().write(value) };
        claim.publish();
        true
    }

    fn read(queue: &Queue, position: u64) -> Option<u64> {
        let Slot::Full(payload) = queue.peek(position) else { return None };
        // SAFETY: `write` wrote a word there.
        let value = unsafe { payload.cast::<u64>().read() };
        queue.free(position);
        Some(value)
    }

    #[test]
    fn what_is_written_is_read_in_order_over_many_laps() {
        let plain = plain(4);
        for value in 0..20 {
            assert!(matches!(plain.queue.peek(value), Slot::Nothing));
            assert!(write(&plain.queue, value));
            assert_eq!(read(&plain.queue, value), Some(value));
        }
        assert_eq!(plain.queue.lost(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_exactly() {
        let plain = plain(4);
        let written = (0..11).filter(|&value| write(&plain.queue, value)).count();
        assert_eq!((written, plain.queue.lost()), (4, 7));
        assert_eq!((0..4).map(|at| read(&plain.queue, at)).collect::<Vec<_>>(), [0, 1, 2, 3].map(Some));
        assert!(write(&plain.queue, 5), "room again");
    }

    #[test]
    fn a_slot_that_was_given_up_is_not_published_by_who_comes_back() {
        let plain = plain(4);
        let late = plain.queue.claim(7).unwrap();
        assert!(write(&plain.queue, 1));
        assert!(matches!(plain.queue.peek(0), Slot::Claimed(7)));
        plain.queue.free(0);
        assert_eq!(read(&plain.queue, 1), Some(1));
        late.publish();
        assert!((2..5).all(|value| write(&plain.queue, value)));
        assert!(matches!(plain.queue.peek(5), Slot::Nothing));
        assert_eq!((2..5).map(|at| read(&plain.queue, at)).collect::<Vec<_>>(), [2, 3, 4].map(Some));
    }

    #[test]
    fn four_writers_and_a_reader_lose_nothing_uncounted() {
        const EACH: u64 = if cfg!(miri) { 40 } else { 50_000 };
        let plain = plain(8);
        let (mut seen, mut position) = ([0_u64; 4], 0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let plain = &plain;
                    scope
                        .spawn(move || (1..=EACH).filter(|&at| write(&plain.queue, at << 2 | writer)).count())
                })
                .collect();
            let mut read_count = 0;
            let mut drain = || {
                while let Some(value) = read(&plain.queue, position) {
                    let last = &mut seen[(value & 3) as usize];
                    assert!(value >> 2 > *last, "in the order in which its writer wrote");
                    *last = value >> 2;
                    position += 1;
                    read_count += 1;
                }
            };
            while writers.iter().any(|writer| !writer.is_finished()) {
                drain();
                std::thread::yield_now();
            }
            let written: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
            drain();
            assert_eq!(read_count, written);
            assert_eq!(written as u64 + plain.queue.lost(), 4 * EACH);
        });
    }
}
