//! Times of files, in ns since 1970.
//!
//! A time is *settled* once a later change must get another time. A time that is not settled is 0: nothing may rely
//! on it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Two writes within this time may leave the same time stamp, ns. Kernels tick every 1 to 10 ms. Git calls such files
/// racy.
const RACY_NS: i128 = 20_000_000;

pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// The modification time; never 0.
pub(crate) fn mtime_ns(metadata: &Metadata) -> u64 {
    since_1970(metadata.mtime(), metadata.mtime_nsec())
}

/// The modification time, or 0 if it is not settled at `now_ns`.
pub(crate) fn settled_mtime_ns(metadata: &Metadata, now_ns: u64) -> u64 {
    settled(metadata.mtime(), metadata.mtime_nsec(), now_ns)
}

/// The time of the last status change, or 0 if it is not settled at `now_ns`. A folder's changes with every name that
/// it gets or loses, and no program can set it.
pub(crate) fn settled_ctime_ns(metadata: &Metadata, now_ns: u64) -> u64 {
    settled(metadata.ctime(), metadata.ctime_nsec(), now_ns)
}

fn settled(seconds: i64, nanoseconds: i64, now_ns: u64) -> u64 {
    let exact_ns = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    if exact_ns + RACY_NS > now_ns.into() { 0 } else { since_1970(seconds, nanoseconds) }
}

/// Times before 1970 wrap around. Different times stay different, and none is 0.
fn since_1970(seconds: i64, nanoseconds: i64) -> u64 {
    (seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn any_time_is_a_number_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(root.path().join("x")).unwrap();
        let day = Duration::from_secs(86_400);
        let times = [UNIX_EPOCH, UNIX_EPOCH + day, UNIX_EPOCH - day, UNIX_EPOCH - 9_000 * day];
        let mut numbers = times.map(|time| {
            file.set_modified(time).unwrap();
            settled_mtime_ns(&file.metadata().unwrap(), now_ns())
        });
        numbers.sort_unstable();
        assert!(numbers[0] != 0 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        for later in [0, 1, 1_000_000] {
            file.set_modified(SystemTime::now() + later * day).unwrap();
            assert_eq!(settled_mtime_ns(&file.metadata().unwrap(), now_ns()), 0, "{later} days later");
        }
    }
}
