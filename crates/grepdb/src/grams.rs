//! Three bytes in a row, as the index knows them.
//!
//! In: text. Out: the distinct [`Gram`]s of a chunk, each with the sixteenths of the chunk in which it begins a line's part.
//!
//! Upper and lower case are the same, and bytes beyond ASCII share 26 codes: a gram is a filter, not a proof. None reaches across the
//! end of a line.
//!
//! What it does not do: keep them (`index`), or know which of them a regular expression needs (`query`).

use crate::tuning::{CHUNK_BYTES, UNITS};

/// Three folded bytes, seven bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gram(pub(crate) u32);

/// Grams that there can be.
pub(crate) const GRAMS: usize = 1 << 21;

impl Gram {
    /// That of three bytes, none of which ends a line.
    pub(crate) fn of(bytes: [u8; 3]) -> Option<Self> {
        let [a, b, c] = bytes.map(|byte| u32::from(CODES[byte as usize]));
        Some(Self(a << 14 | b << 7 | c)).filter(|gram| !gram.has_line_end())
    }

    fn has_line_end(self) -> bool {
        [self.0 >> 14, self.0 >> 7, self.0].iter().any(|code| code & 0x7f == LINE_END)
    }
}

/// The code of each byte: ASCII in lower case as it is, the rest spread over the codes of the upper case.
const CODES: [u8; 256] = {
    let mut codes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        codes[byte] = match byte as u8 {
            ascii if ascii.is_ascii() => ascii.to_ascii_lowercase(),
            other => b'A' + (other - 128) % 26,
        };
        byte += 1;
    }
    codes
};

/// The code of a line end, and of nothing else.
const LINE_END: u32 = b'\n' as u32;

/// Length of a sixteenth of a chunk.
pub(crate) const UNIT_BYTES: usize = CHUNK_BYTES / UNITS;

/// Grams of a chunk, as many as it may have different ones, and room up to a power of two.
const FOUND: usize = CHUNK_BYTES.next_power_of_two();

fn zeros<T: Copy + Default, const N: usize>() -> Box<[T; N]> {
    vec![T::default(); N].try_into().unwrap_or_else(|_| unreachable!("as many as are asked for"))
}

/// Finds grams, chunk by chunk. Holds 5 MiB.
#[derive(Debug)]
pub(crate) struct Finder {
    /// By gram: the units that hold it.
    units: Box<[u16; GRAMS]>,
    found: Box<[u32; FOUND]>,
}

impl Finder {
    pub(crate) fn new() -> Self {
        Self { units: zeros(), found: zeros() }
    }

    /// The grams of `text`, in no order, and the units in which there are lines with them. A line is in the unit in which it begins.
    pub(crate) fn find(&mut self, text: &[u8]) -> Vec<(Gram, u16)> {
        let (known, found) = (&mut *self.units, &mut *self.found);
        let mut count = 0;
        // Three bytes with a line end between them are marked as well, which is faster than to ask, and left out below.
        let mut gram = LINE_END << 7 | LINE_END;
        for (unit, lines) in units(text) {
            for &byte in lines {
                gram = gram << 7 | u32::from(CODES[byte as usize]);
                // Cut to powers of two: no bounds to ask for.
                let units = &mut known[gram as usize % GRAMS];
                let before = *units;
                *units = before | unit;
                // Written whether it is new or not: to ask would be wrong too often.
                found[count % FOUND] = gram;
                count += usize::from(before == 0);
            }
        }
        let mut grams = Vec::with_capacity(count);
        for gram in found[..count].iter().map(|gram| gram % GRAMS as u32) {
            let units = std::mem::take(&mut known[gram as usize]);
            if !Gram(gram).has_line_end() {
                grams.push((Gram(gram), units));
            }
        }
        grams
    }
}

/// The lines of `text` by the unit in which they begin, the unit as a bit.
fn units(text: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut begin = 0;
    (0..UNITS).map(move |unit| {
        let end = match (unit + 1) * UNIT_BYTES {
            _ if unit + 1 == UNITS => text.len(),
            after if after > text.len() => text.len(),
            // The line that begins before `after` is whole.
            after => memchr::memchr(b'\n', &text[after - 1..]).map_or(text.len(), |at| after + at),
        };
        let lines = &text[begin..end];
        begin = end;
        (1 << unit, lines)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Vec<(Gram, u16)> {
        let mut found = Finder::new().find(text);
        found.sort();
        found
    }

    fn gram(text: &str) -> Gram {
        Gram::of(text.as_bytes().try_into().unwrap()).unwrap()
    }

    #[test]
    fn case_is_folded_and_lines_are_kept_apart() {
        let mut expected = vec![(gram("abc"), 1), (gram("bcd"), 1), (gram("xyz"), 1)];
        expected.sort();
        assert_eq!(found(b"aBcD\nxyZ\nab\n"), expected);
        assert_eq!(Gram::of(*b"a\nb"), None);
    }

    #[test]
    fn a_line_belongs_to_the_unit_in_which_it_begins() {
        let mut text = vec![b'-'; UNIT_BYTES - 2];
        text.push(b'\n');
        text.extend(b"abc\nxyz\n");
        let found = found(&text);
        assert!(found.contains(&(gram("abc"), 1)), "{found:?}");
        assert!(found.contains(&(gram("xyz"), 2)), "{found:?}");
    }

    #[test]
    fn a_finder_forgets_the_chunk_before() {
        let mut finder = Finder::new();
        assert_eq!(finder.find(b"abc").len(), 1);
        assert_eq!(finder.find(b"xyz"), [(gram("xyz"), 1)]);
    }

    #[test]
    fn bytes_beyond_ascii_are_found_again() {
        let text = "größer".as_bytes();
        let found = found(text);
        for bytes in text.windows(3) {
            let gram = Gram::of(bytes.try_into().unwrap()).unwrap();
            assert!(found.contains(&(gram, 1)));
        }
    }
}
