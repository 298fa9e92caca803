//! Files -> segments. Threads read, compress and index the files; one thread writes the chunks in order.
//!
//! In: files in path order. Out: segments on disk. Consecutive files share a chunk until it is full. A larger file
//! gets chunks of its own, cut at line ends. While one thread packs a very large file, the others go on with a limited
//! number of later jobs: packed chunks wait in memory for their turn.
//!
//! It does not choose the files (`fresh`), or commit the segments (`commit`).

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

use crate::build::dictionary::train_dictionary;
use crate::build::pack::ChunkPacker;
use crate::error::{Error, Result};
use crate::path::disk_path;
use crate::store::segment::{PackedChunk, SegmentWriter};
use crate::tree::content::TextReader;
use crate::tree::walk::TreeFile;
use crate::tuning as t;

/// The progress of a build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files that are done.
    pub files: u64,
    /// All files.
    pub of_files: u64,
    /// Size on disk of the files that are done.
    pub bytes: u64,
    /// Size on disk of all files.
    pub of_bytes: u64,
}

/// A segment that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenSegment {
    pub(crate) number: u64,
    pub(crate) files: u32,
    pub(crate) text_bytes: u64,
    pub(crate) file_bytes: u64,
}

/// The input of a build.
pub(crate) struct BuildPlan<'a> {
    pub(crate) root: &'a Path,
    /// In path order.
    pub(crate) files: &'a [TreeFile],
    pub(crate) threads: usize,
    /// Number of the first segment.
    pub(crate) number: u64,
    /// Path of the segment with a number.
    pub(crate) segment_path: &'a (dyn Fn(u64) -> PathBuf + Sync),
}

