//! A query and a segment -> where matches can be.
//!
//! In: a [`Query`]. Out: for each chunk the sixteenths in which lines that match may begin.
//!
//! What it does not do: read texts.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::Error;
use crate::grams::Gram;
use crate::index::{List, Units};
use crate::query::Query;
use crate::segment::Segment;

/// Looks up `query` in `segment`. With `by_line` a match lies in one line; otherwise only chunks are told apart. A damaged list hides
/// nothing: all chunks are taken, and `trouble` hears of it.
pub(crate) fn select(
    segment: &Segment,
    query: &Query,
    by_line: bool,
    trouble: &mut dyn FnMut(Error),
) -> Units {
    let mut units = Lookup { segment, by_line, lists: HashMap::new(), trouble }.units(query);
    for run in &segment.runs {
        if run.cuts_line || !by_line {
            units[run.first as usize..][..run.chunks as usize].fill(u16::MAX);
        }
    }
    units
}

struct Lookup<'a> {
    segment: &'a Segment,
    by_line: bool,
    lists: HashMap<Gram, Option<Option<Rc<List>>>>,
    trouble: &'a mut dyn FnMut(Error),
}

impl Lookup<'_> {
    fn units(&mut self, query: &Query) -> Units {
        let mut units = vec![0; self.segment.chunks() as usize];
        match query {
            Query::Any => units.fill(u16::MAX),
            Query::Nothing => {}
            Query::Gram(gram) => self.mark(*gram, &mut units),
            Query::And(parts) => {
                // The shortest lists first: the rest may not be needed.
                let mut parts: Vec<(u32, &Query)> =
                    parts.iter().map(|part| (self.at_most(part), part)).collect();
                parts.sort_by_key(|(count, _)| *count);
                units.fill(u16::MAX);
                for (_, part) in parts {
                    let part = self.units(part);
                    units.iter_mut().zip(part).for_each(|(units, part)| *units &= part);
                    if units.iter().all(|&units| units == 0) {
                        break;
                    }
                }
            }
            Query::Or(parts) => {
                for part in parts {
                    let part = self.units(part);
                    units.iter_mut().zip(part).for_each(|(units, part)| *units |= part);
                }
            }
        }
        units
    }

    /// Chunks or units that `query` can leave.
    fn at_most(&mut self, query: &Query) -> u32 {
        match query {
            Query::Any => u32::MAX,
            Query::Nothing => 0,
            Query::Gram(gram) => {
                self.list(*gram).map_or(u32::MAX, |list| list.map_or(0, |list| list.count()))
            }
            Query::And(parts) => parts.iter().map(|part| self.at_most(part)).min().unwrap_or(u32::MAX),
            Query::Or(parts) => parts.iter().fold(0, |sum, part| sum.saturating_add(self.at_most(part))),
        }
    }

    /// Marks where `gram` may be.
    fn mark(&mut self, gram: Gram, units: &mut Units) {
        let marked = match self.list(gram) {
            Some(Some(list)) => self.segment.mark(&list, units),
            Some(None) => Ok(()),
            None => return units.fill(u16::MAX),
        };
        if let Err(error) = marked {
            (self.trouble)(error);
            units.fill(u16::MAX);
        } else if !self.by_line {
            units.iter_mut().filter(|units| **units != 0).for_each(|units| *units = u16::MAX);
        }
    }

    /// The list of `gram`, `None` where it can't be read.
    fn list(&mut self, gram: Gram) -> Option<Option<Rc<List>>> {
        if let Some(known) = self.lists.get(&gram) {
            return known.clone();
        }
        let found = match self.segment.list(gram) {
            Ok(list) => Some(list.map(Rc::new)),
            Err(error) => {
                (self.trouble)(error);
                None
            }
        };
        self.lists.insert(gram, found.clone());
        found
    }
}
