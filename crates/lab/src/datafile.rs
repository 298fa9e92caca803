//! Random data for files and copied arrays: every byte counts, so no access can be optimised away.
//!
//! In: a length and a seed. Out: bytes, and the sum of their 8-byte words in the machine's order, which every
//! reader must find again. The same seed gives the same data.

use std::io::{self, Write};

use faultless_trace::measurement::Rng;

/// Bytes of a word of a sum.
pub const WORD_BYTES: usize = size_of::<u64>();

/// Bytes written at once. This is also the largest folio in the page cache, on file systems with large folios.
/// A fault maps as much anyway.
const PIECE_BYTES: usize = 64 << 10;

/// Fills memory and returns the sum of its words. Bytes behind the last whole word stay.
pub fn fill(bytes: &mut [u8], rng: &mut Rng) -> u64 {
    let mut sum = 0_u64;
    for word in bytes.chunks_exact_mut(WORD_BYTES) {
        let random = rng.next_u64();
        word.copy_from_slice(&random.to_ne_bytes());
        sum = sum.wrapping_add(random);
    }
    sum
}

/// The sum of the words.
pub fn sum(bytes: &[u8]) -> u64 {
    let mut sum = 0_u64;
    for word in bytes.chunks_exact(WORD_BYTES) {
        let [a, b, c, d, e, f, g, h] = *word else { continue };
        sum = sum.wrapping_add(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }
    sum
}

/// Writes `len_bytes`, a multiple of [`WORD_BYTES`], and returns the sum of the words.
///
/// # Errors
/// The writer's.
pub fn write(to: &mut impl Write, len_bytes: u64, seed: u64) -> io::Result<u64> {
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
    fn the_same_seed_gives_the_same_data() {
        let data = |seed| {
            let mut bytes = Vec::new();
            write(&mut bytes, 1024, seed).map(|_| bytes).unwrap()
        };
        assert_eq!(data(1), data(1));
        assert_ne!(data(1), data(2));
    }
}
