//! Files -> segments. Threads read, compress and index the files; one thread writes the chunks in order.
//!
//! In: files in path order. Out: segments on disk. Consecutive files share a chunk until it is full. A larger file
//! gets chunks of its own, cut at line ends. One thread reads it, and all pack its pieces. The chunks are written as
//! they come. A limited number of packed chunks waits in memory for its turn (`turns`).
//!
//! It does not choose the files (`fresh`), or commit the segments (`commit`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use crate::build::cut::{Cut, FileCutter, OpenFile};
use crate::build::dictionary::train_dictionary;
use crate::build::pack::ChunkPacker;
use crate::build::turns::{PartId, Piece, StopIfPanicking, Task, Turn, Turns};
use crate::error::{Error, Result};
use crate::path::disk_path;
use crate::store::file_entry::FileEntry;
use crate::store::manifest::SegmentMeta;
use crate::store::segment::{ChunkContent, PackedChunk, SegmentWriter};
use crate::tree::content::open_text;
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenSegment {
    pub(crate) meta: SegmentMeta,
    pub(crate) file_bytes: u64,
}

pub(crate) struct BuildPlan<'a> {
    pub(crate) root: &'a Path,
    /// In path order.
    pub(crate) files: &'a [TreeFile],
    /// Opens a file: [`open_text`], except in tests.
    pub(crate) open: OpenFile<'a>,
    pub(crate) threads: usize,
    pub(crate) number: u64,
    /// Path of the segment with a number.
    pub(crate) segment_path: &'a (dyn Fn(u64) -> PathBuf + Sync),
}

