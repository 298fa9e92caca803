//! What goes on beside a thread that maps memory: waits for a disk in a fault, in read(2), in another process, or none.

use std::fs::File;
use std::os::unix::fs::FileExt;

use faultless_os::counters;
use faultless_os::touch::Reader;

use super::super::memory;
use super::super::team::Others;
use super::reading::{Data, places, without_read_ahead};
use crate::cell::Refusal;

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// A thread takes major faults of a file.
    Major,
    /// A process does.
    MajorApart,
    /// A thread reads the same places with read(2).
    Read,
    /// A thread computes.
    Spin,
}

pub(super) const BESIDE: [(&str, Option<Beside>); 5] = [
    ("none", None),
    ("major", Some(Beside::Major)),
    ("major-apart", Some(Beside::MajorApart)),
    ("read", Some(Beside::Read)),
    ("spin", Some(Beside::Spin)),
];

/// CPU time of a turn that only computes: as short as a few waits for a disk.
const SPIN_NS: u64 = 1_000_000;

impl Beside {
    /// Starts it.
    pub(super) fn start(self, len_bytes: usize) -> Result<Others, Refusal> {
        if self == Self::Spin {
            return Ok(Others::threads(1, 1, || {
                let begin_ns = counters::thread_cpu_ns();
                while counters::thread_cpu_ns() - begin_ns < SPIN_NS {}
                Ok(1)
            }));
        }
        let Data { file, .. } = Data::written(len_bytes)?;
        file.sync_all()?;
        memory::forget(&file, len_bytes, "files")?;
        let (places, read) = (places(len_bytes), self == Self::Read);
        if self == Self::MajorApart {
            let reader = Reader::new(&file, len_bytes, &places)?;
            return Ok(Others::processes(vec![(reader.pid(), reader)]));
        }
        Ok(Others::threads(1, places.len() as u64, move || {
            memory::forget(&file, len_bytes, "files")?;
            if read { read_each(&file, &places) } else { fault_each(&file, len_bytes, &places) }
        }))
    }
}

fn fault_each(file: &File, len_bytes: usize, places: &[usize]) -> Result<u64, Refusal> {
    Ok(without_read_ahead(file, len_bytes)?.time_reads(places.iter().copied()).count() as u64)
}

fn read_each(file: &File, places: &[usize]) -> Result<u64, Refusal> {
    let mut byte = [0];
    places.iter().try_for_each(|place| file.read_exact_at(&mut byte, *place as u64))?;
    Ok(places.len() as u64)
}
