//! Trains a compression dictionary.
//!
//! In: samples of text. Out: parts of the samples, chosen so that frequent text is in the dictionary once. A
//! dictionary that stays too short gets the beginning of the samples in front.
//!
//! The samples are divided into stretches. Each one contributes its best part: the part whose words of eight bytes
//! are most frequent and not in the dictionary yet.
//!
//! It does not compress (`compression`).
//!
//! Reference: Liao, Petri, Moffat and Wirth, "Effective Construction of Relative Lempel-Ziv Dictionaries", WWW 2016.
//! Words are counted by hash, as in the dictionary builder of Zstandard.

use std::ops::Range;

use crate::tuning::{DICTIONARY_BYTES, DICTIONARY_PART_BYTES};

const HASHES: usize = 1 << 20;
const WORD_BYTES: usize = 8;
const PART_WORDS: usize = DICTIONARY_PART_BYTES - WORD_BYTES + 1;

/// A dictionary of at most `DICTIONARY_BYTES` for texts like `samples`.
pub(crate) fn train_dictionary(samples: &[u8]) -> Vec<u8> {
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
        // Words that occur once are worthless. The part is trimmed at both ends.
        let is_worth = |word: &&u32| counts[**word as usize] > 1;
        if let (Some(first), Some(last)) =
            (taken.iter().position(|word| is_worth(&word)), taken.iter().rposition(|word| is_worth(&word)))
        {
            dictionary.extend_from_slice(&samples[part.start + first..part.start + last + WORD_BYTES]);
        }
        taken.iter().for_each(|&word| counts[word as usize] = 0);
    }
    // A dictionary of the full length lets LZ4 skip its length checks.
    let missing = DICTIONARY_BYTES.saturating_sub(dictionary.len()).min(samples.len());
    dictionary.splice(0..0, samples[..missing].iter().copied());
    dictionary.truncate(DICTIONARY_BYTES);
    dictionary
}

/// The `PART_WORDS` consecutive words in `all` with the highest total count; a repeated word counts once. `within` is
/// all 0 before and after.
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
        let whole = train_dictionary(&samples);
        assert_eq!(memchr::memmem::find_iter(&whole, &licence).count(), 1);
        assert_eq!(whole.len(), DICTIONARY_BYTES);
    }

    proptest! {
        #[test]
        fn whatever_the_samples(samples in proptest::collection::vec(0_u8..3, 0..3_000), times in 0_usize..60) {
            let dictionary = train_dictionary(&samples.repeat(times));
            prop_assert!(dictionary.len() <= DICTIONARY_BYTES);
        }
    }
}
