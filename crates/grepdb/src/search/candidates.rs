//! A query and a segment -> candidate subchunks.
//!
//! In: a [`TrigramQuery`]. Out: for each chunk the subchunks in which a matching line may begin. A line that crosses
//! the end of a chunk counts as one that begins in the first subchunk of each of its chunks.
//!
//! It does not read texts.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::Error;
use crate::index::posting_list::{Candidates, PostingList};
use crate::index::trigram::Trigram;
use crate::search::query::TrigramQuery;
use crate::store::segment::{ChunkRun, Segment};

/// Posting lists whose lookup takes as long as the search of a chunk: some 5 us each, and 40 us.
const LISTS_PER_CHUNK: usize = 8;

/// Evaluates `query` on the index of `segment`. With `by_line` a match lies in one line. Otherwise candidates are
/// whole chunks, and all chunks of a large file. A damaged list makes every chunk a candidate, and is reported to
/// `trouble`.
pub(crate) fn candidates(
    segment: &Segment,
    query: &TrigramQuery,
    by_line: bool,
    trouble: &mut dyn FnMut(Error),
) -> Candidates {
    Lookup { segment, by_line, lists: HashMap::new(), trouble }.evaluate(query)
}

/// An evaluation, with the posting lists read so far.
struct Lookup<'a> {
    segment: &'a Segment,
    by_line: bool,
    lists: HashMap<Trigram, Option<Option<Rc<PostingList>>>>,
    trouble: &'a mut dyn FnMut(Error),
}

/// Sets `bits` in all chunks of a run if one of its chunks has them: the chunks hold one line, or one file.
fn share(runs: &[ChunkRun], bits: u16, masks: &mut Candidates) {
    for run in runs {
        let masks = &mut masks[run.first as usize..][..run.chunks as usize];
        if masks.iter().any(|mask| mask & bits != 0) {
            masks.iter_mut().for_each(|mask| *mask |= bits);
        }
    }
}

impl Lookup<'_> {
    fn evaluate(&mut self, query: &TrigramQuery) -> Candidates {
        let mut masks = vec![0; self.segment.chunks() as usize];
        match query {
            TrigramQuery::Any => masks.fill(u16::MAX),
            TrigramQuery::Nothing => {}
            TrigramQuery::Trigram(trigram) => self.mark(*trigram, &mut masks),
            TrigramQuery::And(parts) => self.evaluate_all(parts, &mut masks),
            TrigramQuery::Or(parts) => {
                for part in parts {
                    match part {
                        TrigramQuery::Trigram(trigram) => self.mark(*trigram, &mut masks),
                        part => {
                            masks.iter_mut().zip(self.evaluate(part)).for_each(|(mask, part)| *mask |= part)
                        }
                    }
                }
            }
        }
        masks
    }

    /// Sets `masks` to the candidates of all `parts`: trigrams first, the shortest list before the others. Once no
    /// candidate is left, longer lists need not be decoded. A part with many trigrams is left out if the chunks that
    /// it could spare cost less than its lists.
    fn evaluate_all(&mut self, parts: &[TrigramQuery], masks: &mut Candidates) {
        let (mut trigrams, mut others) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                TrigramQuery::Trigram(trigram) => match self.list(*trigram) {
                    Some(None) => return,
                    Some(Some(list)) => trigrams.push((list.count(), part)),
                    None => {}
                },
                part => others.push((part.trigrams(), part)),
            }
        }
        trigrams.sort_by_key(|(count, _)| *count);
        others.sort_by_key(|(count, _)| *count);
        masks.fill(u16::MAX);
        for (lists, part) in trigrams.into_iter().map(|(_, part)| (1, part)).chain(others) {
            let chunks = masks.iter().filter(|&&mask| mask != 0).count();
            if chunks == 0 {
                break;
            }
            if lists > 1 && chunks * LISTS_PER_CHUNK < lists {
                continue;
            }
            masks.iter_mut().zip(self.evaluate(part)).for_each(|(mask, part)| *mask &= part);
        }
    }

    fn mark(&mut self, trigram: Trigram, masks: &mut Candidates) {
        let marked = match self.list(trigram) {
            Some(Some(list)) => self.segment.mark(&list, masks),
            Some(None) => Ok(()),
            None => return masks.fill(u16::MAX),
        };
        if let Err(error) = marked {
            (self.trouble)(error);
            masks.fill(u16::MAX);
        } else if self.by_line {
            share(&self.segment.long_lines, 1, masks);
        } else {
            masks.iter_mut().filter(|mask| **mask != 0).for_each(|mask| *mask = u16::MAX);
            share(&self.segment.large_files, u16::MAX, masks);
        }
    }

    /// The list of `trigram`, read once. The outer `None` means that it can't be read.
    fn list(&mut self, trigram: Trigram) -> Option<Option<Rc<PostingList>>> {
        if let Some(known) = self.lists.get(&trigram) {
            return known.clone();
        }
        let found = match self.segment.posting_list(trigram) {
            Ok(list) => Some(list.map(Rc::new)),
            Err(error) => {
                (self.trouble)(error);
                None
            }
        };
        self.lists.insert(trigram, found.clone());
        found
    }
}
