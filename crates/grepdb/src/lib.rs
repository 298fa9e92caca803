//! The grep database: the text of a tree in compressed chunks, with a trigram index. It is searched with ripgrep's
//! own regular expressions.
//!
//! ```text
//! tree -> walk -> build -> segments -> manifest               a database is built, or updated
//! patterns -> query -> candidate chunks -> matches -> output  and searched
//! ```
//! In: a tree, and patterns. Out: matches, written into a `Write`.
//!
//! The modules form layers. Each one uses only those above it:
//!
//! ```text
//! error  encoding  path  tuning     errors; integers as bytes; tree paths; constants
//! tree          index               the tree on disk; trigrams and posting lists
//! store                             segments, manifest and logs: the open database
//! build         search              files -> segments; patterns -> matches
//! fresh                             updates, overlay and watching, on top of build
//! ```
//!
//! It does not read arguments, or print to a terminal. It knows nothing of page faults: `faultless-pool` gives it its
//! blocks.
#![forbid(unsafe_code)]

mod build;
mod encoding;
mod error;
mod fresh;
mod index;
mod path;
mod search;
mod store;
mod tree;
mod tuning;

pub use build::commit::UpdateReport;
pub use build::segments::Progress;
pub use error::{DamagedPart, Error, Result};
pub use fresh::skipped::SkipReason;
pub use fresh::update::RefreshReport;
pub use fresh::watch::{TreeWatcher, WatchEvent};
pub use path::FOLDER;
pub use search::block_source::BlockSource;
pub use search::disk_file::DiskFile;
pub use search::path_filter::{PathFilter, PathMatch, PathQueryKind};
pub use search::print::{LineFormat, OutputFormat};
pub use search::query::PatternOptions;
pub use search::query_plan::QueryPlan;
pub use search::request::Search;
pub use search::run::SearchReport;
pub use store::database::{Database, Location};
pub use store::file_entry::{FileEntry, FileKind};
pub use store::info::DatabaseInfo;
pub use tree::project::parse_project;
pub use tree::rules::{RuleGroup, Rules};

#[cfg(test)]
mod tests;
