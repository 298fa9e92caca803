//! Notices that a result is older than the tree.
//!
//! In: counts of a search or of a list of paths. Out: a [`Notice`], as a line of text.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::search::run::SearchReport;
use crate::store::database::Database;

/// A result may not be what the tree holds now. `Display` says so in one line, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Files of the result had changed, and were searched as they are now. Other files may have changed unnoticed.
    Stale {
        /// Number of these files.
        files: u64,
        /// Time since the database saw the tree.
        age: Duration,
    },
    /// Files of the result are gone, and were left out.
    Gone {
        /// Number of these files.
        files: u64,
        /// Time since the database saw the tree.
        age: Duration,
    },
    /// Files of the result were not checked on disk: there are too many.
    Unchecked {
        /// Number of these files.
        files: u64,
    },
    /// A file or folder could not be read when the database was compared with the tree.
    LeftOut(
        /// Its path, and why.
        String,
    ),
}

impl Notice {
    /// The notices about a search of `database`.
    pub fn of_search(database: &Database, report: &SearchReport) -> Vec<Self> {
        let stale = (report.stale > 0)
            .then(|| Self::Stale { files: report.stale, age: age_since(database.walked_ns()) });
        let unchecked = (report.unchecked > 0).then_some(Self::Unchecked { files: report.unchecked });
        stale.into_iter().chain(unchecked).collect()
    }

    /// The notices about a list of paths from `database`: this many are gone, and this many were not checked.
    pub fn of_paths(database: &Database, gone: u64, unchecked: u64) -> Vec<Self> {
        let gone = (gone > 0).then(|| Self::Gone { files: gone, age: age_since(database.walked_ns()) });
        let unchecked = (unchecked > 0).then_some(Self::Unchecked { files: unchecked });
        gone.into_iter().chain(unchecked).collect()
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = |count: &u64, one: &str, many: &str| match count {
            1 => format!("1 file of this result {one}"),
            count => format!("{count} files of this result {many}"),
        };
        match self {
            Self::Stale { files: count, age } => write!(
                f,
                "{} changed since the database saw the tree {} ago, and {} now; there may be more: --fresh checks all, \
                 `faultless index update` brings it up to date",
                files(count, "has", "have"),
                in_one_unit(*age),
                if *count == 1 { "was searched as it is" } else { "were searched as they are" }
            ),
            Self::Gone { files: count, age } => write!(
                f,
                "{} left out; the database saw the tree {} ago, so there may be new ones: --fresh finds them, \
                 `faultless index update` brings it up to date",
                files(count, "is gone and was", "are gone and were"),
                in_one_unit(*age)
            ),
            Self::Unchecked { files: count } => {
                write!(f, "{} not checked on disk; --fresh checks all", files(count, "was", "were"))
            }
            Self::LeftOut(what) => write!(f, "{what}; it is left out"),
        }
    }
}

/// The time since `walked_ns`, ns since 1970.
#[must_use]
pub fn age_since(walked_ns: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(walked_ns))
}

/// A duration in one unit, such as `5 min`.
#[must_use]
pub fn in_one_unit(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_counts_files_and_names_the_remedy() {
        let said = Notice::Unchecked { files: 1 }.to_string();
        assert_eq!(said, "1 file of this result was not checked on disk; --fresh checks all");
        let said = Notice::Stale { files: 20_000, age: Duration::from_secs(7_200) }.to_string();
        assert!(
            said.starts_with(
                "20000 files of this result have changed since the database saw the tree 2 h ago"
            )
        );
    }
}
