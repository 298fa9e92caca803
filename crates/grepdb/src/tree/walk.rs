//! A tree -> its files, as ripgrep would walk it.
//!
//! In: a root and [`Rules`]. Out: files with sizes and times, in path order; a [`FolderSnapshot`]; and what could not
//! be walked.
//!
//! It does not open files.

use std::path::Path;
use std::sync::Mutex;

use ignore::WalkState;

use crate::error::{Error, Result};
use crate::path::{path_order, tree_path};
use crate::tree::rules::{Rules, WalkRoot};
use crate::tree::snapshot::FolderSnapshot;
use crate::tree::time::{now_ns, settled_mtime_ns};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub(crate) path: Vec<u8>,
    pub(crate) size_bytes: u64,
    /// Modification time, ns since 1970. 0 if it is not settled.
    pub(crate) mtime_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct WalkResult {
    /// In path order.
    pub(crate) files: Vec<TreeFile>,
    pub(crate) folders: FolderSnapshot,
    /// Files and folders that could not be read, and why.
    pub(crate) trouble: Vec<String>,
}

pub(crate) fn walk(root: &Path, rules: &Rules, threads: usize) -> Result<WalkResult> {
    let walk_roots = WalkRoot::all(root, rules)?;
    let begin_ns = now_ns();
    let mut walked = WalkResult {
        folders: FolderSnapshot::with_outside_ignore_files(rules, &walk_roots, begin_ns),
        ..WalkResult::default()
    };
    for walk_root in &walk_roots {
        std::fs::read_dir(&walk_root.root).map_err(Error::io("walk", &walk_root.root))?;
    }
    let all = Mutex::new(&mut walked);
    for walk_root in &walk_roots {
        walk_root.walker(threads).run(|| {
            let mut part = WalkVisitor { root, rules, begin_ns, all: &all, walked: WalkResult::default() };
            Box::new(move |entry| {
                part.see(entry);
                WalkState::Continue
            })
        });
    }
    for file in rules.groups.iter().flat_map(|group| &group.files) {
        match std::fs::symlink_metadata(file) {
            Ok(metadata) if !metadata.is_file() => {
                walked.trouble.push(format!("{}: not a file", file.display()))
            }
            Ok(metadata) => walked.files.push(TreeFile::of(tree_path(root, file), &metadata)),
            Err(error) => walked.trouble.push(format!("{}: {error}", file.display())),
        }
    }
    walked.files.sort_unstable_by(|a, b| path_order(&a.path, &b.path));
    walked.files.dedup_by(|a, b| a.path == b.path);
    walked.trouble.sort_unstable();
    walked.folders.sort();
    Ok(walked)
}

/// Collects what one thread visits. Its end adds that to the result.
struct WalkVisitor<'a, 'w> {
    root: &'a Path,
    rules: &'a Rules,
    begin_ns: u64,
    all: &'a Mutex<&'w mut WalkResult>,
    walked: WalkResult,
}

impl WalkVisitor<'_, '_> {
    fn see(&mut self, entry: std::result::Result<ignore::DirEntry, ignore::Error>) {
        let seen = entry.and_then(|entry| match entry.file_type() {
            Some(kind) if kind.is_file() => {
                let found = TreeFile::of(tree_path(self.root, entry.path()), &entry.metadata()?);
                self.walked.files.push(found);
                Ok(())
            }
            // The root may be a symbolic link.
            Some(kind) if kind.is_dir() || entry.depth() == 0 => {
                let metadata = std::fs::metadata(entry.path())?;
                let path = tree_path(self.root, entry.path());
                self.walked.folders.add_folder(self.root, path, &metadata, self.rules, self.begin_ns);
                Ok(())
            }
            _ => Ok(()),
        });
        if let Err(error) = seen {
            self.walked.trouble.push(error.to_string());
        }
    }
}

impl Drop for WalkVisitor<'_, '_> {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.files.append(&mut self.walked.files);
        all.trouble.append(&mut self.walked.trouble);
        all.folders.append(&mut self.walked.folders);
    }
}

impl TreeFile {
    pub(crate) fn of(path: Vec<u8>, metadata: &std::fs::Metadata) -> Self {
        Self { path, size_bytes: metadata.len(), mtime_ns: settled_mtime_ns(metadata, now_ns()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        root
    }

    fn paths(root: &Path, rules: &Rules) -> Vec<String> {
        let walked = walk(root, rules, 2).unwrap();
        assert!(walked.trouble.is_empty());
        walked.files.into_iter().map(|found| String::from_utf8(found.path).unwrap()).collect()
    }

    #[test]
    fn ignored_and_hidden_files_are_left_out_unless_asked_for() {
        let root = tree(&[
            ".git/HEAD",
            "a/x.c",
            "a/x.o",
            "a-b",
            ".hidden",
            "b/y.c",
            "b/z.o",
            ".faultless/grep/manifest",
        ]);
        std::fs::write(root.path().join(".gitignore"), "*.o\n").unwrap();
        assert_eq!(paths(root.path(), &Rules::default()), ["a/x.c", "a-b", "b/y.c"]);
        let rules = Rules { hidden: true, ..Rules::default() };
        assert_eq!(
            paths(root.path(), &rules),
            [".git/HEAD", ".gitignore", ".hidden", "a/x.c", "a-b", "b/y.c"]
        );
        let rules = Rules { no_ignore: true, ..Rules::default() };
        assert_eq!(paths(root.path(), &rules), ["a/x.c", "a/x.o", "a-b", "b/y.c", "b/z.o"]);
        let rules = Rules { globs: vec!["*.c".into(), "!b/*".into()], ..Rules::default() };
        assert_eq!(paths(root.path(), &rules), ["a/x.c"]);
        let rules = Rules { globs: vec!["[".into()], ..Rules::default() };
        assert!(walk(root.path(), &rules, 1).unwrap_err().to_string().starts_with("glob [:"));
    }
}
