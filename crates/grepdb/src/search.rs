//! A pattern and a database -> matches, printed in the order of the database.
//!
//! ```text
//! query -> select (index) -> runs of chunks -> workers: read, check, unpack into a block, match, print -> order -> output
//!                                 live files ->
//! ```
//! A worker holds one block, so no queue of chunks can grow. Files are told apart only where there is a match: until then a chunk is
//! one text.
//!
//! What it does not do: read arguments, or choose how matches look (`cli`).

mod every;
mod group;
mod live;
mod lost;
mod run;
mod sorted;

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

use faultless_os::schedule;
use grep_matcher::Matcher;
use grep_printer::Stats;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, SearcherBuilder};

use crate::damage;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::index::Units;
use crate::live::Checks;
use crate::memory::Memory;
use crate::order::Order;
use crate::print::Printing;
use crate::query::Query;
use crate::select::select;
use crate::sequence::Sequences;
use crate::tuning as t;
pub use live::Live;
use run::Worker;

/// What to search for, and how.
pub struct Search<'a> {
    /// The pattern.
    pub matcher: &'a RegexMatcher,
    /// What a match needs.
    pub needs: Needs,
    /// How lines are searched.
    pub searcher: &'a SearcherBuilder,
    /// How matches are shown.
    pub printing: &'a Printing,
    /// With colours.
    pub color: bool,
    /// Between what two files print, where there is such.
    pub separator: &'a [u8],
    /// Something has been printed before.
    pub follows: bool,
    /// What a NUL byte does in files that were found.
    pub binary: BinaryDetection,
    /// What it does in files that were named.
    pub binary_named: BinaryDetection,
    /// Files without a match are of interest, too.
    pub every_file: bool,
    /// By path. Otherwise segment by segment, and live files last.
    pub sorted: bool,
    /// Folders below the root, without a slash at their ends; all files where there is none.
    pub within: &'a [Vec<u8>],
    /// Which files, by their paths below the root.
    pub wanted: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// How a path below the root is shown.
    pub shown: &'a (dyn Fn(&[u8]) -> Vec<u8> + Sync),
    /// Workers; asked only where more than one is of use, for to count processors takes some 40 us.
    pub threads: &'a (dyn Fn() -> usize + Sync),
    /// Where blocks come from.
    pub memory: Memory,
    /// The first match is enough.
    pub only_whether: bool,
}

/// What a file must have to be of interest.
#[derive(Clone, Debug)]
pub struct Needs {
    pub(crate) query: Query,
    pub(crate) sequences: Sequences,
}

impl Needs {
    /// Nothing: every line of every file is looked at.
    pub const NOTHING: Self = Self { query: Query::Any, sequences: Sequences::NONE };

    /// The index is not asked: every chunk is looked at.
    #[must_use]
    pub fn in_any_chunk(self) -> Self {
        Self { query: Query::Any, ..self }
    }
}

/// What a search came to.
#[derive(Debug, Default)]
pub struct Searched {
    /// There was a match.
    pub matched: bool,
    /// Files with a match.
    pub files_with_matches: u64,
    /// Files that were told apart and searched.
    pub files: u64,
    /// What the printers counted, where they were told to.
    pub stats: Stats,
    /// Chunks that were read.
    pub chunks: u64,
    /// Chunks there are.
    pub of_chunks: u64,
    /// Text that was unpacked, bytes.
    pub text_bytes: u64,
    /// Files that were searched on disk because they have changed unnoticed: others may have too.
    pub stale: u64,
    /// Files that were named without a look whether they are as they were: there was no time.
    pub unlooked: u64,
    /// What could not be read. Where it is damage the lines are all there all the same, from the tree.
    pub trouble: Vec<Error>,
    /// Something was printed, now or before.
    pub has_printed: bool,
    /// Why the output took no more.
    pub output: Option<std::io::ErrorKind>,
}

/// A chunk, or those of a large file. A full scan holds one for each: it is small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) segment: u32,
    pub(crate) first: u32,
    /// Numbers of the files, of those that are in the chunk.
    pub(crate) files: std::ops::Range<u32>,
}

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Work {
    Stored(Item),
    Live(Box<Live>),
}

/// What all workers share.
pub(crate) struct Shared<'a, W> {
    pub(crate) search: &'a Search<'a>,
    pub(crate) database: &'a Database,
    pub(crate) works: Vec<Work>,
    /// By segment.
    pub(crate) units: Vec<Units>,
    pub(crate) next: AtomicUsize,
    /// What comes after `works`, with the number of the next.
    pub(crate) live: Mutex<(usize, Option<Receiver<Live>>)>,
    pub(crate) stop: AtomicBool,
    pub(crate) files: AtomicU64,
    pub(crate) stats: Mutex<Stats>,
    pub(crate) files_with_matches: AtomicU64,
    pub(crate) text_bytes: AtomicU64,
    pub(crate) trouble: Mutex<Vec<Error>>,
    pub(crate) lost: lost::Lost,
    pub(crate) order: Order<W>,
    pub(crate) checks: Checks,
}

