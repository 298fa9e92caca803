//! Keeps a database in step with its tree.
//!
//! ```text
//! database + tree -> plan: new, changed and removed files -> build -> commit          update
//!                 -> overlay: a search reads changed files on disk                    refresh, mark_changed
//! kernel events   -> overlay at once, an update after a quiet time                    watch
//! ```
//!
//! It does not write segments (`build`), or search.

pub(crate) mod plan;
pub(crate) mod skipped;
pub(crate) mod update;
pub(crate) mod watch;
