//! How many threads a search, a walk or a build has.

use std::sync::LazyLock;

/// More threads wait for each other and for their memory. A walk with a thousand does not end.
const THREADS_MAX: usize = 256;

/// The processors that this process may use. Asking reads several files, so a service asks once.
static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// As many threads as `wanted`, or one for each processor. At most 256.
#[must_use]
pub fn threads(wanted: Option<usize>) -> usize {
    wanted.filter(|&wanted| wanted > 0).unwrap_or_else(|| *PROCESSORS).min(THREADS_MAX)
}
