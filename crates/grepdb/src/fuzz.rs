//! What fuzz targets and tests may ask of the inside.
//!
//! In: what a query made of a pattern, and a line. Out: whether a search would look at that line.
//!
//! What it does not do: exist in what is built for use.

use std::collections::BTreeSet;

use crate::Needs;
use crate::grams::{Finder, Gram};
use crate::query::Query;

impl Needs {
    /// Whether neither the index nor a look for what is rare would pass over `line`.
    pub fn allows(&self, line: &[u8]) -> bool {
        let found = Finder::new().find(line).into_iter().map(|(gram, _)| gram).collect();
        let rarest = self.sequences.counted().rarest(&[b'\n'; 1 << 10]);
        holds(&self.query, &found)
            && rarest.is_none_or(|rarest| rarest.find(line, 0, line.len()).is_some() && rarest.allows(line))
    }
}

pub(crate) fn holds(query: &Query, found: &BTreeSet<Gram>) -> bool {
    match query {
        Query::Any => true,
        Query::Nothing => false,
        Query::Gram(gram) => found.contains(gram),
        Query::And(parts) => parts.iter().all(|part| holds(part, found)),
        Query::Or(parts) => parts.iter().any(|part| holds(part, found)),
    }
}