/// Writes the segments of `plan`. No files make no segments.
///
/// # Errors
/// A segment can't be written, or `progress` says to stop. Finished segments stay on disk until the next commit.
pub(crate) fn build_segments(
    plan: &BuildPlan<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Vec<WrittenSegment>> {
    let of_bytes = plan.files.iter().map(|file| file.size_bytes).sum();
    let dictionary =
        if of_bytes < t::DICTIONARY_FROM_BYTES { Vec::new() } else { train_dictionary(&samples(plan)) };
    let jobs = jobs(plan.files);
    let threads = plan.threads.clamp(1, jobs.len().max(1));
    let (next, turns) = (AtomicUsize::new(0), Turns::new(t::JOBS_AHEAD * threads));
    std::thread::scope(|scope| {
        let (done, packed) = mpsc::sync_channel(4 * threads);
        for _ in 0..threads {
            let (done, dictionary, jobs, next, turns) = (done.clone(), &dictionary, &jobs, &next, &turns);
            scope.spawn(move || {
                let _ending = StopIfPanicking(turns);
                let mut packer = match ChunkPacker::new(plan.root, dictionary) {
                    Ok(packer) => packer,
                    Err(error) => return drop(done.send((0, Err(error)))),
                };
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at).filter(|_| turns.wait_for(at)) else { break };
                    // The writer hung up after an error.
                    if done.send((at, packer.pack(&plan.files[job.clone()]))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        let mut output = SegmentOutput { plan, dictionary: &dictionary, writer: None, written: Vec::new() };
        let result = collect(packed, &jobs, plan, &mut output, progress, of_bytes, &turns);
        turns.stop();
        result.and_then(|()| output.finish())
    })
}

type Done = (usize, std::io::Result<Vec<PackedChunk>>);

/// Which jobs may be packed: those that are not too far ahead of the job that is written next.
struct Turns {
    ahead: usize,
    /// The job that is written next; `None` if no more is written.
    next: Mutex<Option<usize>>,
    moved: Condvar,
}

impl Turns {
    fn new(ahead: usize) -> Self {
        Self { ahead, next: Mutex::new(Some(0)), moved: Condvar::new() }
    }

    /// Waits until job `at` may be packed. False if none is any more.
    fn wait_for(&self, at: usize) -> bool {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |next: &mut Option<usize>| next.is_some_and(|next| at >= next + self.ahead);
        self.moved.wait_while(next, is_early).unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The next job to be written has moved on.
    fn advance(&self) {
        if let Some(next) = &mut *self.next.lock().unwrap_or_else(PoisonError::into_inner) {
            *next += 1;
        }
        self.moved.notify_all();
    }

    fn stop(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.moved.notify_all();
    }
}

/// The job of a thread that panics is never written, so nobody may wait for it.
struct StopIfPanicking<'a>(&'a Turns);

impl Drop for StopIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Writes the chunks of all jobs in order.
fn collect(
    packed: mpsc::Receiver<Done>,
    jobs: &[Range<usize>],
    plan: &BuildPlan<'_>,
    output: &mut SegmentOutput<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    of_bytes: u64,
    turns: &Turns,
) -> Result<()> {
    let (mut early, mut at) = (BTreeMap::new(), 0);
    let mut so_far = Progress { of_files: plan.files.len() as u64, of_bytes, ..Progress::default() };
    for (job, chunks) in packed {
        early.insert(job, chunks.map_err(Error::io("compress", plan.root))?);
        while let Some(chunks) = early.remove(&at) {
            output.add(chunks)?;
            so_far.files += jobs[at].len() as u64;
            so_far.bytes += plan.files[jobs[at].clone()].iter().map(|file| file.size_bytes).sum::<u64>();
            if progress(so_far).is_break() {
                return Err(Error::Cancelled);
            }
            at += 1;
            turns.advance();
        }
    }
    Ok(())
}

/// The segments written so far, and the current one.
struct SegmentOutput<'a> {
    plan: &'a BuildPlan<'a>,
    dictionary: &'a [u8],
    writer: Option<(u64, SegmentWriter)>,
    written: Vec<WrittenSegment>,
}

impl SegmentOutput<'_> {
    fn add(&mut self, chunks: Vec<PackedChunk>) -> Result<()> {
        if self.writer.as_ref().is_some_and(|(_, writer)| writer.is_full()) {
            self.end_segment()?;
        }
        if self.writer.is_none() {
            let number = self.plan.number + self.written.len() as u64;
            let path = (self.plan.segment_path)(number);
            // Left over from a process that was killed.
            let _ = std::fs::remove_file(&path);
            self.writer = Some((number, SegmentWriter::create(&path, self.dictionary.to_vec())?));
        }
        let Some((_, writer)) = &mut self.writer else { return Ok(()) };
        chunks.into_iter().try_for_each(|chunk| writer.add(chunk))
    }

    fn end_segment(&mut self) -> Result<()> {
        if let Some((number, writer)) = self.writer.take() {
            let text_bytes = writer.text_bytes();
            let (files, file_bytes) = writer.finish(self.plan.threads)?;
            self.written.push(WrittenSegment { number, files, text_bytes, file_bytes });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<WrittenSegment>> {
        self.end_segment()?;
        Ok(self.written)
    }
}

/// Groups consecutive files that fit into a chunk. A larger file is a group of its own.
fn jobs(files: &[TreeFile]) -> Vec<Range<usize>> {
    let mut jobs = Vec::new();
    let (mut begin, mut bytes) = (0, 0_u64);
    for (at, file) in files.iter().enumerate() {
        // Each file may need a line end.
        let more = file.size_bytes.saturating_add(1);
        let is_full = bytes.saturating_add(more) > t::CHUNK_BYTES as u64 || at - begin == t::CHUNK_FILES_MAX;
        if at > begin && is_full {
            jobs.push(begin..at);
            (begin, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(more);
    }
    if begin < files.len() {
        jobs.push(begin..files.len());
    }
    jobs
}

/// The beginnings of files, spread evenly over all files.
fn samples(plan: &BuildPlan<'_>) -> Vec<u8> {
    use std::io::Read;

    let large: Vec<&TreeFile> =
        plan.files.iter().filter(|file| file.size_bytes >= t::DICTIONARY_PART_BYTES as u64).collect();
    let step = large.len().div_ceil(t::DICTIONARY_FILES).max(1);
    let mut samples = Vec::new();
    for file in large.into_iter().step_by(step) {
        let begin = samples.len();
        let read = TextReader::open(&disk_path(plan.root, &file.path))
            .and_then(|content| content.take(t::DICTIONARY_FILE_BYTES).read_to_end(&mut samples));
        // Binary files teach nothing. Read errors are reported later.
        if read.is_err() || memchr::memchr(0, &samples[begin..]).is_some() {
            samples.truncate(begin);
        }
    }
    samples
}

/// The chunks of `files`, for tests of the packing.
#[cfg(test)]
pub(crate) fn packed(root: &Path, files: &[TreeFile]) -> Vec<PackedChunk> {
    ChunkPacker::new(root, &[]).and_then(|mut packer| packer.pack(files)).expect("memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_for_the_one_that_is_written_next_and_end_with_the_writer() {
        let turns = Turns::new(2);
        assert!(turns.wait_for(0) && turns.wait_for(1));
        std::thread::scope(|scope| {
            let third = scope.spawn(|| turns.wait_for(2));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!third.is_finished(), "the first is not written");
            turns.advance();
            assert!(third.join().unwrap());
            let last = scope.spawn(|| turns.wait_for(9));
            turns.stop();
            assert!(!last.join().unwrap());
        });
    }

    #[test]
    fn a_job_is_a_chunk_of_files_or_a_large_one() {
        let file = |size_bytes| TreeFile { path: Vec::new(), size_bytes, mtime_ns: 0 };
        let chunk = t::CHUNK_BYTES as u64;
        assert!(jobs(&[]).is_empty());
        let files = [chunk / 2, chunk / 2 - 2, 1, chunk * 3, 1, chunk - 3, 0].map(file);
        assert_eq!(jobs(&files), [0..2, 2..3, 3..4, 4..6, 6..7]);
        let many = vec![file(0); t::CHUNK_FILES_MAX + 1];
        assert_eq!(jobs(&many), [0..t::CHUNK_FILES_MAX, t::CHUNK_FILES_MAX..t::CHUNK_FILES_MAX + 1]);
        let endless = [u64::MAX, u64::MAX].map(file);
        assert_eq!(jobs(&endless), [0..1, 1..2]);
    }
}
