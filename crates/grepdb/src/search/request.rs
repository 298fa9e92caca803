//! What to search for, and how.

use grep_searcher::{BinaryDetection, SearcherBuilder};

use crate::search::block_source::BlockSource;
use crate::search::cancel::CancellationToken;
use crate::search::line_matcher::LineMatcher;
use crate::search::print::OutputFormat;
use crate::search::query_plan::QueryPlan;

/// A search.
pub struct Search<'a> {
    /// Matches the patterns.
    pub matcher: &'a LineMatcher,
    /// Admits every line that `matcher` can match.
    pub plan: QueryPlan,
    /// Splits texts into lines, and counts them.
    pub searcher: &'a SearcherBuilder,
    /// How matches are printed.
    pub format: &'a OutputFormat,
    /// Printed between the output of two files. May be empty.
    pub separator: &'a [u8],
    /// The caller has printed something already, so a separator comes first.
    pub follows_output: bool,
    /// The effect of a NUL byte in a file that was found.
    pub binary: BinaryDetection,
    /// The effect of a NUL byte in a file that the user named.
    pub binary_named: BinaryDetection,
    /// Report files without a match, too.
    pub every_file: bool,
    /// Print in path order. Otherwise print segment by segment, and files read on disk last.
    pub sorted: bool,
    /// Search only these folders: tree paths without a slash at the end. Empty: search the whole tree.
    pub folders: &'a [Vec<u8>],
    /// Whether to search the file at a tree path.
    pub is_wanted: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// How a tree path is printed.
    pub display_path: &'a (dyn Fn(&[u8]) -> Vec<u8> + Sync),
    /// The number of workers. Called only if more than one is useful: counting processors takes some 40 us.
    pub threads: &'a (dyn Fn() -> usize + Sync),
    /// Where the memory for texts comes from.
    pub block_source: BlockSource,
    /// Write each line at once. A file with a match waits until those before it are searched.
    pub at_once: bool,
    /// Stop at the first match.
    pub first_match_only: bool,
    /// Stop when this is cancelled.
    pub cancel: Option<&'a CancellationToken>,
}
