//! The grep database: the text of a tree in compressed chunks with an index, searched with ripgrep's own regular expressions.
//!
//! ```text
//! tree -> walk -> build (content, grams, text) -> segment -> store          a database comes to be, or keeps up (update)
//! pattern -> query -> select (index) -> search (memory, print) -> order     and is searched
//! ```
//! In: a tree, and patterns. Out: matches, written into a `Write`.
//!
//! What it does not do: read arguments, print to a terminal, or know of page faults: its blocks come from `faultless-pool`.
#![forbid(unsafe_code)]

mod build;
mod bytes;
mod changed;
mod content;
mod contents;
mod damage;
mod database;
mod dictionary;
mod error;
mod files;
mod filter;
mod folders;
#[cfg(any(fuzzing, test))]
mod fuzz;
mod grams;
mod index;
mod info;
mod live;
mod memory;
mod order;
mod postings;
mod print;
mod project;
mod query;
mod rewalk;
mod search;
mod segment;
mod select;
mod sequence;
mod source;
mod store;
mod text;
mod tuning;
mod update;
mod walk;
mod watch;

pub use build::Progress;
pub use damage::Part;
pub use database::{Database, Place, Refreshed, Updated};
pub use error::{Error, Result};
pub use files::{FileEntry, Kind};
pub use filter::{By, Filter, Hit};
pub use info::{Info, Skip};
pub use memory::Memory;
pub use print::{Lines, Printing};
pub use project::project;
pub use query::Reading;
pub use search::{Live, Needs, Search, Searched};
pub use source::{Group, Rules};
pub use walk::FOLDER;
pub use watch::{Watch, Watched};

use sequence::Sequences;

impl Needs {
    /// What a line needs to match one of `patterns`, as they are searched for.
    ///
    /// # Errors
    /// One of them is no regular expression.
    pub fn of<S: AsRef<str>>(patterns: &[S], reading: Reading) -> Result<Self> {
        let expressions = query::parse(patterns, reading)?;
        let query = query::query(&expressions);
        let sequences = Sequences::of(&expressions, query.is_narrow());
        Ok(Self { query, sequences })
    }
}

#[cfg(test)]
mod tests;
