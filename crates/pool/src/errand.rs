//! Errands: work on free memory that is done outside the lock.
//!
//! In: how much. Out: a run of granules that nobody else can have until [`Core::finish`]: to be given back to the kernel,
//! zeroed, or made resident. Wholly free slabs come first.
//!
//! What it does not do: the work; that is for `chores`, which holds no lock meanwhile.

use crate::backend::{Backend, Span};
use crate::class::{run, runs};
use crate::core::{Core, Lack, Run};
use crate::lists::{Lists, Map, Runs};
use crate::policy::tuning::{ERRAND_SLABS, GRANULE_BYTES, SCRUB_GRANULES, SLAB_GRANULES, TRIES};
use crate::pool::span;
use crate::state::{Counts, Slab};

/// What is to be done with claimed granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Give wholly free slabs back.
    PurgeSlabs,
    /// Give a part of a slab back.
    PurgePart,
    /// Overwrite with zeroes.
    Scrub,
    /// Make resident.
    Stock,
}

/// Granules that are set aside for some work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errand {
    start: usize,
    count: usize,
    /// What the granules were when they were set aside.
    counts: Counts,
    work: Work,
}

impl Errand {
    /// Whether it is about wholly free slabs that are to be given back.
    pub(crate) fn is_slabs(self) -> bool {
        self.work == Work::PurgeSlabs
    }

    pub(crate) fn resident_bytes(self) -> usize {
        self.counts.resident() * GRANULE_BYTES
    }

    pub(crate) fn span(self) -> Span {
        span((self.start, self.count))
    }
}

impl<B: Backend> Core<B> {
    /// Ends a window of time and begins the next: how many granules were kept all through it and needed by nobody.
    pub(crate) fn window(&mut self) -> usize {
        std::mem::replace(&mut self.low, self.retained)
    }

    /// What to give back first while more is kept than may be: wholly free slabs, the longest unused first, then what is
    /// left of the run that was just freed.
    pub(crate) fn claim_excess(&mut self, freed: Run) -> Option<Errand> {
        let excess = self.retained.checked_sub(self.bound()).filter(|&excess| excess > 0)?;
        if let Some(errand) = self.claim_idle(excess) {
            return Some(errand);
        }
        let left = Lists::<B::Slabs, B::Words>::pieces(freed.0, freed.1).find_map(|(slab, first, len)| {
            let kept = self.lists.slab(slab).retained() & run(first, len);
            runs(kept).next().map(|(at, len)| (slab * SLAB_GRANULES + at, len))
        });
        left.map(|left| self.claim(left, Work::PurgePart))
    }

    /// Wholly free slabs to give back, the longest unused first or the highest: at most `granules`, and at least one slab.
    pub(crate) fn claim_idle(&mut self, granules: usize) -> Option<Errand> {
        let oldest = self.lists.oldest_warm()?;
        let most = granules.div_ceil(SLAB_GRANULES).clamp(1, ERRAND_SLABS);
        if self.highest_first {
            let (begin, end) = self.lists.highest_warm(most)?;
            return Some(
                self.claim((begin * SLAB_GRANULES, (end - begin) * SLAB_GRANULES), Work::PurgeSlabs),
            );
        }
        let (mut begin, mut end) = (oldest, oldest + 1);
        let mut newer = self.lists.newer(oldest);
        while let Some(slab) = newer.filter(|_| end - begin < most) {
            match slab {
                _ if slab == end => end += 1,
                _ if slab + 1 == begin => begin = slab,
                _ => break,
            }
            newer = self.lists.newer(slab);
        }
        Some(self.claim((begin * SLAB_GRANULES, (end - begin) * SLAB_GRANULES), Work::PurgeSlabs))
    }

