//! Byte classes: sets of bytes as ranges, and the search for a sequence of classes.
//!
//! In: ranges, and text. Out: where a byte of each class follows a byte of the class before.

/// The longest sequence that [`find`] accepts.
pub(crate) const SEQUENCE_LEN_MAX: usize = 3;

/// Positions that are tested before a branch asks whether one of them matched.
const BLOCK_BYTES: usize = 256;

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteClass {
    /// First and last byte of each range. Ascending, without overlap or contact.
    ranges: Vec<(u8, u8)>,
}

/// One class after another.
pub(crate) type ClassSequence = Vec<ByteClass>;

impl ByteClass {
    pub(crate) fn new(ranges: impl Iterator<Item = (u8, u8)>) -> Self {
        let mut sorted: Vec<_> = ranges.collect();
        sorted.sort_unstable();
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for (first, last) in sorted {
            match ranges.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges }
    }

    pub(crate) fn single(byte: u8) -> Self {
        Self { ranges: vec![(byte, byte)] }
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::new(self.ranges.iter().chain(&other.ranges).copied())
    }

    /// Number of ranges: the cost of a test.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// The only byte of the class, if it has one.
    pub(crate) fn byte(&self) -> Option<u8> {
        match self.ranges[..] {
            [(first, last)] if first == last => Some(first),
            _ => None,
        }
    }

    fn contains(&self, byte: u8) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&byte))
    }

    /// Clears the hits whose byte is outside the class. The compiler vectorizes these loops: 16 bytes at a time.
    fn clear_others(&self, bytes: &[u8], hits: &mut [u8; BLOCK_BYTES]) {
        let Ok(bytes) = <&[u8; BLOCK_BYTES]>::try_from(bytes) else { return };
        if let [(first, last)] = self.ranges[..] {
            for (hit, byte) in hits.iter_mut().zip(bytes) {
                *hit &= in_range(*byte, first, last);
            }
            return;
        }
        let mut any = [0; BLOCK_BYTES];
        for &(first, last) in &self.ranges {
            for (any, byte) in any.iter_mut().zip(bytes) {
                *any |= in_range(*byte, first, last);
            }
        }
        hits.iter_mut().zip(any).for_each(|(hit, any)| *hit &= any);
    }
}

/// The first position in `text[from..to]` at which `sequence` begins. The match may end beyond `to`.
pub(crate) fn find(sequence: &ClassSequence, text: &[u8], from: usize, to: usize) -> Option<usize> {
    let mut at = from;
    let last = (text.len() + 1).saturating_sub(sequence.len()).min(to);
    while at + BLOCK_BYTES + SEQUENCE_LEN_MAX <= last {
        let block = &text[at..at + BLOCK_BYTES + SEQUENCE_LEN_MAX];
        let mut hits = [u8::MAX; BLOCK_BYTES];
        for (offset, class) in sequence.iter().enumerate() {
            class.clear_others(&block[offset..offset + BLOCK_BYTES], &mut hits);
        }
        if hits.iter().fold(0, |any, hit| any | hit) != 0
            && let Some(hit) = memchr::memchr(u8::MAX, &hits)
        {
            return Some(at + hit);
        }
        at += BLOCK_BYTES;
    }
    (at..last).find(|&at| sequence.iter().zip(&text[at..]).all(|(class, &byte)| class.contains(byte)))
}

/// All bits set, or none.
fn in_range(byte: u8, first: u8, last: u8) -> u8 {
    u8::from(byte.wrapping_sub(first) <= last - first).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_and_bytes_find_the_same(text in proptest::collection::vec(proptest::sample::select(&b"ab_x09 "[..]), 0..900)) {
            let class = |ranges: &[(u8, u8)]| ByteClass::new(ranges.iter().copied());
            let (letter, under, digit) = (class(&[(b'a', b'b'), (b'_', b'_')]), ByteClass::single(b'_'), class(&[(b'0', b'9')]));
            for sequence in [vec![letter, under.clone(), digit.clone()], vec![under, digit.clone()], vec![digit.clone(), ByteClass::single(b'x'), digit]] {
                let found = find(&sequence, &text, 0, text.len());
                let truth = text
                    .windows(sequence.len())
                    .position(|bytes| sequence.iter().zip(bytes).all(|(class, &byte)| class.contains(byte)));
                prop_assert_eq!(found, truth);
            }
        }
    }
}
