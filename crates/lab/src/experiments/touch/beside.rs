//! What goes on beside the touches, until they are over.

use std::fs::File;
use std::io::Write;

use faultless_os::file::{self, FileMap};
use faultless_os::page;
use faultless_os::touch::{Churner, Region};

use super::super::memory;
use super::super::team::Others;
use crate::cell::Refusal;
use crate::datafile;

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Threads map, touch and unmap a file.
    Files {
        /// It leaves the page cache before each time, as with `-flush` in the document's program.
        is_flushed: bool,
    },
    /// Threads map and unmap memory, which takes the mmap lock for writing.
    Maps,
    /// Processes do, which shows the cost without the shared lock.
    MapsApart,
}

pub(super) const BESIDE: [(&str, Option<Beside>); 5] = [
    ("none", None),
    ("files", Some(Beside::Files { is_flushed: false })),
    ("flushed-files", Some(Beside::Files { is_flushed: true })),
    ("maps", Some(Beside::Maps)),
    ("maps-apart", Some(Beside::MapsApart)),
];

/// Bytes of the file: several turns fit into the shortest touch.
const FILE_BYTES: usize = 256 << 10;
/// Pages that are mapped and unmapped at once, without a touch.
const MAPPED_PAGES: usize = 16;

impl Beside {
    /// Starts so many of them.
    pub(super) fn start(self, count: usize) -> Result<Others, Refusal> {
        let len_bytes = MAPPED_PAGES * page::size();
        match self {
            Self::Files { is_flushed } => files(count, is_flushed),
            Self::Maps => Ok(Others::threads(count, len_bytes as u64, move || {
                Ok(Region::new(len_bytes, page::size())?.len_bytes() as u64)
            })),
            Self::MapsApart => {
                let children = (0..count).map(|_| Churner::new(len_bytes).map(|child| (child.pid(), child)));
                Ok(Others::processes(children.collect::<Result<_, _>>()?))
            }
        }
    }
}

fn files(count: usize, is_flushed: bool) -> Result<Others, Refusal> {
    let mut file = tempfile::tempfile()?;
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| memory::mark(at, 1)).collect();
    let sum = bytes.chunks(page::size()).map(|page| datafile::sum(&page[..file::WORD_BYTES]));
    let sum = sum.fold(0, u64::wrapping_add);
    file.write_all(&bytes)?;
    file.sync_all()?;
    if is_flushed {
        memory::forget(&file, FILE_BYTES, "beside=flushed-files")?;
    }
    Ok(Others::threads(count, sum, move || touch_file(&file, is_flushed)))
}

/// Reads a word of every page; returns the sum.
fn touch_file(file: &File, is_flushed: bool) -> Result<u64, Refusal> {
    if is_flushed {
        file::forget(file)?;
    }
    let map = FileMap::new(file, FILE_BYTES)?;
    Ok(map.sum(0..FILE_BYTES, page::size() / file::WORD_BYTES))
}
