//! Every number that was chosen rather than found, with unit, reason and source. Tests have smaller segments: what happens between
//! segments happens there with little text.

/// Most text in a chunk, bytes.
pub(crate) const CHUNK_BYTES: usize = HALVES * HALF_BYTES;
/// Parts of a chunk of which each is unpacked by itself.
pub(crate) const HALVES: usize = 2;
/// Text in such a part, bytes: a search for a rare word unpacks little else. Twice as much takes 1.6 % less room (Linux 6.1).
pub(crate) const HALF_BYTES: usize = 96 << 10;
/// Most files in a chunk: their names are read at once.
pub(crate) const CHUNK_FILES_MAX: usize = 1 << 12;
/// Parts of a chunk that the index may tell apart.
pub(crate) const UNITS: usize = 16;
/// Effort of the compression, of LZ4's levels 1 to 12: 2 packs in 43 % of the time and takes 14 % more room, 4 takes a fifth longer and
/// 2 % less room (60 MB of Linux 6.1).
pub(crate) const COMPRESSION_LEVEL: i32 = 3;
/// Length of the dictionary that all chunks of a segment share, bytes: what LZ4 can reach. Saves 6.7 % (Linux 6.1).
pub(crate) const DICTIONARY_BYTES: usize = 64 << 10;
/// Length of its parts, bytes: 100 and 400 are within 0.1 % as good.
pub(crate) const DICTIONARY_PART_BYTES: usize = 200;
/// Most files from whose beginnings it is made, 16 MB of them and four times as much while it is: twice as many save another 0.1 %.
pub(crate) const DICTIONARY_FILES: usize = 800;
/// Bytes of each.
pub(crate) const DICTIONARY_FILE_BYTES: u64 = 20 << 10;
/// Segments with less text than this have no dictionary, bytes: it would be a good part of what they write.
pub(crate) const DICTIONARY_FROM_BYTES: u64 = if cfg!(test) { 1 << 19 } else { 16 << 20 };
/// Lists of so many units tell the sixteenths of a chunk; those of rarer grams lead to few chunks anyway, and those of more frequent
/// ones would take too much room.
pub(crate) const FINE_UNITS: std::ops::RangeInclusive<usize> = 600..=1_600;
/// Blocks of the table of chunks, of 64 rows and 3 KB each, that are kept of a segment: a scan of any length reads one after another.
pub(crate) const TABLE_BLOCKS: u32 = 16;
/// Bytes of lists that are checked and read at once.
pub(crate) const INDEX_BLOCK_BYTES: usize = 8 << 10;
/// Most text in a segment, bytes: what is built at once is held in memory as 4 bytes per gram and chunk, an eighth of it, in lists with room to grow.
pub(crate) const SEGMENT_BYTES_MAX: u64 = if cfg!(test) { 1 << 19 } else { 2 << 30 };
/// Most that is known of the files of a segment, bytes: it is held in memory as well, and counted in four bytes.
pub(crate) const SEGMENT_FILES_BYTES_MAX: usize = 64 << 20;
/// Segments with less text than this are small, bytes.
pub(crate) const SMALL_SEGMENT_BYTES: u64 = if cfg!(test) { 1 << 18 } else { 64 << 20 };
/// More small segments than this become one: each costs a search some reads.
pub(crate) const SMALL_SEGMENTS_MAX: usize = 8;
/// A segment of whose files more are out of date is written anew.
pub(crate) const DEAD_SHARE_MAX: f64 = 0.33;
/// Pieces of work for which a further thread is started, which takes as long as eight: some 40 us each.
pub(crate) const ITEMS_PER_THREAD: usize = 8;
/// Texts for which a worker looks for the same sequence before it asks what is rarest now.
pub(crate) const TEXTS_PER_CHOICE: usize = 8;
/// So much of a text is asked, bytes: a dozen sequences in it take 20 us, of eight texts' 800.
pub(crate) const CHOICE_BYTES: usize = 16 << 10;
/// Output that may wait for its turn, all workers together, bytes.
pub(crate) const OUTPUT_WAITS_BYTES: usize = 4 << 20;
/// Time in which a search looks at files on disk before it names them, all workers together: 1 to 2 us each, some 10 000.
pub(crate) const CHECKS_FOR: std::time::Duration = std::time::Duration::from_millis(20);
/// A search that has lasted for so many times as long goes on to look: 5 % of it.
pub(crate) const CHECKS_PART: u32 = 20;
/// What a watch hears within this it marks at once: an editor writes a file in several steps.
pub(crate) const WATCH_EVERY: std::time::Duration = std::time::Duration::from_millis(100);
