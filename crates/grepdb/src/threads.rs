//! How many threads a search, a walk or a build has.

/// More threads wait for each other and for their memory. A walk with a thousand does not end.
const THREADS_MAX: usize = 256;

/// As many threads as `wanted`, or one for each processor. At most 256.
#[must_use]
pub fn threads(wanted: Option<usize>) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    wanted.filter(|&wanted| wanted > 0).unwrap_or_else(processors).min(THREADS_MAX)
}
