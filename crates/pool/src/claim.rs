//! Claims: free granules that are set aside for work outside the lock.
//!
//! In: how much. Out: a run of granules that nobody else can take until [`Core::finish`]: to purge, to zero, or to
//! populate. Wholly free slabs come first.
//!
//! Out of scope: the work itself. `pool::reclaim` and `pool::ahead` do it without the lock.

use crate::backend::{Backend, Span};
use crate::class::{Run, pieces, runs};
use crate::core::{Core, Obstacle};
use crate::slabs::{Counts, Map, Runs, Slab};
use crate::tuning::{CLAIM_SLABS, GRANULE_BYTES, SCRUB_GRANULES, SLAB_GRANULES, TRIES};

/// The work on claimed granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Purge wholly free slabs.
    PurgeSlabs,
    /// Purge a part of a slab.
    PurgePart,
    /// Offer to the kernel, which may take the pages when memory is short.
    Offer,
    /// Overwrite with zeroes.
    Scrub,
    /// Populate.
    Stock,
}

/// Granules that are set aside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    run: Run,
    /// The states of the granules when they were claimed.
    counts: Counts,
    work: Work,
    /// Whether a first touch in one of its slabs takes a huge page.
    pub(crate) is_huge: bool,
}

impl Claim {
    pub(crate) fn is_offer(self) -> bool {
        self.work == Work::Offer
    }

    /// The slabs that it touches, as (begin, end).
    pub(crate) fn slabs(self) -> (usize, usize) {
        let (start, count) = self.run;
        (start / SLAB_GRANULES, (start + count).div_ceil(SLAB_GRANULES))
    }

    pub(crate) fn resident_bytes(self) -> usize {
        self.counts.resident() * GRANULE_BYTES
    }

    pub(crate) fn span(self) -> Span {
        Span::of(self.run)
    }
}

impl<B: Backend> Core<B> {
    /// What to give back first while more is retained than allowed.
    pub(crate) fn claim_excess(&mut self) -> Option<Claim> {
        match self.retained.saturating_sub(self.bound()) {
            0 => self.claim_held(self.held().saturating_sub(self.share_of_group())),
            excess => self.claim_idle(excess),
        }
    }

    /// Free memory to purge, about so many granules: wholly free slabs, those that have been free for longest, or the
    /// highest ones; then parts of slabs. To purge a part costs the blocks beside it their huge page.
    pub(crate) fn claim_idle(&mut self, granules: usize) -> Option<Claim> {
        let most = granules.div_ceil(SLAB_GRANULES).clamp(1, CLAIM_SLABS);
        let highest = self.highest_first.then(|| self.slabs.highest_retained(most)).flatten();
        let idle = highest.or_else(|| Some(self.oldest_neighbours(self.slabs.oldest_idle()?, most)));
        if let Some((begin, end)) = idle {
            return Some(
                self.claim((begin * SLAB_GRANULES, (end - begin) * SLAB_GRANULES), Work::PurgeSlabs),
            );
        }
        let slab = self.slabs.oldest_part()?;
        let run = longest_run(slab, self.slabs.slab(slab).retained())?;
        Some(self.claim(run, Work::PurgePart))
    }

    /// Free memory to offer to the kernel, if `granules` are too many to hold: in the slabs that were freed last.
    fn claim_held(&mut self, granules: usize) -> Option<Claim> {
        let held = |&slab: &usize| self.slabs.slab(slab).held() != 0;
        let slab = self.slabs.newest_first().take(TRIES).find(held).filter(|_| granules > 0)?;
        let run = longest_run(slab, self.slabs.slab(slab).held())?;
        Some(self.claim(run, Work::Offer))
    }

    /// The oldest retained slab, and those freed next after it that lie beside it; as (begin, end).
    fn oldest_neighbours(&self, oldest: usize, most: usize) -> (usize, usize) {
        let (mut begin, mut end) = (oldest, oldest + 1);
        let mut newer = self.slabs.newer(oldest);
        while let Some(slab) = newer.filter(|_| end - begin < most) {
            match slab {
                _ if slab == end => end += 1,
                _ if slab + 1 == begin => begin = slab,
                _ => break,
            }
            newer = self.slabs.newer(slab);
        }
        (begin, end)
    }

