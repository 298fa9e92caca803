//! Trigrams: three consecutive bytes.
//!
//! In: text. Out: the distinct [`Trigram`]s of a chunk, each with the subchunks in which a line with it begins.
//!
//! Bytes beyond ASCII share the codes of control characters. So a trigram filters texts; it proves nothing. No
//! trigram crosses a line end.
//!
//! It does not store trigrams (`posting_list`), or derive them from regular expressions (`search`).

use crate::tuning::{CHUNK_BYTES, SUBCHUNKS};

/// The codes of three bytes, seven bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Trigram(pub(crate) u32);

pub(crate) const TRIGRAMS: usize = 1 << 21;

impl Trigram {
    /// The trigram of three bytes; `None` if one of them is a line end.
    pub(crate) fn of(bytes: [u8; 3]) -> Option<Self> {
        let [a, b, c] = bytes.map(|byte| u32::from(CODES[byte as usize]));
        Some(Self(a << 14 | b << 7 | c)).filter(|trigram| !trigram.has_line_end())
    }

    fn has_line_end(self) -> bool {
        self.codes().contains(&(LINE_END as u8))
    }

    fn codes(self) -> [u8; 3] {
        [self.0 >> 14, self.0 >> 7, self.0].map(|code| (code & 0x7f) as u8)
    }

    /// The trigrams that differ from this one in the case of letters only, and this one.
    pub(crate) fn case_variants(self) -> Vec<Self> {
        let cases = self.codes().map(|code| {
            let mut cases = vec![code.to_ascii_lowercase(), code.to_ascii_uppercase()];
            cases.dedup();
            cases
        });
        let [first, second, third] = &cases;
        let pairs = first.iter().flat_map(|a| second.iter().map(move |b| (*a, *b)));
        pairs.flat_map(|(a, b)| third.iter().filter_map(move |c| Self::of([a, b, *c]))).collect()
    }
}

/// The code of each byte. ASCII has its own. The bytes beyond share the codes of control characters that are rare in
/// text: all but tab, line feed, escape and delete.
const CODES: [u8; 256] = {
    let mut codes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        codes[byte] = match byte as u8 {
            ascii if ascii.is_ascii() => ascii,
            other => match (other - 128) % 28 {
                before if before < b'\t' => before,
                // Behind line feed, and around escape.
                behind if behind + 2 < 0x1b => behind + 2,
                behind => behind + 3,
            },
        };
        byte += 1;
    }
    codes
};

/// The code of a line end. No other byte has it.
const LINE_END: u32 = b'\n' as u32;

pub(crate) const SUBCHUNK_BYTES: usize = CHUNK_BYTES / SUBCHUNKS;

/// Room for every trigram of a chunk, rounded up to a power of two.
const FOUND_MAX: usize = CHUNK_BYTES.next_power_of_two();

fn zeros<T: Copy + Default, const N: usize>() -> Box<[T; N]> {
    vec![T::default(); N].try_into().unwrap_or_else(|_| unreachable!("as many as are asked for"))
}

/// Extracts the trigrams of chunks, one chunk at a time. Holds 5 MiB.
#[derive(Debug)]
pub(crate) struct TrigramExtractor {
    /// For each trigram the subchunks that hold it. All 0 between two chunks.
    masks: Box<[u16; TRIGRAMS]>,
    found: Box<[u32; FOUND_MAX]>,
}

impl TrigramExtractor {
    pub(crate) fn new() -> Self {
        Self { masks: zeros(), found: zeros() }
    }

    /// The distinct trigrams of `text` in no order, each with a mask of the subchunks in which a line with it begins.
    pub(crate) fn extract(&mut self, text: &[u8]) -> Vec<(Trigram, u16)> {
        self.extract_within(*b"\n\n", text)
    }

