//! A query and a segment -> candidate subchunks.
//!
//! In: a [`TrigramQuery`]. Out: for each chunk the subchunks in which a matching line may begin.
//!
//! It does not read texts.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::Error;
use crate::index::posting_list::{Candidates, PostingList};
use crate::index::trigram::Trigram;
use crate::search::query::TrigramQuery;
use crate::store::segment::Segment;

/// Evaluates `query` on the index of `segment`. With `by_line` a match lies in one line. Otherwise candidates are
/// whole chunks. A damaged list makes every chunk a candidate, and is reported to `trouble`.
pub(crate) fn candidates(
    segment: &Segment,
    query: &TrigramQuery,
    by_line: bool,
    trouble: &mut dyn FnMut(Error),
) -> Candidates {
    let mut masks = Lookup { segment, by_line, lists: HashMap::new(), trouble }.evaluate(query);
    for run in &segment.runs {
        if run.cuts_line || !by_line {
            masks[run.first as usize..][..run.chunks as usize].fill(u16::MAX);
        }
    }
    masks
}

/// An evaluation, with the posting lists read so far.
struct Lookup<'a> {
    segment: &'a Segment,
    by_line: bool,
    lists: HashMap<Trigram, Option<Option<Rc<PostingList>>>>,
    trouble: &'a mut dyn FnMut(Error),
}

impl Lookup<'_> {
    fn evaluate(&mut self, query: &TrigramQuery) -> Candidates {
        let mut masks = vec![0; self.segment.chunks() as usize];
        match query {
            TrigramQuery::Any => masks.fill(u16::MAX),
            TrigramQuery::Nothing => {}
            TrigramQuery::Trigram(trigram) => self.mark(*trigram, &mut masks),
            TrigramQuery::And(parts) => {
                // Shortest list first. Once no candidate is left, the longer ones need not be decoded.
                let mut by_count = Vec::with_capacity(parts.len());
                for part in parts {
                    match self.upper_bound(part) {
                        0 => return masks,
                        count => by_count.push((count, part)),
                    }
                }
                by_count.sort_by_key(|(count, _)| *count);
                masks.fill(u16::MAX);
                for (_, part) in by_count {
                    let part = self.evaluate(part);
                    masks.iter_mut().zip(part).for_each(|(mask, part)| *mask &= part);
                    if masks.iter().all(|&mask| mask == 0) {
                        break;
                    }
                }
            }
            TrigramQuery::Or(parts) => {
                for part in parts {
                    let part = self.evaluate(part);
                    masks.iter_mut().zip(part).for_each(|(mask, part)| *mask |= part);
                }
            }
        }
        masks
    }

    /// Upper bound of the chunks or subchunks that satisfy `query`.
    fn upper_bound(&mut self, query: &TrigramQuery) -> u32 {
        match query {
            TrigramQuery::Any => u32::MAX,
            TrigramQuery::Nothing => 0,
            TrigramQuery::Trigram(trigram) => {
                self.list(*trigram).map_or(u32::MAX, |list| list.map_or(0, |list| list.count()))
            }
            TrigramQuery::And(parts) => {
                parts.iter().map(|part| self.upper_bound(part)).min().unwrap_or(u32::MAX)
            }
            TrigramQuery::Or(parts) => {
                parts.iter().fold(0, |sum, part| sum.saturating_add(self.upper_bound(part)))
            }
        }
    }

    /// Adds the candidates of `trigram`.
    fn mark(&mut self, trigram: Trigram, masks: &mut Candidates) {
        let marked = match self.list(trigram) {
            Some(Some(list)) => self.segment.mark(&list, masks),
            Some(None) => Ok(()),
            None => return masks.fill(u16::MAX),
        };
        if let Err(error) = marked {
            (self.trouble)(error);
            masks.fill(u16::MAX);
        } else if !self.by_line {
            masks.iter_mut().filter(|mask| **mask != 0).for_each(|mask| *mask = u16::MAX);
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
