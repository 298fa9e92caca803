//! The file of a cell of `files`: temporary, or one that the user names. Random data, with the sum of its words.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;

use faultless_os::advise::Advice;
use faultless_os::file::FileMap;
use faultless_trace::measurement::Rng;

use crate::cell::Refusal;
use crate::datafile;

/// In a random order one page of so many bytes is read: no fault maps the page of the next read.
pub(super) const WINDOW: usize = 64 << 10;
/// Seed of the data and of the order.
const SEED: u64 = 1;

/// Names a file that replaces the temporary one.
pub(super) const VARIABLE: &str = "FAULTLESS_LAB_DATAFILE";

/// The file of a cell.
pub(super) struct Data {
    pub(super) file: File,
    /// The sum of its words.
    pub(super) sum: u64,
    pub(super) is_written_here: bool,
}

impl Data {
    /// A temporary file, in the page cache.
    pub(super) fn written(len_bytes: usize) -> Result<Self, Refusal> {
        let mut file = tempfile::tempfile()?;
        let sum = datafile::write(&mut file, len_bytes as u64, SEED).map_err(|error| {
            let folder = std::env::temp_dir();
            Refusal(format!("{}: {error}; make room there or set TMPDIR", folder.display()))
        })?;
        Ok(Self { file, sum, is_written_here: true })
    }

    pub(super) fn named_or_written(len_bytes: usize) -> Result<Self, Refusal> {
        let Some(path) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
            return Self::written(len_bytes);
        };
        let failed = |what: String| {
            let (path, mib) = (path.display(), len_bytes >> 20);
            Refusal(format!("{path}: {what}; make it with `faultless lab datafile {path} --mib {mib}`"))
        };
        let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let path = path.display();
            return Err(Refusal(format!(
                "{VARIABLE}={path}: is no file; name one in a folder that can be written"
            )));
        }
        let there = metadata.len();
        if there < len_bytes as u64 {
            return Err(failed(format!("holds {} MiB, and {} are to be read", there >> 20, len_bytes >> 20)));
        }
        let sum = sum_of(&file, len_bytes).map_err(|error| failed(error.to_string()))?;
        Ok(Self { file, sum, is_written_here: false })
    }
}

/// Reads the file through; returns the sum of its words.
pub(super) fn sum_of(file: &File, len_bytes: usize) -> std::io::Result<u64> {
    let (mut from, mut piece) = (file, [0; 16 * 1024]);
    let (mut sum, mut left) = (0_u64, len_bytes);
    from.rewind()?;
    while left > 0 {
        let len = left.min(piece.len());
        from.read_exact(&mut piece[..len])?;
        sum = sum.wrapping_add(datafile::sum(&piece[..len]));
        left -= len;
    }
    Ok(sum)
}

/// A byte offset in each window, in a random order.
pub(super) fn places(len_bytes: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len_bytes / WINDOW).map(|window| window * WINDOW).collect();
    Rng::from_seed(SEED).shuffle(&mut places);
    places
}

pub(super) fn without_read_ahead(file: &File, len_bytes: usize) -> Result<FileMap, Refusal> {
    let map = FileMap::new(file, len_bytes)?;
    map.advise(Advice::Random)?;
    Ok(map)
}
