//! Patterns -> a query for the index, and needles to look for in a text before the matcher runs.
//!
//! In: patterns, as they are given to the matcher. Out: a [`QueryPlan`] that admits every matching line.
//!
//! It does not run the matcher.

use crate::error::Result;
#[cfg(any(fuzzing, test))]
use crate::search::prefilter::Known;
use crate::search::prefilter::NeedleSet;
use crate::search::query::{PatternOptions, TrigramQuery, parse, trigram_query};

/// How to find the lines that can match.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    pub(crate) query: TrigramQuery,
    pub(crate) needles: NeedleSet,
}

impl QueryPlan {
    /// Reads every line of every file.
    pub const FULL_SCAN: Self = Self { query: TrigramQuery::Any, needles: NeedleSet::NONE };

    /// The plan for lines that match one of `patterns`.
    ///
    /// # Errors
    /// A pattern is not a regular expression.
    pub fn new<S: AsRef<str>>(patterns: &[S], options: PatternOptions) -> Result<Self> {
        let expressions = parse(patterns, options)?;
        let query = trigram_query(&expressions);
        let needles = NeedleSet::new(&expressions, query.is_narrow(), options.is_plain);
        Ok(Self { query, needles })
    }

    /// The same plan without the index: it reads every chunk.
    #[must_use]
    pub fn without_index(self) -> Self {
        Self { query: TrigramQuery::Any, ..self }
    }

    /// Whether a search would give `line` to the matcher.
    #[cfg(any(fuzzing, test))]
    pub fn admits(&self, line: &[u8]) -> bool {
        let trigrams = crate::index::trigram::TrigramExtractor::new().extract(line);
        let prefilter = self.needles.stats().choose(&[b'\n'; 1 << 10]);
        self.query.holds(&trigrams.into_iter().map(|(trigram, _)| trigram).collect())
            && !matches!(self.needles.known(line, 0, line.len()), Known::Nothing)
            && prefilter.is_none_or(|prefilter| {
                prefilter.find(line, 0, line.len()).is_some() && prefilter.admits(line)
            })
    }
}
