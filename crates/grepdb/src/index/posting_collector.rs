//! Collects and sorts the postings of a segment.
//!
//! In: the trigrams of its chunks, chunk after chunk. Out: the section of posting lists in trigram order, part by part,
//! and its directory.
//!
//! Postings beyond `tuning::POSTINGS_MAX` go to a temporary file. Only a segment with a very large file has so many.
//!
//! It does not encode lists (`posting_list`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::index::posting_list::{BlockDirectory, ListBlock, ListWriter, Posting};
use crate::index::trigram::{TRIGRAMS, Trigram};
use crate::tuning::SUBCHUNKS;

/// Buckets of trigrams with the same upper bits. Each bucket is sorted separately.
const BUCKETS: usize = 1 << 9;
const LOW_BITS: u32 = TRIGRAMS.ilog2() - BUCKETS.ilog2();
/// Buckets whose lists one thread writes at a time. A block holds lists of one such group.
const BUCKETS_PER_GROUP: usize = 1 << 5;

#[derive(Debug)]
pub(crate) struct PostingCollector {
    buckets: Vec<TrigramBucket>,
    /// Entries in `buckets`.
    entries: usize,
    entries_max: usize,
    spill_path: PathBuf,
    spill: Option<Spill>,
}

/// Postings of trigrams with the same upper bits.
#[derive(Clone, Debug, Default)]
struct TrigramBucket {
    /// The lower bits of a trigram and its subchunk mask, chunk after chunk.
    entries: Vec<u32>,
    counts: Vec<u16>,
    counted: usize,
}

/// Postings in a temporary file, which has no name.
#[derive(Debug)]
struct Spill {
    file: File,
    len_bytes: u64,
    parts: Vec<SpillPart>,
}

/// The postings of consecutive chunks: for each bucket the counts, then the entries.
#[derive(Debug)]
struct SpillPart {
    chunks: usize,
    /// Where each bucket begins. The end of the last one follows.
    begins: Vec<u64>,
}

impl PostingCollector {
    /// A collector whose temporary file, if it needs one, is created at `spill_path` and removed from there at once.
    /// More than `entries_max` entries go there.
    pub(crate) fn new(spill_path: PathBuf, entries_max: usize) -> Self {
        let buckets = vec![TrigramBucket::default(); BUCKETS];
        Self { buckets, entries: 0, entries_max, spill_path, spill: None }
    }

    pub(crate) fn add(&mut self, trigrams: impl Iterator<Item = (Trigram, u16)>) -> Result<()> {
        for (Trigram(trigram), mask) in trigrams {
            let low = trigram & ((1 << LOW_BITS) - 1);
            self.buckets[(trigram >> LOW_BITS) as usize].entries.push(low << SUBCHUNKS | u32::from(mask));
            self.entries += 1;
        }
        for bucket in &mut self.buckets {
            bucket.counts.push((bucket.entries.len() - bucket.counted) as u16);
            bucket.counted = bucket.entries.len();
        }
        if self.entries > self.entries_max {
            self.write_to_file().map_err(Error::io("write", &self.spill_path))?;
        }
        Ok(())
    }

