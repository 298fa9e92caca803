//! Warnings that a result is older than the tree.
//!
//! In: the counts of a search or a list of paths. Out: a line for standard error, or `None`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use faultless_grepdb::Database;

/// A warning that `stale` files of a result had changed. `None` if there are none.
pub(crate) fn stale(database: &Database, stale: u64) -> Option<String> {
    let files = match stale {
        0 => return None,
        1 => "1 file of this result has".into(),
        stale => format!("{stale} files of this result have"),
    };
    let age = ago(age(database.walked_ns()));
    Some(format!(
        "faultless: {files} changed since the database saw the tree {age} ago, and was searched as it is now; there may be more: --fresh \
         checks all, `faultless index update` brings it up to date"
    ))
}

/// A warning that `gone` files were left out of a list of paths. `None` if there are none.
pub(crate) fn gone(database: &Database, gone: u64) -> Option<String> {
    let files = match gone {
        0 => return None,
        1 => "1 file of this result is gone and was left out".into(),
        gone => format!("{gone} files of this result are gone and were left out"),
    };
    let age = ago(age(database.walked_ns()));
    Some(format!(
        "faultless: {files}; the database saw the tree {age} ago, so there may be new ones: --fresh finds them, `faultless index update` \
         brings it up to date"
    ))
}

/// The time since a walk.
pub(crate) fn age(walked_ns: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(walked_ns))
}

/// A warning that `unchecked` files of a result were not checked. `None` if no checked file had changed and
/// stderr is no terminal.
pub(crate) fn unchecked(unchecked: u64, stale: u64, is_terminal: bool) -> Option<String> {
    let files = match unchecked {
        0 => return None,
        1 => "1 file of this result was".into(),
        unchecked => format!("{unchecked} files of this result were"),
    };
    (stale > 0 || is_terminal).then(|| format!("faultless: {files} not checked on disk; --fresh checks all"))
}

/// A duration in one unit.
pub(crate) fn ago(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::unchecked;

    #[test]
    fn unchecked_files_are_reported_if_others_had_changed() {
        assert_eq!(unchecked(0, 3, false), None);
        let said = "faultless: 1 file of this result was not checked on disk; --fresh checks all";
        assert_eq!(unchecked(1, 3, false).as_deref(), Some(said));
        assert!(unchecked(20_000, 1, false).unwrap().contains("20000 files of this result were not"));
    }
}