    /// Dirty granules to zero, at most `granules`: the highest wholly free slab first, since blocks are looked for from
    /// below; then the longest runs in partly used slabs.
    pub(crate) fn claim_dirty(&mut self, granules: usize) -> Option<Errand> {
        if self.retained == self.zeroed {
            return None;
        }
        let lists = &self.lists;
        let longest = |slab: usize, least: usize| {
            let (first, len) = runs(lists.slab(slab).free_dirty()).max_by_key(|&(_, len)| len)?;
            (len >= least).then_some((slab * SLAB_GRANULES + first, len.min(granules.max(1))))
        };
        let idle = lists.last(Map::Dirty).and_then(|slab| longest(slab, 1));
        let part = |least: usize| {
            let next = |from| lists.seek_run(Runs::Warm, least, from);
            let slabs = std::iter::successors(next(0), |&slab| next(slab + 1));
            slabs.take(TRIES).find_map(|slab| longest(slab, least))
        };
        let found = idle.or_else(|| SCRUB_GRANULES.into_iter().find_map(part));
        found.map(|run| self.claim(run, Work::Scrub))
    }

    /// Free memory to make resident while less than `low` granules are kept, and from then on until `high` are: slabs that
    /// were used before, then new ones.
    pub(crate) fn claim_stock(&mut self, low: usize, high: usize) -> Result<Option<Errand>, Lack> {
        self.expected = self.expected.max(high);
        let room = self.bound().saturating_sub(self.retained) / SLAB_GRANULES;
        self.stocking = self.retained < low || (self.stocking && self.retained < high);
        let wanted = high.max(low).saturating_sub(self.retained).div_ceil(SLAB_GRANULES).min(room);
        if self.stocking { self.claim_reserved(wanted) } else { Ok(None) }
    }

    /// At most that many wholly free slabs that are not resident.
    pub(crate) fn claim_reserved(&mut self, slabs: usize) -> Result<Option<Errand>, Lack> {
        let most = slabs.min(ERRAND_SLABS);
        let begin = self.lists.first_cold();
        let fits = |&slab: &usize| slab < self.lists.count && self.lists.is_cold(slab);
        let count = (begin..begin + most).take_while(fits).count();
        if count == 0 {
            return Ok(None);
        }
        self.reach((begin + count) * SLAB_GRANULES)?;
        self.lists.rise(begin + count);
        Ok(Some(self.claim((begin * SLAB_GRANULES, count * SLAB_GRANULES), Work::Stock)))
    }

    fn claim(&mut self, (start, count): Run, work: Work) -> Errand {
        let counts = self.lists.change((start, count), Slab::claim);
        // What is being scrubbed stays in memory.
        if work != Work::Scrub {
            self.keep_less(counts);
        }
        Errand { start, count, counts, work }
    }

    /// The work has been done, or the kernel refused, after so many ns.
    pub(crate) fn finish(&mut self, errand: Errand, done: bool, ns: u64) {
        let bytes = errand.resident_bytes() as u64;
        let pinned = !done && errand.work == Work::PurgeSlabs;
        self.lists.change((errand.start, errand.count), |slab, mask| {
            match errand.work {
                _ if !done => slab.put_back(mask),
                Work::PurgeSlabs | Work::PurgePart => slab.purged(mask),
                Work::Scrub | Work::Stock => slab.now_zero(mask),
            }
            slab.pinned = pinned;
            Counts::default()
        });
        let all_zeroed = Counts { zeroed: errand.count, ..Counts::default() };
        match errand.work {
            Work::PurgeSlabs | Work::PurgePart => {
                self.stats.purge_ns += ns;
                self.stats.purges += done as u64;
                self.stats.purge_failures += !done as u64;
                match done {
                    true => self.stats.purged_bytes += bytes,
                    false => self.keep_more(errand.counts),
                }
            }
            Work::Scrub => {
                self.stats.scrub_ns += ns;
                self.stats.scrubbed_bytes += bytes;
                self.zeroed += errand.count;
            }
            Work::Stock => {
                self.stats.stock_ns += ns;
                self.keep_more(if done { all_zeroed } else { errand.counts });
                self.stats.stocked_bytes += if done { (errand.count * GRANULE_BYTES) as u64 } else { 0 };
            }
        }
    }
}
