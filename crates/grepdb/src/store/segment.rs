//! A segment: one file of the database, with the text, file entries and posting lists of one build or update. It
//! never changes.
//!
//! ```text
//! header | compressed text ... | file tables | posting lists | chunk table | large files | long lines |
//! block directory | dictionary
//! ```
//! The header has a fixed length and says where each section is. Every section that is read whole has a checksum. In
//! the other sections each part has one: a compressed half of a chunk, a file table, a block of posting lists, a
//! block of the chunk table. A search that finds nothing in the index reads no chunk table.
//!
//! In: chunks, in order. Out: a file, and the chunks read back from it.
//!
//! It does not know of other segments, or of tombstones (`manifest`).

mod chunk;
mod header;
mod reader;
mod writer;

pub(crate) use chunk::ChunkRun;
pub(crate) use reader::{ChunkText, Segment};
pub(crate) use writer::{ChunkContent, PackedChunk, PartBegin, SegmentWriter};

#[cfg(test)]
mod tests;