    /// The same for text whose first line began before it. `before` are the two bytes that precede the text.
    pub(crate) fn extract_within(&mut self, before: [u8; 2], text: &[u8]) -> Vec<(Trigram, u16)> {
        let (known, found) = (&mut *self.masks, &mut *self.found);
        let mut count = 0;
        // Trigrams across a line end are collected as well and dropped at the end. That is faster than a test for
        // each byte.
        let mut trigram = before.iter().fold(0, |codes, &byte| codes << 7 | u32::from(CODES[byte as usize]));
        for (subchunk, lines) in lines_by_subchunk(text) {
            for &byte in lines {
                trigram = trigram << 7 | u32::from(CODES[byte as usize]);
                // The remainder by a power of two spares a bounds check.
                let mask = &mut known[trigram as usize % TRIGRAMS];
                let before = *mask;
                *mask = before | subchunk;
                // Written even if the trigram is known: a branch would be mispredicted too often.
                found[count % FOUND_MAX] = trigram;
                count += usize::from(before == 0);
            }
        }
        let mut trigrams = Vec::with_capacity(count);
        for trigram in found[..count].iter().map(|trigram| trigram % TRIGRAMS as u32) {
            let mask = std::mem::take(&mut known[trigram as usize]);
            if !Trigram(trigram).has_line_end() {
                trigrams.push((Trigram(trigram), mask));
            }
        }
        trigrams
    }
}

/// The lines of `text`, grouped by the subchunk in which they begin. The subchunk is a mask with one bit.
fn lines_by_subchunk(text: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut begin = 0;
    (0..SUBCHUNKS).map(move |subchunk| {
        let end = match (subchunk + 1) * SUBCHUNK_BYTES {
            _ if subchunk + 1 == SUBCHUNKS => text.len(),
            after if after > text.len() => text.len(),
            // A line that begins before `after` belongs to this subchunk as a whole.
            after => memchr::memchr(b'\n', &text[after - 1..]).map_or(text.len(), |at| after + at),
        };
        let lines = &text[begin..end];
        begin = end;
        (1 << subchunk, lines)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Vec<(Trigram, u16)> {
        let mut found = TrigramExtractor::new().extract(text);
        found.sort();
        found
    }

    fn trigram(text: &str) -> Trigram {
        Trigram::of(text.as_bytes().try_into().unwrap()).unwrap()
    }

    #[test]
    fn case_counts_and_lines_are_kept_apart() {
        let mut expected = vec![(trigram("aBc"), 1), (trigram("BcD"), 1), (trigram("xyZ"), 1)];
        expected.sort();
        assert_eq!(found(b"aBcD\nxyZ\nab\n"), expected);
        assert_eq!(Trigram::of(*b"a\nb"), None);
    }

    #[test]
    fn letters_have_two_cases_and_nothing_else_has() {
        assert_eq!(trigram("a_B").case_variants(), ["a_b", "a_B", "A_b", "A_B"].map(trigram));
        assert_eq!(trigram("1_2").case_variants(), [trigram("1_2")]);
        let beyond = Trigram::of("ü€".as_bytes()[..3].try_into().unwrap()).unwrap();
        assert_eq!(beyond.case_variants(), [beyond]);
    }

    #[test]
    fn no_other_byte_has_the_code_of_a_line_end_or_of_text() {
        for byte in 128..=u8::MAX {
            let code = CODES[byte as usize];
            assert!(code < b' ' && !b"\t\n\x1b".contains(&code), "{byte}: {code}");
        }
    }

    #[test]
    fn a_line_belongs_to_the_unit_in_which_it_begins() {
        let mut text = vec![b'-'; SUBCHUNK_BYTES - 2];
        text.push(b'\n');
        text.extend(b"abc\nxyz\n");
        let found = found(&text);
        assert!(found.contains(&(trigram("abc"), 1)), "{found:?}");
        assert!(found.contains(&(trigram("xyz"), 2)), "{found:?}");
    }

    #[test]
    fn a_finder_forgets_the_chunk_before() {
        let mut extractor = TrigramExtractor::new();
        assert_eq!(extractor.extract(b"abc").len(), 1);
        assert_eq!(extractor.extract(b"xyz"), [(trigram("xyz"), 1)]);
    }
}
