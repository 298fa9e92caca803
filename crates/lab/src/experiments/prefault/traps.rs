//! When memory that was to be populated faults all the same.
//!
//! The report could not explain why MAP_POPULATE "did nothing". mmap(2) never reports it: "the mmap() call
//! doesn't fail if the mapping cannot be populated". It asks whether mprotect or munmap undo it. Each cell populates a
//! region, does such a thing, reads its residency, and writes to every page:
//!
//! | trap | resident afterwards | faults of the writes |
//! |---|---|---|
//! | `none` | all | none: MAP_POPULATE works |
//! | `protected` | all: mprotect to nothing and back | none since Linux 5.19, one per page before |
//! | `trimmed` | the rest, once head and tail were unmapped, as an allocator aligns a block | none |
//!
//! Every page faults again, as the manual pages say, after PROT_NONE, PROT_READ, MAP_NONBLOCK, MADV_DONTNEED and fork(2).

use faultless_os::touch::Region;
use faultless_os::{advise, page};

use super::super::memory;
use super::SHEET;
use crate::cell::{Cell, Refusal};
use crate::experiment::{Phase, Scope, Step, Steps, Trial};

const TRAPS: [(&str, Trap); 3] =
    [("none", Trap::None), ("protected", Trap::Protected), ("trimmed", Trap::Trimmed)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trap {
    None,
    Protected,
    Trimmed,
}

pub(super) fn cells(scope: &Scope) -> Vec<Cell> {
    let mib = scope.pick([1, 4, 64, 64]);
    TRAPS.iter().map(|(name, _)| SHEET.cell(&format!("trap={name} mib={mib}"))).collect()
}

pub(super) fn memory_bytes(cell: &Cell) -> Result<u64, Refusal> {
    cell.choice("trap", &TRAPS)?;
    // What is trimmed away is as much again.
    Ok(cell.mib("mib")? as u64 * 2)
}

pub(super) fn trial(cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
    let (trap, len_bytes) = (cell.choice("trap", &TRAPS)?, cell.mib("mib")?);
    // A mapping that is populated as it is made can't be advised before.
    advise::disable_thp()?;
    Ok(Steps::of(Trapped { trap, len_bytes, region: None }, Trapped::steps))
}

struct Trapped {
    trap: Trap,
    len_bytes: usize,
    region: Option<Region>,
}

impl Trapped {
    fn steps(&self) -> Vec<Step<Self>> {
        let pages = self.len_bytes / page::size();
        let resident = (pages * page::size()) as u64;
        let setup = Phase::new("setup", self.mapped_bytes() / page::size(), 0).sum(resident);
        let again = if self.trap == Trap::Protected { pages as u64 } else { 0 };
        let write = Phase::new("write", 0, 0).up_to(again).touches(pages).sum(pages as u64);
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

    fn mapped_bytes(&self) -> usize {
        if self.trap == Trap::Trimmed { 2 * self.len_bytes } else { self.len_bytes }
    }

    fn populated(&self) -> Result<Region, Refusal> {
        let region = Region::populated(self.mapped_bytes())?;
        match self.trap {
            Trap::None => Ok(region),
            Trap::Protected => Ok(region.protect()?.give_back()?),
            Trap::Trimmed => {
                let head = self.len_bytes / 2 / page::size() * page::size();
                Ok(region.trim(head..head + self.len_bytes)?)
            }
        }
    }
}
