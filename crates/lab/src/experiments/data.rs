//! Random data for files and copied arrays: every byte counts, so no access can be optimised away.
//!
//! In: a length and a seed. Out: bytes, and the sum of their 8-byte words in the machine's order, which every
//! reader must find again. The same seed gives the same data.

use std::fs::File;
use std::io::{self, Write};

use faultless_os::advise::Advice;
use faultless_os::file::FileMap;
use faultless_trace::measurement::Rng;

use crate::cell::Refusal;

/// Bytes of a word of a sum.
pub(super) const WORD_BYTES: usize = size_of::<u64>();
/// In a random order one page of so many bytes is read: no fault maps the page of the next read.
pub(super) const WINDOW: usize = 64 << 10;
/// Bytes written at once.
const PIECE_BYTES: usize = 64 << 10;
/// Seed of a file's data, and of the order.
const SEED: u64 = 1;

/// A temporary file.
pub(super) struct Data {
    pub(super) file: File,
    /// The sum of its words.
    pub(super) sum: u64,
}

impl Data {
    /// A file of this length, in the page cache.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn written(len_bytes: usize) -> Result<Self, Refusal> {
        let mut file = tempfile::tempfile()?;
        let sum = write(&mut file, len_bytes as u64, SEED).map_err(|error| {
            let folder = std::env::temp_dir();
            Refusal(format!("{}: {error}; make room there or set TMPDIR", folder.display()))
        })?;
        Ok(Self { file, sum })
    }
}

/// Fills memory and returns the sum of its words. Bytes behind the last whole word stay.
pub(super) fn fill(bytes: &mut [u8], rng: &mut Rng) -> u64 {
    let mut sum = 0_u64;
    for word in bytes.chunks_exact_mut(WORD_BYTES) {
        let random = rng.next_u64();
        word.copy_from_slice(&random.to_ne_bytes());
        sum = sum.wrapping_add(random);
    }
    sum
}

/// The sum of the words.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let mut sum = 0_u64;
    for word in bytes.chunks_exact(WORD_BYTES) {
        let [a, b, c, d, e, f, g, h] = *word else { continue };
        sum = sum.wrapping_add(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }
    sum
}

/// Writes `len_bytes`, a multiple of [`WORD_BYTES`], and returns the sum of the words.
fn write(to: &mut impl Write, len_bytes: u64, seed: u64) -> io::Result<u64> {
    let mut rng = Rng::from_seed(seed);
    let mut piece = vec![0_u8; PIECE_BYTES];
    let (mut left, mut sum) = (len_bytes, 0_u64);
    while left > 0 {
        let len = left.min(PIECE_BYTES as u64);
        let part = &mut piece[..len as usize];
        sum = sum.wrapping_add(fill(part, &mut rng));
        to.write_all(part)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_has_the_sum_that_was_told() {
        let mut bytes = Vec::new();
        let told = write(&mut bytes, 3 * PIECE_BYTES as u64 + 16, 7).unwrap();
        assert_eq!(bytes.len(), 3 * PIECE_BYTES + 16);
        assert_eq!(sum(&bytes), told);
        bytes[100] ^= 1;
        assert_ne!(sum(&bytes), told);
    }

    #[test]
    fn each_window_is_read_once_in_another_order() {
        let mut places = places(1 << 20);
        assert!(!places.is_sorted());
        places.sort_unstable();
        assert_eq!(places, (0..16).map(|window| window * WINDOW).collect::<Vec<_>>());
    }
}
