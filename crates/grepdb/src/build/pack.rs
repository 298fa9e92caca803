//! Text -> packed chunks.
//!
//! In: the text of a chunk. Out: the chunk, compressed, with its trigrams.
//!
//! It does not read or write files.

use crate::index::trigram::TrigramExtractor;
use crate::store::compression::Compressor;
use crate::store::segment::{ChunkContent, PackedChunk, PartBegin};
use crate::tuning::{HALF_BYTES, HALVES};

/// Packs the chunks of one thread. Holds some MiB.
pub(crate) struct ChunkPacker<'a> {
    extractor: TrigramExtractor,
    compressor: Compressor<'a>,
}

impl<'a> ChunkPacker<'a> {
    pub(crate) fn new(dictionary: &'a [u8]) -> std::io::Result<Self> {
        Ok(Self { extractor: TrigramExtractor::new(), compressor: Compressor::new(dictionary)? })
    }

    pub(crate) fn pack(&mut self, text: &[u8], content: ChunkContent) -> std::io::Result<PackedChunk> {
        let mut blocks = <[Vec<u8>; HALVES]>::default();
        for (half, block) in text.chunks(HALF_BYTES).zip(&mut blocks) {
            block.reserve(half.len() / 3);
            self.compressor.compress(half, block)?;
        }
        let trigrams = match content {
            ChunkContent::LargeFilePart(PartBegin::Within(before)) => {
                self.extractor.extract_within(before, text)
            }
            _ => self.extractor.extract(text),
        };
        Ok(PackedChunk { blocks, text_bytes: text.len() as u32, content, trigrams })
    }
}
