//! Small text files below a root directory.
//!
//! In: a path. Out: text, a number, or names; `None` if unreadable.

use std::path::{Path, PathBuf};

/// Reads files relative to a root, so that a test can bring its own.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The trimmed text of a file; `None` if it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The first number in a file.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.split_whitespace().next()?.parse().ok()
    }

    /// The names in a directory, sorted; empty if it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}
