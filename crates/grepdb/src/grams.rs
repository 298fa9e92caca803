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
        (!bytes.contains(&b'\n')).then_some(Self(a << 14 | b << 7 | c))
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

/// Length of a sixteenth of a chunk.
pub(crate) const UNIT_BYTES: usize = CHUNK_BYTES / UNITS;

/// Finds grams, chunk by chunk. Holds 4 MiB.
#[derive(Debug)]
pub(crate) struct Finder {
    /// By gram: the units that hold it.
    units: Vec<u16>,
    found: Vec<u32>,
}

impl Finder {
    pub(crate) fn new() -> Self {
        Self { units: vec![0; GRAMS], found: Vec::new() }
    }

    /// The grams of `text`, in no order, and the units in which there are lines with them. A line is in the unit in which it begins.
    pub(crate) fn find(&mut self, text: &[u8]) -> impl Iterator<Item = (Gram, u16)> {
        let mut begin = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let unit = unit_mask(begin);
            begin += line.len();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let [a, b, rest @ ..] = line else { continue };
            let mut gram = u32::from(CODES[*a as usize]) << 7 | u32::from(CODES[*b as usize]);
            for &byte in rest {
                gram = (gram << 7 | u32::from(CODES[byte as usize])) & (GRAMS as u32 - 1);
                let units = &mut self.units[gram as usize];
                let before = *units;
                // Written whether it changes or not: to ask would be wrong too often.
                *units = before | unit;
                if before == 0 {
                    self.found.push(gram);
                }
            }
        }
        let units = &mut self.units;
        self.found.drain(..).map(|gram| (Gram(gram), std::mem::take(&mut units[gram as usize])))
    }
}

/// The unit of a line that begins `at`, as a bit.
fn unit_mask(at: usize) -> u16 {
    1 << (at / UNIT_BYTES).min(UNITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Vec<(Gram, u16)> {
        let mut found: Vec<_> = Finder::new().find(text).collect();
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
        assert_eq!(finder.find(b"abc").count(), 1);
        assert_eq!(finder.find(b"xyz").collect::<Vec<_>>(), [(gram("xyz"), 1)]);
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
