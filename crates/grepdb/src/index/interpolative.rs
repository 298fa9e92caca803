//! Binary interpolative coding: ascending integers in few bits.
//!
//! In: distinct integers below a bound, ascending. Out: bytes, and back.
//!
//! The middle integer takes as many bits as its possible range needs. The integers on either side follow in the same
//! way. Integers close together take less than one bit each, and a full range takes none.
//!
//! It does not store the number of integers, or the bound.
//!
//! Reference: Moffat and Stuiver, "Binary Interpolative Coding for Effective Index Compression", Information
//! Retrieval 3, 2000.

/// Appends `numbers`, all below `bound`, to `out`.
pub(crate) fn encode(numbers: &[u32], bound: u32, out: &mut Vec<u8>) {
    let mut bits = BitWriter { out, word: 0, filled: 0 };
    bits.encode_range(numbers, 0, bound);
    bits.flush();
}

/// Calls `each` with `count` integers below `bound`, ascending. Returns `None` if the bytes end too early or are
/// invalid.
pub(crate) fn decode(bytes: &[u8], count: u32, bound: u32, each: &mut impl FnMut(u32)) -> Option<()> {
    match count {
        0 => Some(()),
        _ if count > bound => None,
        _ => BitReader { bytes, word: 0, filled: 0 }.decode_range(count, 0, bound, each),
    }
}

struct BitWriter<'o> {
    out: &'o mut Vec<u8>,
    word: u64,
    filled: u32,
}

impl BitWriter<'_> {
    /// Encodes `numbers`, which lie in `low..high`.
    fn encode_range(&mut self, numbers: &[u32], low: u32, high: u32) {
        let count = numbers.len() as u32;
        if count == 0 || count == high - low {
            return;
        }
        let middle = numbers.len() / 2;
        let (before, after) = (middle as u32, count - 1 - middle as u32);
        let number = numbers[middle];
        // The numbers on either side need room, so the middle one can't be near an edge.
        self.put_number(number - low - before, high - low - before - after);
        self.encode_range(&numbers[..middle], low, number);
        self.encode_range(&numbers[middle + 1..], number + 1, high);
    }

    /// Writes a number below `span` in truncated binary: the lowest ones take one bit less.
    fn put_number(&mut self, number: u32, span: u32) {
        let (bits, short) = widths(span);
        let is_long = u32::from(number >= short);
        let long = number + is_long * short;
        // The high part comes first. It tells the reader whether another bit follows.
        let value = u64::from(long >> is_long) | u64::from(long & is_long) << bits;
        self.word |= value << self.filled;
        self.filled += bits + is_long;
        if self.filled >= u32::BITS {
            self.out.extend_from_slice(&(self.word as u32).to_le_bytes());
            self.word >>= u32::BITS;
            self.filled -= u32::BITS;
        }
    }

    fn flush(&mut self) {
        self.out.extend_from_slice(&self.word.to_le_bytes()[..self.filled.div_ceil(8) as usize]);
    }
}

/// Bits of a short code for a number below `span`, and how many numbers have a short code.
fn widths(span: u32) -> (u32, u32) {
    let bits = span.ilog2();
    (bits, ((2_u64 << bits) - u64::from(span)) as u32)
}

struct BitReader<'b> {
    bytes: &'b [u8],
    word: u64,
    filled: u32,
}

impl BitReader<'_> {
    /// Decodes `count` numbers in `low..high`: at least one, and no more than fit.
    fn decode_range(&mut self, count: u32, low: u32, high: u32, each: &mut impl FnMut(u32)) -> Option<()> {
        if count == high - low {
            (low..high).for_each(each);
            return Some(());
        }
        let before = count / 2;
        let after = count - 1 - before;
        let number = low + before + self.take_number(high - low - before - after)?;
        if before > 0 {
            self.decode_range(before, low, number, each)?;
        }
        each(number);
        if after > 0 {
            self.decode_range(after, number + 1, high, each)?;
        }
        Some(())
    }

    fn take_number(&mut self, span: u32) -> Option<u32> {
        let (bits, short) = widths(span);
        if self.filled <= bits {
            self.fill();
        }
        let high = (self.word & ((1 << bits) - 1)) as u32;
        let low = (self.word >> bits & 1) as u32;
        // 1 if another bit follows. Arithmetic instead of a branch: the branch would be mispredicted half of the
        // time.
        let is_long = u32::from(high >= short);
        let long = (high + low).wrapping_sub(short);
        self.word >>= bits + is_long;
        self.filled = self.filled.checked_sub(bits + is_long)?;
        Some(high + is_long * long)
    }

    /// Refills `word` to 56 bits or more, or to the end of the bytes. Bits of a byte that fits only in part are read
    /// again by the next refill, with the same value.
    fn fill(&mut self) {
        if let Some(next) = self.bytes.first_chunk() {
            self.word |= u64::from_le_bytes(*next) << self.filled;
            let taken = (63 - self.filled) / 8;
            (self.bytes, self.filled) = (&self.bytes[taken as usize..], self.filled + 8 * taken);
        } else {
            while let Some((&byte, rest)) = self.bytes.split_first().filter(|_| self.filled < 56) {
                self.word |= u64::from(byte) << self.filled;
                (self.bytes, self.filled) = (rest, self.filled + 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8], count: u32, bound: u32) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        decode(bytes, count, bound, &mut |number| numbers.push(number)).map(|()| numbers)
    }

    #[test]
    fn a_full_range_takes_no_room() {
        let mut out = Vec::new();
        encode(&(0..1000).collect::<Vec<_>>(), 1000, &mut out);
        assert!(out.is_empty());
        assert_eq!(decoded(&[], 1000, 1000).unwrap().len(), 1000);
    }

    #[test]
    fn neighbours_take_less_than_a_bit_each() {
        let numbers: Vec<u32> = (5_000..6_000).collect();
        let mut out = Vec::new();
        encode(&numbers, 80_000, &mut out);
        assert!(out.len() * 8 < numbers.len(), "{} bytes", out.len());
        assert_eq!(decoded(&out, 1_000, 80_000).unwrap(), numbers);
    }

    proptest! {
        #[test]
        fn all_numbers_come_back(numbers in proptest::collection::btree_set(0_u32..5_000, 0..400), more in 0_u32..100_000) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let bound = numbers.last().map_or(0, |last| last + 1) + more;
            let mut out = Vec::new();
            encode(&numbers, bound, &mut out);
            prop_assert_eq!(decoded(&out, numbers.len() as u32, bound), Some(numbers));
        }

        #[test]
        fn whatever_the_bytes_what_comes_is_ascending_and_below_the_bound(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), count in 0_u32..500, bound in 0_u32..2_000,
        ) {
            if let Some(numbers) = decoded(&bytes, count, bound) {
                prop_assert_eq!(numbers.len() as u32, count);
                prop_assert!(numbers.is_sorted_by(|a, b| a < b));
                prop_assert!(numbers.last().is_none_or(|&last| last < bound));
            }
        }
    }
}