    fn write_to_file(&mut self) -> std::io::Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::create(&self.spill_path)?),
        };
        let mut out = BufWriter::with_capacity(1 << 20, &spill.file);
        let chunks = self.buckets.first().map_or(0, |bucket| bucket.counts.len());
        let mut begins = vec![spill.len_bytes];
        for bucket in &mut self.buckets {
            bucket.counts.iter().try_for_each(|count| out.write_all(&count.to_le_bytes()))?;
            bucket.entries.iter().try_for_each(|entry| out.write_all(&entry.to_le_bytes()))?;
            spill.len_bytes += (size_of_val(&bucket.counts[..]) + size_of_val(&bucket.entries[..])) as u64;
            begins.push(spill.len_bytes);
            bucket.counts.clear();
            bucket.entries.clear();
            bucket.counted = 0;
        }
        out.flush()?;
        spill.parts.push(SpillPart { chunks, begins });
        self.entries = 0;
        Ok(())
    }

    /// Hands the section of lists for `chunks` chunks to `write`, part by part, and returns its directory. `threads`
    /// threads make the parts. At most that many wait in memory.
    pub(crate) fn finish(
        &self,
        chunks: u32,
        threads: usize,
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<BlockDirectory> {
        let mut directory = BlockDirectory::default();
        let mut append = |group: std::io::Result<(Vec<u8>, Vec<ListBlock>)>| {
            let (section, blocks) = group.map_err(Error::io("read", &self.spill_path))?;
            directory.append(&section, &blocks);
            write(&section)
        };
        let mut groups = (0..BUCKETS).step_by(BUCKETS_PER_GROUP);
        if threads == 1 {
            groups.try_for_each(|first| append(self.group(first, chunks)))?;
            return Ok(directory);
        }
        std::thread::scope(|scope| {
            let mut spawn = |first| scope.spawn(move || self.group(first, chunks));
            let mut running: VecDeque<_> = groups.by_ref().take(threads).map(&mut spawn).collect();
            while let Some(group) = running.pop_front() {
                append(group.join().unwrap_or_else(|panic| resume_unwind(panic)))?;
                running.extend(groups.next().map(&mut spawn));
            }
            Ok(())
        })?;
        Ok(directory)
    }

    /// The lists of a group of buckets.
    fn group(&self, first: usize, chunks: u32) -> std::io::Result<(Vec<u8>, Vec<ListBlock>)> {
        let mut writer = ListWriter::new(chunks);
        (first..first + BUCKETS_PER_GROUP).try_for_each(|bucket| self.write_bucket(bucket, &mut writer))?;
        Ok(writer.finish())
    }

    /// Writes the lists of a bucket in trigram order. Within a list the chunks ascend. It sorts the whole bucket in
    /// memory, 8 bytes for each posting.
    fn write_bucket(&self, bucket: usize, writer: &mut ListWriter) -> std::io::Result<()> {
        let low = |entry: u32| (entry >> SUBCHUNKS) as usize;
        let mut ends = vec![0; (1 << LOW_BITS) + 1];
        self.for_each_entry(bucket, |_, entry| ends[low(entry) + 1] += 1)?;
        (1..ends.len()).for_each(|at| ends[at] += ends[at - 1]);
        // While the entries are distributed, `ends[x]` is the next free position of list `x`. Afterwards it is its
        // end.
        let mut sorted = vec![Posting::default(); ends[1 << LOW_BITS]];
        self.for_each_entry(bucket, |chunk, entry| {
            let end = &mut ends[low(entry)];
            sorted[*end] = Posting { chunk, mask: entry as u16 };
            *end += 1;
        })?;
        let mut begin = 0;
        for (low, &end) in (0..).zip(&ends[..1 << LOW_BITS]) {
            if begin < end {
                writer.list(Trigram((bucket as u32) << LOW_BITS | low), &sorted[begin..end]);
            }
            begin = end;
        }
        Ok(())
    }

    /// Calls `each` with every entry of a bucket and its chunk, in the order of the chunks.
    fn for_each_entry(&self, bucket: usize, mut each: impl FnMut(u32, u32)) -> std::io::Result<()> {
        let mut first = 0;
        let mut bytes = Vec::new();
        for part in self.spill.iter().flat_map(|spill| &spill.parts) {
            let Some(spill) = &self.spill else { break };
            let (begin, end) = (part.begins[bucket], part.begins[bucket + 1]);
            bytes.resize((end - begin) as usize, 0);
            spill.file.read_exact_at(&mut bytes, begin)?;
            let (counts, entries) = bytes.split_at(part.chunks * size_of::<u16>());
            let counts = counts.as_chunks().0.iter().map(|&count| u16::from_le_bytes(count));
            let mut entries = entries.as_chunks().0.iter().map(|&entry| u32::from_le_bytes(entry));
            for (chunk, count) in (first..).zip(counts) {
                entries.by_ref().take(count.into()).for_each(|entry| each(chunk, entry));
            }
            first += part.chunks as u32;
        }
        let bucket = &self.buckets[bucket];
        let mut rest = &bucket.entries[..];
        for (chunk, &count) in (first..).zip(&bucket.counts) {
            let (entries, further) = rest.split_at(count.into());
            entries.iter().for_each(|&entry| each(chunk, entry));
            rest = further;
        }
        Ok(())
    }
}

