//! How many workers a search, a walk or a build has.

/// More workers wait for each other and for their memory. A walk with a thousand does not end.
const MOST: usize = 256;

/// As many as `named`, or one for each processor.
pub(crate) fn count(named: Option<usize>) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    named.filter(|&named| named > 0).unwrap_or_else(processors).min(MOST)
}
