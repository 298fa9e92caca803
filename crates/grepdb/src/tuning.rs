//! All tuning constants, each with unit, reason and source. In tests segments are smaller, so that little text makes
//! several of them.

/// Maximum text in a chunk, bytes.
pub(crate) const CHUNK_BYTES: usize = HALVES * HALF_BYTES;
/// Parts of a chunk that are decompressed independently.
pub(crate) const HALVES: usize = 2;
/// Text in half a chunk, bytes. A search for a rare word decompresses little more than one half. Twice this size
/// saves 1.6 % of space (Linux 6.1).
pub(crate) const HALF_BYTES: usize = 96 << 10;
/// Chunks that each thread may make in jobs after the one that is written next, and as many in that one. At most 16 MB
/// of packed chunks per thread wait then.
pub(crate) const CHUNKS_AHEAD: usize = if cfg!(test) { 4 } else { 64 };
/// Pieces of large files that wait for each other thread, in text. Two keep a thread busy while the reader packs a piece
/// itself.
pub(crate) const PIECES_WAIT: usize = 2;
/// Maximum number of files in a chunk. Their names are read together.
pub(crate) const CHUNK_FILES_MAX: usize = 1 << 12;
/// Subchunks of a chunk: the finest places that the index can tell apart.
pub(crate) const SUBCHUNKS: usize = 16;
/// LZ4 level, 1 to 12. Measured on 10 000 files: a build at level 3 takes 13 % less CPU time and 1.5 % more space, at
/// level 5 10 % more and 0.8 % less.
pub(crate) const COMPRESSION_LEVEL: i32 = 4;
/// Size of the dictionary shared by all chunks of a segment, bytes: the window of LZ4. It saves 6.7 % of space (Linux
/// 6.1).
pub(crate) const DICTIONARY_BYTES: usize = 64 << 10;
/// Size of a sample that goes into the dictionary, bytes. 100 and 400 compress equally well, to 0.1 %.
pub(crate) const DICTIONARY_PART_BYTES: usize = 200;
/// Files that the dictionary is trained on: 16 MB of text, and four times as much memory during the training. Twice
/// as many save another 0.1 %.
pub(crate) const DICTIONARY_FILES: usize = 800;
/// Text that is read of each of these files, bytes.
pub(crate) const DICTIONARY_FILE_BYTES: u64 = 20 << 10;
/// Minimum text for a dictionary, bytes. In a smaller segment the dictionary would be a large part of the file.
pub(crate) const DICTIONARY_FROM_BYTES: u64 = if cfg!(test) { 1 << 19 } else { 16 << 20 };
/// Longest posting lists that name subchunks instead of chunks, in entries. Up to 3 200 takes 2 % more space and
/// seldom helps; to spare those below 24 saves 0.3 to 1 % (Linux 6.12; 10 000 files).
pub(crate) const FINE_LIST_SUBCHUNKS_MAX: usize = 1_600;
/// Blocks of the chunk table that are cached per segment. A block has 64 rows and 3 KB. A scan reads the blocks in
/// order, so its length does not matter.
pub(crate) const TABLE_BLOCKS: u32 = 16;
/// Size of a block of posting lists, bytes. A block is read and checked at once.
pub(crate) const INDEX_BLOCK_BYTES: usize = 8 << 10;
/// Maximum text in a segment, bytes. Only a larger file exceeds it: its chunks stay in one segment.
pub(crate) const SEGMENT_BYTES_MAX: u64 = if cfg!(test) { 1 << 19 } else { 2 << 30 };
/// Postings of a segment that stay in memory until it is written: 4 bytes each, in growing vectors. There is one per
/// trigram and chunk, an eighth of the text in bytes. So only a very large file needs the temporary file.
pub(crate) const POSTINGS_MAX: usize = SEGMENT_BYTES_MAX as usize / 8 / 4;
/// Maximum size of the file tables of a segment, bytes. They stay in memory until it is written, and their offsets
/// have four bytes.
pub(crate) const SEGMENT_FILES_BYTES_MAX: usize = 64 << 20;
/// Segments with less text than this are small, bytes.
pub(crate) const SMALL_SEGMENT_BYTES: u64 = if cfg!(test) { 1 << 18 } else { 64 << 20 };
/// Most small segments; more are merged into one. Each segment costs a search several reads.
pub(crate) const SMALL_SEGMENTS_MAX: usize = 8;
/// A segment is rewritten if a larger share of its files is out of date.
pub(crate) const DEAD_SHARE_MAX: f64 = 0.33;
/// Tasks per thread. Starting a thread takes as long as eight tasks, some 40 us each.
pub(crate) const ITEMS_PER_THREAD: usize = 8;
/// Lines of a text that a prefilter may admit for the matcher before it is asked whether they are too many.
pub(crate) const ADMITTED_MIN: usize = 8;
/// Text in which it may admit one, bytes. The matcher alone is as fast with more.
pub(crate) const BYTES_PER_ADMITTED: usize = 400;
/// A search of at most so many subchunks uses the matcher for ASCII. A longer one spends little of its time on building
/// the other, which is then as fast or faster.
pub(crate) const SHORT_SUBCHUNKS: u64 = if cfg!(any(fuzzing, test)) { 16 } else { 1_000 };
/// Lines of this many bytes are searched at once, by the matcher for ASCII if they are all ASCII.
pub(crate) const ASCII_BYTES: usize = if cfg!(any(fuzzing, test)) { 64 } else { 4 << 10 };
/// Maximum output that waits for its turn, of all workers together, bytes.
pub(crate) const OUTPUT_WAITS_BYTES: usize = 4 << 20;
/// Of this many chunks of a large file, the text of one may come from the file itself. In tests every other, so that
/// they cover both ways.
pub(crate) const CHUNKS_PER_FILE_READ: u32 = if cfg!(any(fuzzing, test)) { 2 } else { 1 };
/// Files that a search may always check for changes. A check takes 1 to 2 us, so these take some 20 ms.
pub(crate) const CHECKS_MIN: u64 = if cfg!(test) { 100 } else { 8_000 };
/// More of them for each chunk that is searched: a twentieth of its time.
pub(crate) const CHECKS_PER_CHUNK: u64 = 1;
/// A watcher collects events for this time before it marks files. An editor writes a file in several steps.
pub(crate) const WATCH_EVERY: std::time::Duration = std::time::Duration::from_millis(100);