impl<W> Shared<'_, W> {
    /// Where a chunk is to be looked at.
    pub(crate) fn units(&self, segment: u32, chunk: u32) -> u16 {
        self.units[segment as usize][chunk as usize]
    }

    /// Notes what went wrong; damage once.
    pub(crate) fn trouble(&self, error: Error) {
        once(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner), error);
    }
}

fn once(all: &mut Vec<Error>, error: Error) {
    if !all.iter().any(|known| known.is_same_damage(&error)) {
        all.push(error);
    }
}

impl Search<'_> {
    /// Searches `database` and prints into `out`.
    ///
    /// # Errors
    /// Only what makes a search impossible; the rest is told with what was found.
    pub fn run<W: Write + Send>(&self, database: &Database, out: W) -> Result<(W, Searched)> {
        self.run_with(database, None, out)
    }

    /// Searches `database` and `live`, files on disk, as they come.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<W: Write + Send>(
        &self,
        database: &Database,
        mut live: Option<Receiver<Live>>,
        out: W,
    ) -> Result<(W, Searched)> {
        let mut trouble = Vec::new();
        // Matches lie in one line if the pattern can't match the end of one.
        let by_line = self.matcher.line_terminator().is_some();
        let (mut works, mut all_units) = (Vec::new(), Vec::new());
        let (mut chunks, mut of_chunks) = (0, 0);
        for (at, segment) in database.segments.iter().enumerate() {
            let mut units =
                select(segment, &self.needs.query, by_line, &mut |error| once(&mut trouble, error));
            of_chunks += units.len() as u64;
            if !self.within.is_empty() {
                segment.only_within(self.within, &mut units);
            }
            let mut runs = segment.runs.iter().peekable();
            let mut first = 0;
            while first < segment.chunks() {
                let count = runs.next_if(|run| run.first == first).map_or(1, |run| run.chunks);
                if units[first as usize..][..count as usize].iter().any(|&units| units != 0) {
                    works.push(Work::Stored(Item { segment: at as u32, first, files: 0..u32::MAX }));
                    chunks += u64::from(count);
                }
                first += count;
            }
            all_units.push(units);
        }
        let as_work = |live| Work::Live(Box::new(live));
        let stored = works.len();
        works.extend(database.live.on_disk(&database.place, self.wanted, self.shown).map(as_work));
        let (sorts_all, has_changed) =
            (self.sorted && (database.segments.len() > 1 || live.is_some()), works.len() > stored);
        if sorts_all {
            works.extend(live.take().into_iter().flatten().map(as_work));
        }
        if sorts_all || has_changed {
            works = sorted::works(database, works)?;
        }
        // A thread takes longer to start than a few chunks to search.
        let most = if live.is_some() { usize::MAX } else { works.len() / t::ITEMS_PER_THREAD };
        let threads = if most > 1 { (self.threads)().min(most) } else { 1 };
        let has_live = live.is_some();
        let shared = Shared {
            search: self,
            database,
            next: AtomicUsize::new(0),
            live: Mutex::new((works.len(), live)),
            works,
            units: all_units,
            stop: AtomicBool::new(false),
            files: AtomicU64::new(0),
            stats: Mutex::new(Stats::new()),
            files_with_matches: AtomicU64::new(0),
            text_bytes: AtomicU64::new(0),
            trouble: Mutex::new(trouble),
            lost: lost::Lost::default(),
            order: Order::new(out, self.separator, self.follows, t::OUTPUT_WAITS_BYTES),
            checks: Checks::new(&database.live),
        };
        std::thread::scope(|scope| {
            let (shared, here) = (&shared, schedule::here());
            for _ in 1..threads {
                scope.spawn(move || {
                    here.into_iter().for_each(schedule::leave);
                    Worker::new(shared).run();
                });
                // So that it may leave.
                std::thread::yield_now();
            }
            if !shared.works.is_empty() || has_live {
                Worker::new(shared).run();
            }
        });
        let files_with_matches = shared.files_with_matches.load(Ordering::Relaxed);
        let (out, has_printed, output) = shared.order.finish();
        let trouble = shared.trouble.into_inner().unwrap_or_else(PoisonError::into_inner);
        damage::note(&database.place.folder, &trouble);
        let searched = Searched {
            matched: files_with_matches > 0,
            files_with_matches,
            files: shared.files.load(Ordering::Relaxed),
            stats: shared.stats.into_inner().unwrap_or_else(PoisonError::into_inner),
            chunks,
            of_chunks,
            text_bytes: shared.text_bytes.load(Ordering::Relaxed),
            stale: shared.checks.stale(),
            unlooked: shared.checks.unlooked(),
            trouble,
            has_printed,
            output,
        };
        Ok((out, searched))
    }
}
