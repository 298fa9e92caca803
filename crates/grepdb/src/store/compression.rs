//! LZ4 compression with a dictionary that all chunks of a segment share.
//!
//! In: half a chunk. Out: an LZ4 block, and back.
//!
//! It does not check that a block is as it was written (`segment`).

use lzzzz::{lz4, lz4_hc};

use crate::tuning::COMPRESSION_LEVEL;

/// Compresses the texts of one segment.
pub(crate) struct Compressor<'d> {
    chunk: lz4_hc::Compressor<'d>,
    dictionary: Option<lz4_hc::Compressor<'d>>,
}

impl<'d> Compressor<'d> {
    /// A compressor with `dictionary`, which may be empty.
    pub(crate) fn new(dictionary: &'d [u8]) -> std::io::Result<Self> {
        let dictionary = match dictionary {
            [] => None,
            _ => Some(lz4_hc::Compressor::with_dict(dictionary, COMPRESSION_LEVEL)?),
        };
        Ok(Self { chunk: lz4_hc::Compressor::new()?, dictionary })
    }

    /// Appends `text` to `out` as one block.
    pub(crate) fn compress(&mut self, text: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        self.chunk.attach_dict(None, COMPRESSION_LEVEL);
        if let Some(dictionary) = &mut self.dictionary {
            self.chunk.attach_dict(Some(dictionary), COMPRESSION_LEVEL);
        }
        self.chunk.next_to_vec(text, out)?;
        Ok(())
    }
}

/// Decompresses `block` behind the dictionary: the first `dictionary` bytes of `room` hold it, and the text fills the
/// rest. The text is all of the block if `is_whole`, else its beginning. Returns whether the rest was filled.
///
/// Text right behind its dictionary is decompressed a fifth faster than text elsewhere in memory.
pub(crate) fn decompress(block: &[u8], room: &mut [u8], dictionary: usize, is_whole: bool) -> bool {
    let (dictionary, text) = room.split_at_mut(dictionary);
    // A chunk of empty files has no block.
    if text.is_empty() {
        return block.is_empty() || !is_whole;
    }
    let wanted = text.len();
    let decompressed = if is_whole {
        lz4::decompress_with_dict(block, text, dictionary)
    } else {
        lz4::decompress_partial_with_dict(block, text, wanted, dictionary)
    };
    decompressed.is_ok_and(|len| len == wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_the_dictionary_holds_takes_little_room() {
        let licence: Vec<u8> = (0..1000_u32).map(|n| (n * n % 251) as u8).collect();
        let packed = |dictionary: &[u8]| {
            let mut out = Vec::new();
            Compressor::new(dictionary).unwrap().compress(&licence, &mut out).unwrap();
            out.len()
        };
        assert!(packed(&licence) < packed(&[]) / 4, "{} of {}", packed(&licence), packed(&[]));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(texts in proptest::collection::vec("[a-f\\n]{1,300}", 1..6), dictionary in "[a-f]{0,200}") {
            let mut compressor = Compressor::new(dictionary.as_bytes()).unwrap();
            for text in texts {
                let mut block = Vec::new();
                compressor.compress(text.as_bytes(), &mut block).unwrap();
                let text = text.as_bytes();
                for len in [0, 1, text.len() / 2, text.len()] {
                    let mut room = dictionary.clone().into_bytes();
                    room.resize(dictionary.len() + len.min(text.len()), 0);
                    prop_assert!(decompress(&block, &mut room, dictionary.len(), len == text.len()));
                    prop_assert_eq!(&room[dictionary.len()..], &text[..len.min(text.len())]);
                }
            }
        }

        #[test]
        fn damaged_blocks_do_no_harm(block in proptest::collection::vec(any::<u8>(), 0..200), len in 0_usize..500) {
            let mut room = vec![0; 10 + len];
            for is_whole in [true, false] {
                let _ = decompress(&block, &mut room, 10, is_whole);
            }
        }
    }
}