/// Writes the segments of `plan`. No files make no segments.
/// If it fails, finished segments stay on disk until the next commit.
pub(crate) fn build_segments(
    plan: &BuildPlan<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Vec<WrittenSegment>> {
    let of_bytes = plan.files.iter().map(|file| file.size_bytes).sum::<u64>();
    let dictionary =
        if of_bytes < t::DICTIONARY_FROM_BYTES { Vec::new() } else { train_dictionary(&samples(plan)) };
    let mut unreadable = BTreeSet::new();
    loop {
        match build_once(plan, of_bytes, &dictionary, &unreadable, progress)? {
            Ok(written) => return Ok(written),
            // Half a file is no file, but its chunks are written already. That is rare enough to begin again without
            // it.
            Err(file) => drop(unreadable.insert(file)),
        }
    }
}

/// Writes the segments of `plan`, whose files have `of_bytes` bytes. Does not open the `unreadable` files.
/// The inner error is the index of a large file that can't be read to its end.
fn build_once(
    plan: &BuildPlan<'_>,
    of_bytes: u64,
    dictionary: &[u8],
    unreadable: &BTreeSet<usize>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<std::result::Result<Vec<WrittenSegment>, usize>> {
    let jobs = &jobs(plan.files);
    let chunks = jobs.len().max(usize::try_from(of_bytes / t::CHUNK_BYTES as u64).unwrap_or(usize::MAX));
    let threads = plan.threads.clamp(1, chunks.max(1));
    let turns = &Turns::new(jobs.len(), t::CHUNKS_AHEAD * threads, t::PIECES_WAIT * (threads - 1));
    std::thread::scope(|scope| {
        let (done, packed) = mpsc::channel();
        for _ in 0..threads {
            let done = done.clone();
            scope.spawn(move || {
                let _ending = StopIfPanicking(turns);
                let packer = match ChunkPacker::new(dictionary) {
                    Ok(packer) => packer,
                    Err(error) => return drop(done.send((PartId::default(), Err(error)))),
                };
                let mut cutter = FileCutter::new(plan.root, plan.open);
                let mut worker = BuildWorker { turns, packer, done };
                while let Some(task) = turns.next_task() {
                    let went_on = match task {
                        Task::Pack(piece) => worker.pack(piece).map_continue(drop),
                        Task::Job(job) => {
                            let files = jobs[job].clone().zip(&plan.files[jobs[job].clone()]);
                            worker.run_job(job, files, unreadable, &mut cutter)
                        }
                    };
                    if went_on.is_break() {
                        break;
                    }
                }
            });
        }
        drop(done);
        let mut output = SegmentOutput { plan, dictionary, writer: None, written: Vec::new() };
        let result = write_parts(&packed, jobs, &mut output, progress, of_bytes, turns);
        turns.stop();
        match result? {
            Some(file) => Ok(Err(file)),
            None => output.finish().map(Ok),
        }
    })
}

enum Part {
    Chunk(PackedChunk),
    /// The chunks before are a whole large file.
    LargeFileEnd(FileEntry),
    /// A large file can't be read further. Holds its index.
    ReadError(usize),
    JobEnd,
}

type Done = (PartId, std::io::Result<Part>);

struct BuildWorker<'a> {
    turns: &'a Turns,
    packer: ChunkPacker<'a>,
    done: mpsc::Sender<Done>,
}

impl BuildWorker<'_> {
    fn run_job<'f>(
        &mut self,
        job: usize,
        files: impl Iterator<Item = (usize, &'f TreeFile)>,
        unreadable: &BTreeSet<usize>,
        cutter: &mut FileCutter<'_>,
    ) -> ControlFlow<()> {
        let mut id = PartId { job, part: 0 };
        cutter.cut(files, |file| unreadable.contains(&file), &mut |cut| {
            match cut {
                Cut::Chunk(text, content) => self.take_chunk(id, text, content)?,
                Cut::LargeFileEnd(entry) => self.send(id, Ok(Part::LargeFileEnd(entry)))?,
                Cut::ReadError(file) => self.send(id, Ok(Part::ReadError(file)))?,
            }
            id.part += 1;
            ControlFlow::Continue(())
        })?;
        self.send(id, Ok(Part::JobEnd))
    }

    /// Packs a chunk when its turn has come, or leaves that to another thread.
    fn take_chunk(&mut self, id: PartId, text: &mut Vec<u8>, content: ChunkContent) -> ControlFlow<()> {
        loop {
            match self.turns.wait_for(id) {
                Turn::Go => break,
                Turn::Pack(piece) => drop(self.pack(piece)?),
                Turn::Stop => return ControlFlow::Break(()),
            }
        }
        let is_file_part = matches!(content, ChunkContent::LargeFilePart { .. });
        let piece = Piece { id, text: std::mem::take(text), content };
        // The text of small files is still in this processor's cache.
        let piece = if is_file_part { self.turns.offer(piece) } else { Some(piece) };
        if let Some(piece) = piece {
            *text = self.pack(piece)?;
        }
        ControlFlow::Continue(())
    }

    /// Packs a piece. Returns the memory of its text.
    fn pack(&mut self, piece: Piece) -> ControlFlow<(), Vec<u8>> {
        let Piece { id, text, content } = piece;
        let packed = self.packer.pack(&text, content);
        self.send(id, packed.map(Part::Chunk)).map_continue(|()| text)
    }

    /// Breaks if the writer has ended.
    fn send(&self, id: PartId, part: std::io::Result<Part>) -> ControlFlow<()> {
        match self.done.send((id, part)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Writes the parts of all jobs in order. Returns the index of a large file that can't be read to its end.
fn write_parts(
    packed: &mpsc::Receiver<Done>,
    jobs: &[Range<usize>],
    output: &mut SegmentOutput<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    of_bytes: u64,
    turns: &Turns,
) -> Result<Option<usize>> {
    let files = output.plan.files;
    let mut early = BTreeMap::new();
    let mut so_far = Progress { of_files: files.len() as u64, of_bytes, ..Progress::default() };
    let mut next = PartId::default();
    for job in jobs {
        let of_job_bytes = files[job.clone()].iter().map(|file| file.size_bytes).sum::<u64>();
        let mut job_bytes = 0;
        loop {
            let part = loop {
                if let Some(part) = early.remove(&next) {
                    break part;
                }
                // All threads have ended only if one has panicked.
                let Ok((id, part)) = packed.recv() else { return Ok(None) };
                early.insert(id, part.map_err(Error::io("compress", output.plan.root))?);
            };
            let is_chunk = matches!(part, Part::Chunk(_));
            match part {
                Part::Chunk(chunk) => {
                    job_bytes = of_job_bytes.min(job_bytes + u64::from(chunk.text_bytes));
                    output.add(chunk, next.part == 0)?;
                }
                Part::LargeFileEnd(entry) => output.end_large_file(entry),
                Part::ReadError(file) => return Ok(Some(file)),
                Part::JobEnd => break,
            }
            next.part += 1;
            turns.part_written(is_chunk);
            if progress(Progress { bytes: so_far.bytes + job_bytes, ..so_far }).is_break() {
                return Err(Error::Cancelled);
            }
        }
        so_far.files += job.len() as u64;
        so_far.bytes += of_job_bytes;
        if progress(so_far).is_break() {
            return Err(Error::Cancelled);
        }
        next = PartId { job: next.job + 1, part: 0 };
        turns.job_written();
    }
    Ok(None)
}

struct SegmentOutput<'a> {
    plan: &'a BuildPlan<'a>,
    dictionary: &'a [u8],
    writer: Option<(u64, SegmentWriter)>,
    written: Vec<WrittenSegment>,
}

impl SegmentOutput<'_> {
    /// Appends a chunk. Only the first chunk of a job may begin another segment.
    fn add(&mut self, chunk: PackedChunk, is_first: bool) -> Result<()> {
        if is_first && self.writer.as_ref().is_some_and(|(_, writer)| writer.is_full()) {
            self.end_segment()?;
        }
        if self.writer.is_none() {
            let number = self.plan.number + self.written.len() as u64;
            let path = (self.plan.segment_path)(number);
            // Left over from a process that was killed, or from a build that began again.
            let _ = std::fs::remove_file(&path);
            self.writer = Some((number, SegmentWriter::create(&path, self.dictionary.to_vec())?));
        }
        let Some((_, writer)) = &mut self.writer else { return Ok(()) };
        writer.add(chunk)
    }

    fn end_large_file(&mut self, entry: FileEntry) {
        if let Some((_, writer)) = &mut self.writer {
            writer.end_large_file(entry);
        }
    }

    fn end_segment(&mut self) -> Result<()> {
        if let Some((number, writer)) = self.writer.take() {
            let text_bytes = writer.text_bytes();
            let (files, file_bytes) = writer.finish(self.plan.threads)?;
            let meta = SegmentMeta { number, files, text_bytes, tombstones: Vec::new() };
            self.written.push(WrittenSegment { meta, file_bytes });
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
        let read = open_text(&disk_path(plan.root, &file.path))
            .and_then(|content| content.take(t::DICTIONARY_FILE_BYTES).read_to_end(&mut samples));
        // Binary files teach nothing. Read errors are reported later.
        if read.is_err() || memchr::memchr(0, &samples[begin..]).is_some() {
            samples.truncate(begin);
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

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
