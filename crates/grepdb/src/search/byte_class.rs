//! Byte classes, and the search for bytes of some classes one behind the other.
//!
//! In: classes of characters, and text. Out: where the bytes begin.
//!
//! A [`Sequence`] is compared 16 bytes at a time, which the compiler makes of plain loops. A [`Run`] looks at one byte
//! in as many as it is long. Both are several times as fast as an automaton.

use regex_syntax::hir::Class;

/// The longest [`Sequence`]. Each byte more costs another comparison, and is seldom needed.
pub(crate) const SEQUENCE_LEN_MAX: usize = 3;
/// Positions of which a branch asks whether one of them has the sequence.
const BLOCK_BYTES: usize = 128;

/// A set of bytes: the first and last byte of each range, ascending, without overlap or contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteClass(Vec<(u8, u8)>);

impl ByteClass {
    /// The bytes that begin a character of `class`, without the line end, and whether each is a whole character. A
    /// character beyond ASCII has several bytes, all of them 0x80 or higher.
    pub(crate) fn of(class: &Class) -> (Self, bool) {
        let (ranges, is_one_byte): (Vec<_>, _) = match class {
            Class::Bytes(class) => {
                (class.ranges().iter().map(|range| (range.start(), range.end())).collect(), true)
            }
            Class::Unicode(class) => {
                let byte = |char: char| u8::try_from(char).ok().filter(u8::is_ascii);
                let low = class.ranges().iter().filter_map(|range| Some((byte(range.start())?, range.end())));
                let low = low.map(|(first, last)| (first, byte(last).unwrap_or(0x7f)));
                let has_high = class.ranges().iter().any(|range| !range.end().is_ascii());
                (low.chain(has_high.then_some((0x80, 0xff))).collect(), !has_high)
            }
        };
        let parts = [(0, b'\n' - 1), (b'\n' + 1, 0xff)];
        let both = |(first, last): (u8, u8)| parts.map(|part| (first.max(part.0), last.min(part.1)));
        let mut joined: Vec<(u8, u8)> = Vec::new();
        for (first, last) in ranges.into_iter().flat_map(both).filter(|(first, last)| first <= last) {
            match joined.last_mut() {
                Some(before) if before.1 + 1 == first => before.1 = last,
                _ => joined.push((first, last)),
            }
        }
        (Self(joined), is_one_byte)
    }

    /// Every byte but the line end.
    pub(crate) fn line() -> Self {
        Self(vec![(0, b'\n' - 1), (b'\n' + 1, u8::MAX)])
    }

    pub(crate) fn single(byte: u8) -> Self {
        Self(vec![(byte, byte)])
    }

    /// Number of ranges: the cost of a test.
    pub(crate) fn ranges(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_single(&self) -> bool {
        matches!(self.0[..], [(first, last)] if first == last)
    }

    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&byte))
    }

    /// The share of its bytes in the text of programs, roughly.
    pub(crate) fn share(&self) -> f64 {
        let share = |byte| match byte {
            b' ' => 0.15,
            b'a'..=b'z' => 0.022,
            b'\t' | b'_' => 0.02,
            b'!'..=b'~' => 0.005,
            _ => 0.0001,
        };
        self.0.iter().flat_map(|&(first, last)| first..=last).map(share).sum()
    }

    /// Clears the hits whose byte is outside the class.
    fn clear_others(&self, bytes: &[u8], hits: &mut [u8; BLOCK_BYTES]) {
        let Ok(bytes) = <&[u8; BLOCK_BYTES]>::try_from(bytes) else { return };
        if let [(first, last)] = self.0[..] {
            for (hit, byte) in hits.iter_mut().zip(bytes) {
                *hit &= in_range(*byte, first, last);
            }
            return;
        }
        let mut any = [0; BLOCK_BYTES];
        for &(first, last) in &self.0 {
            for (any, byte) in any.iter_mut().zip(bytes) {
                *any |= in_range(*byte, first, last);
            }
        }
        hits.iter_mut().zip(any).for_each(|(hit, any)| *hit &= any);
    }
}

/// All bits set, or none.
fn in_range(byte: u8, first: u8, last: u8) -> u8 {
    u8::from(byte.wrapping_sub(first) <= last - first).wrapping_neg()
}

/// One to [`SEQUENCE_LEN_MAX`] classes, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence(Vec<ByteClass>);

impl Sequence {
    pub(crate) fn new(classes: &[ByteClass]) -> Self {
        Self(classes[..classes.len().min(SEQUENCE_LEN_MAX)].to_vec())
    }

    /// The first position in `text` at which it begins.
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        let last = (text.len() + 1).saturating_sub(self.0.len());
        let is_at = |at: usize| self.0.iter().zip(&text[at..]).all(|(class, &byte)| class.contains(byte));
        // A frequent sequence is often right here.
        let mut at = 0;
        if last > 0 && is_at(0) {
            return Some(0);
        }
        while at + BLOCK_BYTES <= last {
            let mut hits = [u8::MAX; BLOCK_BYTES];
            for (offset, class) in self.0.iter().enumerate() {
                class.clear_others(&text[at + offset..][..BLOCK_BYTES], &mut hits);
            }
            if hits.iter().fold(0, |any, hit| any | hit) != 0 {
                return memchr::memchr(u8::MAX, &hits).map(|hit| at + hit);
            }
            at += BLOCK_BYTES;
        }
        (at..last).find(|&at| is_at(at))
    }
}

/// Several bytes of one class.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    has: Box<[bool; 256]>,
    len: usize,
    /// The class is [`ByteClass::line`].
    is_line: bool,
}

impl Run {
    pub(crate) fn new(class: &ByteClass, len: usize) -> Self {
        let has = Box::new(std::array::from_fn(|byte| class.contains(byte as u8)));
        Self { has, len, is_line: *class == ByteClass::line() }
    }

    /// The first position in `text` at which it begins.
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        let mut begin = 0_usize;
        loop {
            let bytes = text.get(begin..begin.checked_add(self.len)?)?;
            // The last byte outside the class tells that no run before it is long.
            let outside = match self.is_line {
                true => memchr::memrchr(b'\n', bytes),
                false => bytes.iter().rposition(|&byte| !self.has[byte as usize]),
            };
            match outside {
                Some(at) => begin += at + 1,
                None => return Some(begin),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex_syntax::hir::HirKind;

    use super::*;
    use crate::search::query::{PatternOptions, parse};

    proptest! {
        #[test]
        fn blocks_and_steps_find_the_same_as_byte_by_byte(
            text in proptest::collection::vec(proptest::sample::select(&b"ab_x09 \n"[..]), 0..900),
            classes in proptest::collection::vec(
                proptest::sample::select(&["[ab]", "[a-z_]", "_", "[0-9]", "[^x]", "[^0-9 ]"][..]), 1..=SEQUENCE_LEN_MAX,
            ),
            len in 1_usize..20,
        ) {
            let class = |pattern: &&str| match parse(&[pattern], PatternOptions::default()).unwrap()[0].kind() {
                HirKind::Class(class) => ByteClass::of(class).0,
                _ => ByteClass::single(b'_'),
            };
            let classes: Vec<_> = classes.iter().map(class).collect();
            let truth = |classes: &[ByteClass]| {
                let is_at = |bytes: &[u8]| classes.iter().zip(bytes).all(|(class, &byte)| class.contains(byte));
                text.windows(classes.len()).position(is_at)
            };
            prop_assert_eq!(Sequence::new(&classes).find(&text), truth(&classes));
            prop_assert_eq!(Run::new(&classes[0], len).find(&text), truth(&vec![classes[0].clone(); len]));
        }
    }
}
