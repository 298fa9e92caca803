//! Patterns -> a query for the index, and what to look for in a text before the matcher runs.
//!
//! In: patterns, as they are given to the matcher. Out: a [`QueryPlan`] that admits every matching line.
//!
//! It does not run the matcher.

use crate::error::Result;
use crate::search::prefilter::Prefilter;
use crate::search::query::{PatternOptions, TrigramQuery, parse, trigram_query};

/// How to find the lines that can match.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    pub(crate) query: TrigramQuery,
    pub(crate) prefilter: Option<Prefilter>,
    /// `\r` ends lines for `^` or `$`: a pattern itself may set the flag `R`.
    pub(crate) may_end_at_cr: bool,
}

impl QueryPlan {
    /// Reads every line of every file.
    pub const FULL_SCAN: Self = Self { query: TrigramQuery::Any, prefilter: None, may_end_at_cr: false };

    /// The plan for lines that match one of `patterns`.
    ///
    /// # Errors
    /// A pattern is not a regular expression.
    pub fn new<S: AsRef<str>>(patterns: &[S], options: PatternOptions) -> Result<Self> {
        let expressions = parse(patterns, options)?;
        let query = trigram_query(&expressions);
        let complete = options.is_plain.then(|| Prefilter::complete(&expressions)).flatten();
        // The matcher itself looks for literals.
        let prefilter = complete.or_else(|| {
            let is_wide = !query.is_narrow();
            is_wide.then(|| Prefilter::new(&expressions, options.is_plain)).flatten()
        });
        let may_end_at_cr =
            expressions.iter().any(|expression| expression.properties().look_set().contains_anchor_crlf());
        Ok(Self { query, prefilter, may_end_at_cr })
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
        self.query.holds(&trigrams.into_iter().map(|(trigram, _)| trigram).collect())
            && self.prefilter.as_ref().is_none_or(|prefilter| {
                let line = [line, b"\n"].concat();
                (0..prefilter.ways()).all(|way| prefilter.find(way, &line).is_some())
            })
    }
}
