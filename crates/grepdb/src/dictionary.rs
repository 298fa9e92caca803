//! Samples of texts -> the dictionary that serves them best.
//!
//! In: texts. Out: parts of them, such that what comes often in all is in it; where these are too short, before them how the texts begin.
//!
//! Each stretch of the samples gives the part whose words (eight bytes in a row) are the most frequent ones that the dictionary does not
//! have yet.
//!
//! What it does not do: pack (`text`).
//!
//! Reference: Liao, Petri, Moffat and Wirth, "Effective Construction of Relative Lempel-Ziv Dictionaries", WWW 2016; words are counted by
//! their hashes, as in the dictionary builder of Zstandard.

use std::ops::Range;

use crate::tuning::{DICTIONARY_BYTES, DICTIONARY_PART_BYTES};

/// Hashes that there can be.
const HASHES: usize = 1 << 20;
/// Length of a word.
const WORD_BYTES: usize = 8;
/// Words of a part.
const PART_WORDS: usize = DICTIONARY_PART_BYTES - WORD_BYTES + 1;

/// A dictionary of `DICTIONARY_BYTES` or less for texts like `samples`.
pub(crate) fn dictionary(samples: &[u8]) -> Vec<u8> {
    let words: Vec<u32> = samples.windows(WORD_BYTES).map(hash).collect();
    let mut counts = vec![0_u32; HASHES];
    words.iter().for_each(|&word| counts[word as usize] += 1);
    let stretch = words.len().div_ceil(DICTIONARY_BYTES / DICTIONARY_PART_BYTES).max(PART_WORDS);
    let mut within = vec![0_u16; HASHES];
    let mut dictionary = Vec::with_capacity(DICTIONARY_BYTES);
    for begin in (0..words.len()).step_by(stretch) {
        let end = (begin + stretch).min(words.len());
        let part = best(&words, begin..end, &counts, &mut within);
        let taken = &words[part.clone()];
        // Words that come only once are worth nothing at its ends.
        let is_worth = |word: &&u32| counts[**word as usize] > 1;
        if let (Some(first), Some(last)) =
            (taken.iter().position(|word| is_worth(&word)), taken.iter().rposition(|word| is_worth(&word)))
        {
            dictionary.extend_from_slice(&samples[part.start + first..part.start + last + WORD_BYTES]);
        }
        taken.iter().for_each(|&word| counts[word as usize] = 0);
    }
    // What only a whole one can be: as long as LZ4 can reach, so that it need not look how long it is.
    let missing = DICTIONARY_BYTES.saturating_sub(dictionary.len()).min(samples.len());
    dictionary.splice(0..0, samples[..missing].iter().copied());
    dictionary.truncate(DICTIONARY_BYTES);
    dictionary
}

/// The `PART_WORDS` words of `all` in a row that count most, each once. `within` is zero, and is so again afterwards.
fn best(words: &[u32], all: Range<usize>, counts: &[u32], within: &mut [u16]) -> Range<usize> {
    let (mut score, mut most) = (0_u64, 0);
    let mut best = all.start..(all.start + PART_WORDS).min(all.end);
    let mut begin = all.start;
    for at in all.clone() {
        let word = words[at] as usize;
        score += if within[word] == 0 { u64::from(counts[word]) } else { 0 };
        within[word] += 1;
        if at + 1 - begin > PART_WORDS {
            let word = words[begin] as usize;
            within[word] -= 1;
            score -= if within[word] == 0 { u64::from(counts[word]) } else { 0 };
            begin += 1;
        }
        if score > most {
            (most, best) = (score, begin..at + 1);
        }
    }
    words[begin..all.end].iter().for_each(|&word| within[word as usize] -= 1);
    best
}

fn hash(word: &[u8]) -> u32 {
    let word = word.try_into().map_or(0, u64::from_le_bytes);
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASHES.ilog2())) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_comes_often_is_in_it_once() {
        let mut random = fastrand::Rng::with_seed(1);
        let licence: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(150).collect();
        let mut samples = Vec::new();
        for _ in 0..100 {
            samples.extend(std::iter::repeat_with(|| random.u8(..)).take(4_000));
            samples.extend_from_slice(&licence);
        }
        let whole = dictionary(&samples);
        assert_eq!(memchr::memmem::find_iter(&whole, &licence).count(), 1);
        assert_eq!(whole.len(), DICTIONARY_BYTES);
    }

    proptest! {
        #[test]
        fn whatever_the_samples(samples in proptest::collection::vec(0_u8..3, 0..3_000), times in 0_usize..60) {
            let dictionary = dictionary(&samples.repeat(times));
            prop_assert!(dictionary.len() <= DICTIONARY_BYTES);
        }
    }
}
