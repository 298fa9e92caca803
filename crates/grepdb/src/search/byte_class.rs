//! Byte classes: sets of bytes as ranges, and the search for a sequence of classes.
//!
//! In: classes of characters, and text. Out: where a byte of each class follows a byte of the class before.

use regex_syntax::hir::Class;

/// The longest sequence that [`find`] accepts.
pub(crate) const SEQUENCE_LEN_MAX: usize = 3;

/// Classes with more ranges take too long to test.
pub(crate) const RANGES_MAX: usize = 4;

/// Positions that are tested before a branch asks whether one of them matched.
const BLOCK_BYTES: usize = 256;

/// A search for few bytes gives up if they hit more often than once in this many without the rest of the sequence.
const BYTES_PER_FEW_MIN: usize = 64;

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteClass {
    /// First and last byte of each range. Ascending, without overlap or contact.
    ranges: Vec<(u8, u8)>,
    /// Its bytes, if it has at most three.
    few: Option<Few>,
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
        let few = Few::of(&ranges);
        Self { ranges, few }
    }

    /// The bytes that begin a character of `class`, and whether each such byte is the whole character. A character
    /// beyond ASCII has several bytes, all of them 0x80 or higher.
    pub(crate) fn of(class: &Class) -> (Self, bool) {
        match class {
            Class::Bytes(class) => {
                (Self::new(class.ranges().iter().map(|range| (range.start(), range.end()))), true)
            }
            Class::Unicode(class) => {
                let byte = |char: char| if char.is_ascii() { char as u8 } else { 0xff };
                let low = class.ranges().iter().filter(|range| range.start().is_ascii());
                let low = low.map(|range| (range.start() as u8, byte(range.end()).min(0x7f)));
                let has_high = class.ranges().iter().any(|range| !range.end().is_ascii());
                (Self::new(low.chain(has_high.then_some((0x80, 0xff)))), !has_high)
            }
        }
    }

    pub(crate) fn single(byte: u8) -> Self {
        Self::new([(byte, byte)].into_iter())
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::new(self.ranges.iter().chain(&other.ranges).copied())
    }

    /// Those of its bytes that are ASCII, without the line end.
    pub(crate) fn ascii(&self) -> Self {
        let parts = [(0, b'\n' - 1), (b'\n' + 1, 0x7f)];
        let both = |&(first, last): &(u8, u8)| parts.map(|part| (first.max(part.0), last.min(part.1)));
        Self::new(self.ranges.iter().flat_map(both).filter(|(first, last)| first <= last))
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

    pub(crate) fn contains(&self, byte: u8) -> bool {
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
    let last = (text.len() + 1).saturating_sub(sequence.len()).min(to);
    let mut at = match find_few(sequence, text, from, last) {
        Progress::Found(at) => return at,
        Progress::GivenUp(at) => at,
    };
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
    (at..last).find(|&at| is_at(sequence, text, at))
}

/// How far a search came.
pub(crate) enum Progress {
    /// It found the sequence there, or it is nowhere.
    Found(Option<usize>),
    /// It is not before this position. From there on another search is faster.
    GivenUp(usize),
}

/// Searches `text[from..last]` for the beginning of `sequence`, which may have any length, while its rarest bytes are
/// rare. The end of the sequence may lie beyond `last`, but not beyond the text.
pub(crate) fn find_few(sequence: &ClassSequence, text: &[u8], from: usize, last: usize) -> Progress {
    let Some((offset, few)) = fewest(sequence) else { return Progress::GivenUp(from) };
    let (mut at, mut misses) = (from, 0);
    while at < last {
        if misses * BYTES_PER_FEW_MIN > at - from + BYTES_PER_FEW_MIN {
            return Progress::GivenUp(at);
        }
        let Some(hit) = few.find(&text[at + offset..last + offset]) else { break };
        at += hit;
        if is_at(sequence, text, at) {
            return Progress::Found(Some(at));
        }
        (at, misses) = (at + 1, misses + 1);
    }
    Progress::Found(None)
}

/// Whether the bytes from `at` on are of the classes.
pub(crate) fn is_at(sequence: &ClassSequence, text: &[u8], at: usize) -> bool {
    sequence.iter().zip(&text[at..]).all(|(class, &byte)| class.contains(byte))
}

/// One to three bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Few([u8; 3], usize);

impl Few {
    fn of(ranges: &[(u8, u8)]) -> Option<Self> {
        let mut few = Self([0; 3], 0);
        for byte in ranges.iter().flat_map(|&(first, last)| first..=last) {
            *few.0.get_mut(few.1)? = byte;
            few.1 += 1;
        }
        (few.1 > 0).then_some(few)
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let [a, b, c] = self.0;
        match self.1 {
            1 => memchr::memchr(a, text),
            2 => memchr::memchr2(a, b, text),
            _ => memchr::memchr3(a, b, c, text),
        }
    }
}

/// Whether a class has few bytes.
pub(crate) fn has_few(sequence: &ClassSequence) -> bool {
    fewest(sequence).is_some()
}

/// The class with the fewest bytes, if it has few, and its place.
fn fewest(sequence: &ClassSequence) -> Option<(usize, Few)> {
    let few = sequence.iter().enumerate().filter_map(|(offset, class)| Some((offset, class.few?)));
    few.min_by_key(|(_, few)| few.1)
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
            for sequence in [vec![letter.clone(), digit.clone()], vec![letter, under.clone(), digit.clone()], vec![under, digit.clone()], vec![digit.clone(), ByteClass::single(b'x'), digit]] {
                let found = find(&sequence, &text, 0, text.len());
                let truth = text
                    .windows(sequence.len())
                    .position(|bytes| sequence.iter().zip(bytes).all(|(class, &byte)| class.contains(byte)));
                prop_assert_eq!(found, truth);
            }
        }
    }
}
