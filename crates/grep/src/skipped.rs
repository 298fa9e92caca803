//! The files of a tree that are not searched: counts, or a list.

use std::collections::BTreeMap;
use std::io::Write;

use crate::progress::grouped;
use faultless_grepdb::engine::{Database, SkipReason, threads};

use faultless_console::Failure;

/// One line with counts. A folder counts as one.
pub(crate) fn counts(skipped: &[(SkipReason, Vec<u8>)]) -> String {
    let mut counts: BTreeMap<SkipReason, u64> = BTreeMap::new();
    skipped.iter().for_each(|(why, _)| *counts.entry(*why).or_default() += 1);
    let words: Vec<String> =
        counts.iter().map(|(why, count)| format!("{} {}", grouped(*count), word(*why))).collect();
    if words.is_empty() { "left out: nothing".into() } else { format!("left out: {}", words.join(", ")) }
}

/// A line for each file or folder, with the reason.
pub(crate) fn list(database: &Database) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    for (why, path) in database.skipped(threads(None))? {
        write!(out, "{:<10} ", word(why))?;
        out.extend_from_slice(&path);
        out.push(b'\n');
    }
    Ok(out)
}

pub(crate) fn word(why: SkipReason) -> &'static str {
    match why {
        SkipReason::Hidden => "hidden",
        SkipReason::Ignored => "ignored",
        SkipReason::Binary => "binary",
        SkipReason::Unreadable => "unreadable",
        SkipReason::Link => "link",
        SkipReason::Special => "special",
    }
}