impl Spill {
    fn create(path: &Path) -> std::io::Result<Self> {
        // Left over from a process that was killed.
        let _ = std::fs::remove_file(path);
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        std::fs::remove_file(path)?;
        Ok(Self { file, len_bytes: 0, parts: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::index::posting_list::{Candidates, find_list};
    use crate::tuning::FINE_LIST_SUBCHUNKS_MAX;

    /// The section and the directory of `chunks`, and the number of parts in the temporary file.
    fn lists(
        chunks: &[Vec<(u32, u16)>],
        entries_max: usize,
        threads: usize,
    ) -> (Vec<u8>, BlockDirectory, usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut collector = PostingCollector::new(folder.path().join("spill"), entries_max);
        for trigrams in chunks {
            collector.add(trigrams.iter().map(|&(trigram, mask)| (Trigram(trigram), mask))).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the temporary file has no name");
        let mut section = Vec::new();
        let append = |part: &[u8]| {
            section.extend_from_slice(part);
            Ok(())
        };
        let directory = collector.finish(chunks.len() as u32, threads, append).unwrap();
        let directory = BlockDirectory::decode(directory.encode().to_vec(), section.len() as u64).unwrap();
        (section, directory, collector.spill.map_or(0, |spill| spill.parts.len()))
    }

    fn masks(section: &[u8], directory: &BlockDirectory, trigram: Trigram, chunks: u32) -> Candidates {
        let mut masks = vec![0; chunks as usize];
        if let Some(block) = directory.block(trigram).map(Option::unwrap) {
            let bytes = &section[block.begin as usize..][..block.len_bytes as usize];
            if let Some(list) = find_list(block, bytes, trigram).unwrap() {
                list.mark(chunks, &mut masks).unwrap();
            }
        }
        masks
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        #[test]
        fn every_list_comes_back_or_more(
            chunks in proptest::collection::vec(proptest::collection::btree_map(0_u32..3_000, 1_u16.., 0..300), 1..20),
        ) {
            let spread: Vec<Vec<_>> = chunks
                .iter()
                .map(|trigrams| trigrams.iter().map(|(&trigram, &mask)| (trigram * 600, mask)).collect())
                .collect();
            let (section, directory, _) = lists(&spread, usize::MAX, 3);
            let all: BTreeMap<u32, ()> = chunks.iter().flatten().map(|(&trigram, _)| (trigram, ())).collect();
            for trigram in all.into_keys().chain([3_000]) {
                let found = masks(&section, &directory, Trigram(trigram * 600), chunks.len() as u32);
                for (chunk, trigrams) in chunks.iter().enumerate() {
                    let found = found[chunk];
                    let truth = trigrams.get(&trigram).copied().unwrap_or(0);
                    prop_assert_eq!(found & truth, truth, "trigram {} chunk {}", trigram, chunk);
                    prop_assert!(truth != 0 || found == 0);
                }
            }
        }

    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

        #[test]
        fn the_temporary_file_and_the_number_of_threads_change_no_byte(
            chunks in proptest::collection::vec(proptest::collection::btree_map(0_u32..TRIGRAMS as u32, 1_u16.., 0..300), 1..40),
            entries_max in 0_usize..2_000,
        ) {
            let chunks: Vec<Vec<_>> = chunks.into_iter().map(|trigrams| trigrams.into_iter().collect()).collect();
            let (section, directory, parts) = lists(&chunks, usize::MAX, 1);
            prop_assert_eq!(parts, 0);
            for threads in [1, 50] {
                let spilled = lists(&chunks, entries_max, threads);
                let total: usize = chunks.iter().map(Vec::len).sum();
                prop_assert_eq!(spilled.2 > 0, total > entries_max);
                prop_assert!(spilled.0 == section && spilled.1 == directory);
            }
        }
    }

    #[test]
    fn lists_tell_the_subchunks_unless_they_are_long() {
        let tells_subchunks = |chunks: u32| {
            let all: Vec<_> = (0..chunks).map(|chunk| vec![(5, 1 << (chunk % 16)), (6, 1)]).collect();
            let (section, directory, _) = lists(&all, usize::MAX, 1);
            let found = masks(&section, &directory, Trigram(5), chunks);
            found.iter().enumerate().all(|(chunk, &mask)| mask == 1 << (chunk % 16))
        };
        let most = FINE_LIST_SUBCHUNKS_MAX as u32;
        assert_eq!([1, 16, most, most + 1].map(tells_subchunks), [true, true, true, false]);
    }

    #[test]
    fn a_damaged_block_is_noticed() {
        let (mut section, directory, _) = lists(&[vec![(7, 1)]], usize::MAX, 1);
        let block = directory.block(Trigram(7)).unwrap().unwrap();
        assert!(find_list(block, &section, Trigram(7)).unwrap().is_some());
        section[0] ^= 4;
        assert!(find_list(block, &section, Trigram(7)).is_none());
    }

    #[test]
    fn a_temporary_file_that_can_not_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut collector = PostingCollector::new(folder.path().join("none/spill"), 0);
        let error = collector.add([(Trigram(7), 1)].into_iter()).unwrap_err();
        assert!(error.to_string().contains("none/spill"), "{error}");
    }
}
