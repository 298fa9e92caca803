//! What goes on beside a measurement, in threads of this process or in processes of their own.
//!
//! In: a kind, how many of it, and for some the bytes of a file. Out: [`Others`], which are at work already.

use std::os::unix::fs::FileExt;

use faultless_os::touch::{Churner, Region};
use faultless_os::{counters, page};

use super::data::{Data, places, without_read_ahead};
use super::memory;
use super::team::Others;
use crate::cell::Refusal;

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Threads map and unmap memory, which takes the mmap lock for writing.
    Maps,
    /// Processes do, which shows the cost without the shared lock.
    MapsApart,
    /// Threads take major faults of a file.
    Major,
    /// Threads read the same places with read(2).
    Read,
    /// Threads compute.
    Spin,
}

/// Pages that are mapped and unmapped at once, without a touch.
const MAPPED_PAGES: usize = 16;
/// CPU time of a turn that only computes: as short as a few waits for a disk.
const SPIN_NS: u64 = 1_000_000;

impl Beside {
    /// Starts so many; those that wait for a disk have a file of `len_bytes`.
    pub(super) fn start(self, count: usize, len_bytes: usize) -> Result<Others, Refusal> {
        let mapped_bytes = MAPPED_PAGES * page::size();
        match self {
            Self::Maps => Ok(Others::threads(count, mapped_bytes as u64, move || {
                Ok(Region::new(mapped_bytes, page::size())?.len_bytes() as u64)
            })),
            Self::MapsApart => {
                let children = (0..count).map(|_| Churner::new(mapped_bytes));
                Ok(Others::processes(children.collect::<Result<_, _>>()?))
            }
            Self::Spin => Ok(Others::threads(count, 1, || {
                let begin_ns = counters::thread_cpu_ns();
                while counters::thread_cpu_ns() - begin_ns < SPIN_NS {}
                Ok(1)
            })),
            Self::Major | Self::Read => self.waiting(count, len_bytes),
        }
    }

    fn waiting(self, count: usize, len_bytes: usize) -> Result<Others, Refusal> {
        let (Data { file, .. }, places) = (Data::written(len_bytes)?, places(len_bytes));
        file.sync_all()?;
        memory::forget(&file, len_bytes, "major faults")?;
        Ok(Others::threads(count, places.len() as u64, move || {
            memory::forget(&file, len_bytes, "major faults")?;
            if self == Self::Major {
                let map = without_read_ahead(&file, len_bytes)?;
                return Ok(map.time_reads(places.iter().copied()).count() as u64);
            }
            let mut byte = [0];
            places.iter().try_for_each(|place| file.read_exact_at(&mut byte, *place as u64))?;
            Ok(places.len() as u64)
        }))
    }
}
