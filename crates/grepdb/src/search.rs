//! Patterns and a database -> matches, printed in the order of the database.
//!
//! ```text
//! patterns -> query + prefilter -> candidates (posting lists) -> run: workers -> print -> output
//!             (query_plan)         overlay, other files on disk ->
//! ```
//! A worker holds the text of one chunk, so memory does not grow with the database. A chunk is searched as one text;
//! its files are told apart only around a match.
//!
//! It does not read arguments, or choose colours and layout (`cli`).

pub(crate) mod block_source;
pub(crate) mod byte_class;
pub(crate) mod cancel;
pub(crate) mod candidates;
pub(crate) mod chunk;
pub(crate) mod chunk_files;
pub(crate) mod damaged;
pub(crate) mod disk_file;
pub(crate) mod large_file;
pub(crate) mod large_text;
pub(crate) mod line_finder;
pub(crate) mod line_matcher;
pub(crate) mod output;
pub(crate) mod plain;
pub(crate) mod prefilter;
pub(crate) mod print;
pub(crate) mod query;
pub(crate) mod query_plan;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod sort;
pub(crate) mod staleness;
pub(crate) mod state;
pub(crate) mod worker;
