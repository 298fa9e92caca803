//! An indexed code search: the text of a tree in compressed chunks, with a trigram index. It is searched with ripgrep's
//! own regular expressions.
//!
//! [`Index`] is the front door: build, open, update, search with a callback, cancel.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use faultless_grepdb::{Index, SearchOptions};
//!
//! let index = Index::open("linux")?; // `faultless index init linux` or `Index::build` has made its database
//! index.search("fooo?bar", &SearchOptions::default(), |found| {
//!     println!("{}:{}", found.path.display(), found.line_number);
//!     ControlFlow::Continue(())
//! })?;
//! # Ok::<(), faultless_grepdb::Error>(())
//! ```
//! * **Errors** are an enum, [`Error`]. Each text says what, where, and the remedy. A search that can't read a part of
//!   the database reads the files instead, and reports the part in [`SearchSummary::trouble`].
//! * **Units** end a name: `text_bytes`, `walked_ns`. Line numbers begin at 1; positions are bytes from 0.
//! * **Staleness.** A search checks the files that it finds, 8,000 at least, which takes 20 ms. A changed one is searched
//!   as it is now, and [`SearchSummary::notices`] says so. [`SearchOptions::fresh`] checks the whole tree first.
//! * **Memory** of a search does not grow with the database: a thread holds the text of one chunk, 192 KiB, and at most
//!   4 MiB of matches wait for their turn. A build holds some hundred MB, and some MB per thread.
//!
//! # Inside
//! ```text
//! tree -> walk -> build -> segments -> manifest               a database is built, or updated
//! patterns -> query -> candidate chunks -> matches -> output  and searched
//! ```
//! The modules form layers. Each one uses only those above it:
//!
//! ```text
//! error  encoding  path  threads  tuning   errors; integers as bytes; tree paths; constants
//! tree          index               the tree on disk; trigrams and posting lists
//! store                             segments, manifest and logs: the open database
//! build         search              files -> segments; patterns -> matches
//! fresh                             updates, overlay and watching, on top of build
//! api                               the front door
//! ```
//!
//! It does not read arguments, or print to a terminal. It knows nothing of page faults: `faultless-pool` gives it its
//! blocks.
#![forbid(unsafe_code)]

mod api;
mod build;
mod encoding;
mod error;
mod fresh;
mod index;
mod path;
mod search;
mod store;
mod threads;
mod tree;
mod tuning;

pub use api::index::{Index, SearchSummary};
pub use api::notice::Notice;
pub use api::options::{Case, SearchOptions};
pub use build::commit::UpdateReport;
pub use build::segments::Progress;
pub use error::{DamagedPart, Error, Result};
pub use search::cancel::CancellationToken;
pub use search::print::records::Match;
pub use tree::rules::Rules;

/// What the program `faultless-grep` is built from: ripgrep's matchers and printers over an open [`Database`], projects,
/// and a watch of the tree.
///
/// Most programs need only [`Index`]. This module takes ripgrep's types, and changes when the program needs it.
///
/// [`Database`]: engine::Database
pub mod engine {
    pub use crate::api::notice::{age_since, in_one_unit};
    pub use crate::fresh::skipped::SkipReason;
    pub use crate::fresh::watch::{TreeWatcher, WatchEvent};
    pub use crate::path::FOLDER;
    pub use crate::search::block_source::BlockSource;
    pub use crate::search::disk_file::DiskFile;
    pub use crate::search::line_matcher::LineMatcher;
    pub use crate::search::print::{LineFormat, OutputFormat, PlainFormat};
    pub use crate::search::query::{PatternOptions, mistake};
    pub use crate::search::query_plan::QueryPlan;
    pub use crate::search::request::Search;
    pub use crate::search::run::SearchReport;
    pub use crate::store::cache::DatabaseCache;
    pub use crate::store::database::{Database, Location};
    pub use crate::store::file_entry::{FileEntry, FileKind};
    pub use crate::store::info::DatabaseInfo;
    pub use crate::threads::threads;
    pub use crate::tree::project::parse_project;
    pub use crate::tree::rules::RuleGroup;
}

#[cfg(test)]
mod tests;