    /// Dirty granules to zero, at most `granules`. The highest wholly free slab comes first, because placement searches
    /// from below. Then come the longest runs in partly used slabs.
    pub(crate) fn claim_dirty(&mut self, granules: usize) -> Option<Claim> {
        if self.retained == self.zeroed {
            return None;
        }
        let slabs = &self.slabs;
        let longest = |slab: usize, least: usize| {
            let (start, len) = longest_run(slab, slabs.slab(slab).free_dirty())?;
            (len >= least).then_some((start, len.min(granules.max(1))))
        };
        let idle = slabs.last(Map::Dirty).and_then(|slab| longest(slab, 1));
        let part = |least: usize| {
            let next = |from| slabs.seek_run(Runs::Retained, least, from);
            let candidates = std::iter::successors(next(0), |&slab| next(slab + 1));
            candidates.take(TRIES).find_map(|slab| longest(slab, least))
        };
        let found = idle.or_else(|| SCRUB_GRANULES.into_iter().find_map(part));
        found.map(|run| self.claim(run, Work::Scrub))
    }

    /// Free memory to populate, once less than `low` granules are retained and until `high` are. Slabs that were used
    /// before come first, then new ones.
    pub(crate) fn claim_stock(&mut self, low: usize, high: usize) -> Result<Option<Claim>, Obstacle> {
        self.stock = high;
        let room = self.bound().saturating_sub(self.retained) / SLAB_GRANULES;
        self.stocking = self.retained < low || (self.stocking && self.retained < high);
        let missing = high.max(low).saturating_sub(self.retained).div_ceil(SLAB_GRANULES).min(room);
        if self.stocking { self.claim_reserved(missing) } else { Ok(None) }
    }

    /// At most so many wholly free slabs that are not resident, to populate.
    pub(crate) fn claim_reserved(&mut self, slabs: usize) -> Result<Option<Claim>, Obstacle> {
        let most = slabs.min(CLAIM_SLABS);
        let begin = self.slabs.first_reserved();
        let fits = |&slab: &usize| slab < self.slabs.count && self.slabs.is_reserved(slab);
        let count = (begin..begin + most).take_while(fits).count();
        if count == 0 {
            return Ok(None);
        }
        self.require_usable((begin + count) * SLAB_GRANULES)?;
        self.slabs.rise(begin + count);
        Ok(Some(self.claim((begin * SLAB_GRANULES, count * SLAB_GRANULES), Work::Stock)))
    }

    fn claim(&mut self, run: Run, work: Work) -> Claim {
        let is_huge = pieces(run).any(|(slab, ..)| self.slabs.slab(slab).huge);
        let counts = self.slabs.change(run, Slab::claim);
        // Scrubbed memory stays resident all the time.
        if work != Work::Scrub {
            self.retain_less(counts);
        }
        Claim { run, counts, work, is_huge }
    }

    /// Ends a claim: the work was done, or the kernel refused, after so many ns.
    pub(crate) fn finish(&mut self, claim: Claim, done: bool, ns: u64) {
        let bytes = claim.resident_bytes() as u64;
        let is_purge = matches!(claim.work, Work::PurgeSlabs | Work::PurgePart);
        self.slabs.change(claim.run, |slab, mask| {
            match claim.work {
                _ if !done => slab.put_back(mask),
                Work::PurgeSlabs | Work::PurgePart => slab.purged(mask),
                Work::Offer => slab.now_offered(mask),
                Work::Scrub | Work::Stock => slab.now_zero(mask),
            }
            slab.pinned |= !done && is_purge;
            // What was given back starts anew.
            slab.sparse &= !(done && claim.work == Work::PurgeSlabs);
            Counts::default()
        });
        let all_zeroed = Counts { zeroed: claim.run.1, ..Counts::default() };
        match claim.work {
            Work::PurgeSlabs | Work::PurgePart => {
                self.stats.purge_ns += ns;
                self.stats.purges += done as u64;
                self.stats.purge_failures += !done as u64;
                if done {
                    self.stats.purged_bytes += bytes;
                } else {
                    self.retain_more(claim.counts);
                }
            }
            Work::Offer => {
                let offered = if done { claim.counts.resident() } else { claim.counts.offered };
                self.retain_more(Counts { offered, ..claim.counts });
            }
            Work::Scrub => {
                self.offered -= claim.counts.offered;
                self.stats.scrub_ns += ns;
                self.stats.scrubbed_bytes += bytes;
                self.zeroed += claim.run.1;
            }
            Work::Stock => {
                self.stats.stock_ns += ns;
                self.retain_more(if done { all_zeroed } else { claim.counts });
                self.stats.stocked_bytes += if done { claim.span().len as u64 } else { 0 };
            }
        }
    }
}

/// The longest run of some granules of a slab.
fn longest_run(slab: usize, mask: u128) -> Option<Run> {
    let (first, len) = runs(mask).max_by_key(|&(_, len)| len)?;
    Some((slab * SLAB_GRANULES + first, len))
}
