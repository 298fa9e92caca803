//! A tree that was walked before -> its files, by looking only at what may have changed.
//!
//! In: the files and [`Folders`] that are known. Out: the same as a walk would give; or nothing where rules have changed or a folder can't
//! be read, and all has to be walked.
//!
//! What it does not do: decide what to read (`update`).

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Result;
use crate::files::by_path;
use crate::folders::{Folder, Folders};
use crate::source::{Judge, Rules, Source};
use crate::walk::{Found, Walked, below, full, now_ns, settled_ctime_ns};

/// Looks again at the tree below `root`, of which `files` are known, in order.
///
/// # Errors
/// A glob or an expression is none.
pub(crate) fn rewalk(
    root: &Path,
    rules: &Rules,
    files: &[&[u8]],
    before: &Folders,
    threads: usize,
) -> Result<Option<Walked>> {
    let sources = Source::all(root, rules)?;
    let begin_ns = now_ns();
    let Some(folders) = before.same_rules(rules, &sources, begin_ns) else { return Ok(None) };
    let found = side_by_side(files, threads, |path| Ok(look(root, path, false)?.filter(Metadata::is_file)));
    let roots: Vec<_> = sources.iter().map(|source| below(root, &source.root)).collect();
    let is_root = |path: &Vec<u8>| roots.contains(path);
    let look_at = |folder: &Folder| look(root, &folder.path, is_root(&folder.path));
    let (Ok(found), Ok(times)) = (found, side_by_side(&before.folders, threads, look_at)) else {
        return Ok(None);
    };
    let mut again =
        Again { root, rules, files, before, begin_ns, judges: Vec::new(), new: Vec::new(), folders };
    for (folder, metadata) in before.folders.iter().zip(times) {
        let Some(metadata) = metadata.filter(Metadata::is_dir) else {
            if is_root(&folder.path) {
                return Ok(None);
            }
            continue;
        };
        let ctime_ns = settled_ctime_ns(&metadata, begin_ns);
        again.folders.folders.push(Folder { path: folder.path.clone(), ctime_ns });
        if ctime_ns == 0 || ctime_ns != folder.ctime_ns {
            if again.judges.is_empty() {
                again.judges = sources.iter().map(Source::judge).collect();
            }
            if again.list(&folder.path, false).is_none() {
                return Ok(None);
            }
        }
    }
    for file in rules.groups.iter().flat_map(|group| &group.files) {
        let path = below(root, file);
        if !again.knows(&path)
            && let Some(metadata) = std::fs::symlink_metadata(file).ok().filter(Metadata::is_file)
        {
            again.new.push(Found::of(path, &metadata));
        }
    }
    let mut walked = Walked { folders: again.folders, ..Walked::default() };
    walked.folders.sort();
    let still = files.iter().zip(found);
    walked.files = still.filter_map(|(path, metadata)| Some(Found::of(path.to_vec(), &metadata?))).collect();
    if !again.new.is_empty() {
        walked.files.append(&mut again.new);
        walked.files.sort_by(|a, b| by_path(&a.path, &b.path));
        walked.files.dedup_by(|a, b| a.path == b.path);
    }
    Ok(Some(walked))
}

/// What folders that have changed need.
struct Again<'a> {
    root: &'a Path,
    rules: &'a Rules,
    files: &'a [&'a [u8]],
    before: &'a Folders,
    begin_ns: u64,
    judges: Vec<Judge>,
    new: Vec<Found>,
    folders: Folders,
}

impl Again<'_> {
    fn knows(&self, path: &[u8]) -> bool {
        self.files.binary_search_by(|file| by_path(file, path)).is_ok()
    }

    /// Looks for new names in the folder at `path`, all of which are new where `is_new`. `None` where in doubt.
    fn list(&mut self, path: &[u8], is_new: bool) -> Option<()> {
        for entry in std::fs::read_dir(full(self.root, path)).ok()? {
            let entry = entry.ok()?;
            let (kind, place) = (entry.file_type().ok()?, entry.path());
            if !is_new && !self.rules.no_ignore && self.before.is_new_rule(&place) {
                return None;
            }
            let path = below(self.root, &place);
            let is_known = match kind.is_dir() {
                true => self.before.has(&path),
                false => self.knows(&path),
            };
            let is_of_interest = kind.is_dir() || kind.is_file();
            if is_known
                || !is_of_interest
                || !self.judges.iter_mut().any(|judge| judge.accepts(&place, kind.is_dir()))
            {
                continue;
            }
            // Who is gone by now will be found to be gone.
            let Ok(metadata) = std::fs::symlink_metadata(&place) else { continue };
            if metadata.is_dir() {
                self.folders.note(self.root, path.clone(), &metadata, self.rules, self.begin_ns);
                self.list(&path, true)?;
            } else {
                self.new.push(Found::of(path, &metadata));
            }
        }
        Some(())
    }
}

/// What is at `path`; nothing where that has gone.
fn look(root: &Path, path: &[u8], follow: bool) -> io::Result<Option<Metadata>> {
    let root = root.as_os_str().as_bytes();
    let mut whole = Vec::with_capacity(root.len() + 1 + path.len());
    whole.extend_from_slice(root);
    whole.push(b'/');
    whole.extend_from_slice(path);
    let whole = OsStr::from_bytes(&whole);
    let looked = if follow { std::fs::metadata(whole) } else { std::fs::symlink_metadata(whole) };
    match looked {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `what` of each of `all`, in order.
fn side_by_side<T: Sync, R: Send>(
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
