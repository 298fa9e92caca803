//! A fast hash for maps that each record asks: of ids, addresses, and lists of these.
//!
//! It does not withstand keys that were chosen to collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

/// A map with this hash.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Folded>>;

/// Stands for a list.
pub(crate) fn of<T: Hash>(list: &[T]) -> u64 {
    BuildHasherDefault::<Folded>::default().hash_one(list)
}

/// Odd, with bits all over: 2^64 divided by the golden ratio, and another.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// The state: each word is mixed in by a product of twice its length, folded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded(u64);

impl Default for Folded {
    fn default() -> Self {
        Self(FACTORS[0])
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.write_u64(u64::from_ne_bytes(*word)));
        rest.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, FACTORS[0]).wrapping_add(FACTORS[0]);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.0, FACTORS[1])
    }
}

fn fold(word: u64, factor: u64) -> u64 {
    let product = u128::from(word) * u128::from(factor);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn addresses_of_pages_spread_over_the_low_and_the_high_bits() {
        for step in [1, 16, 4096, 1 << 21, 1 << 47] {
            let hashes: Vec<u64> = (0..1_u64 << 14).map(|n| super::of(&[n.wrapping_mul(step)])).collect();
            // Of as many random places, 63 % are taken.
            for shift in [0, 50] {
                let places: HashSet<u64> = hashes.iter().map(|hash| hash >> shift & 0x3fff).collect();
                assert!((9_800..10_900).contains(&places.len()), "{step}, {shift}: {}", places.len());
            }
        }
    }

    #[test]
    fn lists_with_other_lengths_or_another_order_differ() {
        let lists: [&[u64]; 6] = [&[], &[0], &[0, 0], &[1, 2], &[2, 1], &[2]];
        assert_eq!(lists.iter().map(|list| super::of(list)).collect::<HashSet<_>>().len(), 6);
    }
}
