//! When memory that was to be populated faults all the same.
//!
//! The report could not explain why MAP_POPULATE "did nothing". mmap(2) never reports it: "the mmap() call
//! doesn't fail if the mapping cannot be populated". Each cell populates a region in a way that works or does
//! not, reads its residency, and writes to every page:
//!
//! | trap | resident afterwards | faults of the writes |
//! |---|---|---|
//! | `none` | all | none: MAP_POPULATE works |
//! | `inaccessible` | nothing: PROT_NONE, made writable afterwards | one per page |
//! | `read-only` | all, but it is the zero page | one per page: CoW |
//! | `non-blocking` | nothing: MAP_NONBLOCK makes MAP_POPULATE void (2.6.23) | one per page |
//! | `protected` | all: mprotect to nothing and back | none since Linux 5.19, one per page before |
//! | `given-back` | nothing: MADV_DONTNEED | one per page |
//! | `trimmed` | the rest, once head and tail were unmapped, as an allocator aligns a block | none |
//! | `forked` | all, shared with a child | one per page: CoW |
//!
//! `read-only` also stands for a private mapping of a file: the page cache is mapped, and a write after
//! mprotect(2) copies. Two cases are not shown because mmap(2) itself fails: RLIMIT_AS, and RLIMIT_MEMLOCK with
//! MAP_LOCKED. One is not shown because it ends the program: a cgroup that has no memory left.

use faultless_os::touch::{Advice, HeldCopy, Populate, Protection, Region};
use faultless_os::{advise, page};

use super::super::memory;
use super::SHEET;
use crate::cell::{Cell, Refusal};
use crate::experiment::{Phase, Scope, Step, Steps, Trial};

const TRAPS: [(&str, Trap); 8] = [
    ("none", Trap::None),
    ("inaccessible", Trap::Inaccessible),
    ("read-only", Trap::ReadOnly),
    ("non-blocking", Trap::NonBlocking),
    ("protected", Trap::Protected),
    ("given-back", Trap::GivenBack),
    ("trimmed", Trap::Trimmed),
    ("forked", Trap::Forked),
];

/// Faults of the program's own pages, which a fork makes CoW as well.
const OWN_AFTER_FORK: u64 = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trap {
    None,
    Inaccessible,
    ReadOnly,
    NonBlocking,
    Protected,
    GivenBack,
    Trimmed,
    Forked,
}

pub(super) fn cells(scope: &Scope) -> Vec<Cell> {
    let mib = scope.pick([1, 4, 64, 64]);
    TRAPS.iter().map(|(name, _)| SHEET.cell(&format!("trap={name} mib={mib}"))).collect()
}

pub(super) fn memory_bytes(cell: &Cell) -> Result<u64, Refusal> {
    cell.choice("trap", &TRAPS)?;
    // After a fork every page exists twice, and so does what is trimmed away.
    Ok(cell.mib("mib")? as u64 * 2)
}

pub(super) fn trial(cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
    let (trap, len_bytes) = (cell.choice("trap", &TRAPS)?, cell.mib("mib")?);
    // A mapping that is populated as it is made can't be advised before.
    advise::disable_thp()?;
    Ok(Steps::of(Trapped { trap, len_bytes, region: None, copy: None }, Trapped::steps))
}

struct Trapped {
    trap: Trap,
    len_bytes: usize,
    region: Option<Region>,
    copy: Option<HeldCopy>,
}

impl Trapped {
    fn steps(&self) -> Vec<Step<Self>> {
        let pages = self.len_bytes / page::size();
        let (populated, resident) = match self.trap {
            Trap::Inaccessible | Trap::NonBlocking => (0, 0),
            Trap::GivenBack => (pages, 0),
            Trap::Trimmed => (2 * pages, pages),
            Trap::None | Trap::ReadOnly | Trap::Protected | Trap::Forked => (pages, pages),
        };
        let (faults, more) = match self.trap {
            Trap::None | Trap::Trimmed => (0, 0),
            Trap::Protected => (0, pages as u64),
            Trap::Forked => (pages, OWN_AFTER_FORK),
            _ => (pages, 0),
        };
        let own = if self.trap == Trap::Forked { OWN_AFTER_FORK } else { 0 };
        let setup = Phase::new("setup", populated, 0).up_to(own).sum((resident * page::size()) as u64);
        let write = Phase::new("write", faults, 0).up_to(more).touches(pages).sum(pages as u64);
        vec![
            (setup, |this, notes| {
                let region = this.populated()?;
                memory::note_resident(std::slice::from_ref(&region), notes);
                let resident = region.resident_bytes() as u64;
                this.region = Some(region);
                Ok(resident)
            }),
            (write, |this, _| {
                let region =
                    this.region.as_mut().ok_or_else(|| Refusal("prefault: nothing was mapped".into()))?;
                region.touch_write(page::size());
                Ok(region.touch_read(page::size()))
            }),
        ]
    }

    fn populated(&mut self) -> Result<Region, Refusal> {
        let how = match self.trap {
            Trap::Inaccessible => Populate::Inaccessible,
            Trap::ReadOnly => Populate::ReadOnly,
            Trap::NonBlocking => Populate::NonBlocking,
            _ => Populate::Writable,
        };
        let mapped = if self.trap == Trap::Trimmed { 2 * self.len_bytes } else { self.len_bytes };
        let mut region = Region::populated(mapped, how)?;
        match self.trap {
            Trap::Protected => region = region.protect(Protection::Inaccessible)?.give_back()?,
            Trap::GivenBack => region.advise(0..self.len_bytes, Advice::DontNeed)?,
            Trap::Trimmed => {
                let head = self.len_bytes / 2 / page::size() * page::size();
                region = region.trim(head..head + self.len_bytes)?;
            }
            Trap::Forked => self.copy = Some(HeldCopy::new()?),
            _ => {}
        }
        Ok(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_way_that_works_leaves_the_writes_without_faults() {
        let least = |trap| {
            let trapped = Trapped { trap, len_bytes: 64 * page::size(), region: None, copy: None };
            *trapped.steps()[1].0.faults.start()
        };
        let faulting: Vec<_> =
            TRAPS.iter().filter(|(_, trap)| least(*trap) > 0).map(|(name, _)| *name).collect();
        assert_eq!(faulting, ["inaccessible", "read-only", "non-blocking", "given-back", "forked"]);
    }
}
