//! Walks a tree again, and lists only the folders that changed.
//!
//! In: the known files, and the [`FolderSnapshot`] of the last walk. Out: the result of a full walk; or `None` if an
//! ignore file changed or a folder can't be read, and a full walk is needed.
//!
//! It does not decide which files to read (`fresh`).

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Result;
use crate::path::{disk_path, path_order, tree_path};
use crate::tree::rules::{PathMatcher, Rules, WalkRoot};
use crate::tree::snapshot::{FolderSnapshot, FolderStamp};
use crate::tree::time::{now_ns, settled_ctime_ns};
use crate::tree::walk::{TreeFile, WalkResult};

/// Walks the tree below `root` again. `files` are all files of the last walk, in path order.
pub(crate) fn rewalk(
    root: &Path,
    rules: &Rules,
    files: &[&[u8]],
    before: &FolderSnapshot,
    threads: usize,
) -> Result<Option<WalkResult>> {
    let walk_roots = WalkRoot::all(root, rules)?;
    let begin_ns = now_ns();
    let Some(folders) = before.if_rules_unchanged(rules, &walk_roots, begin_ns) else { return Ok(None) };
    let found = parallel_map(files, threads, |path| Ok(stat(root, path, false)?.filter(Metadata::is_file)));
    let roots: Vec<_> = walk_roots.iter().map(|walk_root| tree_path(root, &walk_root.root)).collect();
    let is_root = |path: &Vec<u8>| roots.contains(path);
    let stat_folder = |folder: &FolderStamp| stat(root, &folder.path, is_root(&folder.path));
    let (Ok(found), Ok(times)) = (found, parallel_map(&before.folders, threads, stat_folder)) else {
        return Ok(None);
    };
    let mut rewalk =
        Rewalk { root, rules, files, before, begin_ns, matchers: Vec::new(), new: Vec::new(), folders };
    for (folder, metadata) in before.folders.iter().zip(times) {
        let Some(metadata) = metadata.filter(Metadata::is_dir) else {
            if is_root(&folder.path) {
                return Ok(None);
            }
            continue;
        };
        let ctime_ns = settled_ctime_ns(&metadata, begin_ns);
        rewalk.folders.folders.push(FolderStamp { path: folder.path.clone(), ctime_ns });
        if ctime_ns == 0 || ctime_ns != folder.ctime_ns {
            if rewalk.matchers.is_empty() {
                rewalk.matchers = walk_roots.iter().map(WalkRoot::path_matcher).collect();
            }
            if rewalk.list(&folder.path, false).is_none() {
                return Ok(None);
            }
        }
    }
    for file in rules.groups.iter().flat_map(|group| &group.files) {
        let path = tree_path(root, file);
        if !rewalk.knows(&path)
            && let Some(metadata) = std::fs::symlink_metadata(file).ok().filter(Metadata::is_file)
        {
            rewalk.new.push(TreeFile::of(path, &metadata));
        }
    }
    let mut walked = WalkResult { folders: rewalk.folders, ..WalkResult::default() };
    walked.folders.sort();
    let still = files.iter().zip(found);
    walked.files =
        still.filter_map(|(path, metadata)| Some(TreeFile::of(path.to_vec(), &metadata?))).collect();
    if !rewalk.new.is_empty() {
        walked.files.append(&mut rewalk.new);
        walked.files.sort_by(|a, b| path_order(&a.path, &b.path));
        walked.files.dedup_by(|a, b| a.path == b.path);
    }
    Ok(Some(walked))
}

struct Rewalk<'a> {
    root: &'a Path,
    rules: &'a Rules,
    files: &'a [&'a [u8]],
    before: &'a FolderSnapshot,
    begin_ns: u64,
    matchers: Vec<PathMatcher>,
    new: Vec<TreeFile>,
    folders: FolderSnapshot,
}

impl Rewalk<'_> {
    fn knows(&self, path: &[u8]) -> bool {
        self.files.binary_search_by(|file| path_order(file, path)).is_ok()
    }

    /// Lists the folder at `path` and takes its new entries. With `is_new` the folder itself is new, and so are all
    /// entries. Returns `None` if a full walk is needed.
    fn list(&mut self, path: &[u8], is_new: bool) -> Option<()> {
        for entry in std::fs::read_dir(disk_path(self.root, path)).ok()? {
            let entry = entry.ok()?;
            let (kind, on_disk) = (entry.file_type().ok()?, entry.path());
            if !is_new && !self.rules.no_ignore && self.before.is_new_ignore_file(&on_disk) {
                return None;
            }
            let path = tree_path(self.root, &on_disk);
            let is_known = if kind.is_dir() { self.before.contains(&path) } else { self.knows(&path) };
            let is_searchable = kind.is_dir() || kind.is_file();
            if is_known
                || !is_searchable
                || !self.matchers.iter_mut().any(|matcher| matcher.accepts(&on_disk, kind.is_dir()))
            {
                continue;
            }
            // An entry that is gone by now is no entry.
            let Ok(metadata) = std::fs::symlink_metadata(&on_disk) else { continue };
            if metadata.is_dir() {
                self.folders.add_folder(self.root, path.clone(), &metadata, self.rules, self.begin_ns);
                self.list(&path, true)?;
            } else {
                self.new.push(TreeFile::of(path, &metadata));
            }
        }
        Some(())
    }
}

/// The metadata of the file at `path`, or `None` if it does not exist.
fn stat(root: &Path, path: &[u8], follow: bool) -> io::Result<Option<Metadata>> {
    let root = root.as_os_str().as_bytes();
    let mut whole = Vec::with_capacity(root.len() + 1 + path.len());
    whole.extend_from_slice(root);
    whole.push(b'/');
    whole.extend_from_slice(path);
    let whole = OsStr::from_bytes(&whole);
    let metadata = if follow { std::fs::metadata(whole) } else { std::fs::symlink_metadata(whole) };
    match metadata {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Calls `what` on every item, and returns the results in order.
fn parallel_map<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    what: impl Fn(&T) -> io::Result<R> + Sync,
) -> io::Result<Vec<R>> {
    let share = all.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let what = &what;
        let parts = all
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(what).collect::<io::Result<Vec<R>>>()));
        let parts: Vec<_> = parts.collect();
        let mut done = Vec::with_capacity(all.len());
        for part in parts {
            done.extend(part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(done)
    })
}
