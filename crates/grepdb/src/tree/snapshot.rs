//! The folder snapshot: the folders of the last walk with their times, and the ignore files that it obeyed.
//!
//! In: folders during a walk. Out: a file beside the manifest, and back. A folder whose time did not change has the
//! same entries, so the next walk does not list it. If any ignore file changed, the next walk is a full one.
//!
//! It does not walk the tree itself (`walk`, `rewalk`).

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::encoding::{seal, unseal};
use crate::path::{disk_path, path_order};
use crate::tree::rules::{Rules, WalkRoot};
use crate::tree::time::settled_ctime_ns;

const MAGIC: [u8; 8] = *b"\x89flgfl2\n";
const NAME: &str = "folders";
/// Files that exclude other files. The presence of `.git` turns `.gitignore` on.
const IGNORE_FILES: [&str; 4] = [".gitignore", ".ignore", ".rgignore", ".git"];

/// The folders of a walk and the ignore files that applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderSnapshot {
    /// In path order.
    pub(crate) folders: Vec<FolderStamp>,
    /// Ignore files in these folders.
    ignore_files: Vec<IgnoreFileStamp>,
    /// Ignore files elsewhere that apply to these folders. A file that does not exist has an entry too: it may be
    /// created.
    outside_ignore_files: Vec<IgnoreFileStamp>,
    /// When the walk began, ns since 1970.
    pub(crate) walked_ns: u64,
}

/// A folder and the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderStamp {
    pub(crate) path: Vec<u8>,
    /// When the folder last got or lost an entry, ns since 1970. No program can set this time. 0 if it is not
    /// settled.
    pub(crate) ctime_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IgnoreFileStamp {
    path: OsString,
    /// Size and time, or `None` if the file does not exist. A file with time 0 counts as changed.
    state: Option<(u64, u64)>,
}

impl FolderSnapshot {
    /// A snapshot without folders, but with the ignore files above `walk_roots` that apply to them.
    pub(crate) fn with_outside_ignore_files(rules: &Rules, walk_roots: &[WalkRoot], begin_ns: u64) -> Self {
        let mut outside = Vec::new();
        if !rules.no_ignore {
            for folder in walk_roots.iter().flat_map(|walk_root| walk_root.root.ancestors().skip(1)) {
                outside.extend(
                    IGNORE_FILES.iter().flat_map(|name| IgnoreFileStamp::of(&folder.join(name), begin_ns)),
                );
            }
            let everywhere = ignore::gitignore::gitconfig_excludes_path();
            outside.extend(everywhere.iter().flat_map(|path| IgnoreFileStamp::of(path, begin_ns)));
        }
        outside.dedup();
        Self { outside_ignore_files: outside, walked_ns: begin_ns, ..Self::default() }
    }

    pub(crate) fn add_folder(
        &mut self,
        root: &Path,
        path: Vec<u8>,
        metadata: &Metadata,
        rules: &Rules,
        begin_ns: u64,
    ) {
        if !rules.no_ignore {
            let folder = disk_path(root, &path);
            let stamps = IGNORE_FILES.map(|name| IgnoreFileStamp::of(&folder.join(name), begin_ns));
            let there = stamps.into_iter().filter(|of| of.first().is_some_and(|stamp| stamp.state.is_some()));
            self.ignore_files.extend(there.flatten());
        }
        self.folders.push(FolderStamp { path, ctime_ns: settled_ctime_ns(metadata, begin_ns) });
    }

    pub(crate) fn append(&mut self, other: &mut Self) {
        self.folders.append(&mut other.folders);
        self.ignore_files.append(&mut other.ignore_files);
    }

    pub(crate) fn sort(&mut self) {
        self.folders.sort_unstable_by(|a, b| path_order(&a.path, &b.path));
        self.folders.dedup_by(|a, b| a.path == b.path);
        self.ignore_files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.ignore_files.dedup_by(|a, b| a.path == b.path);
    }

    /// If every ignore file is unchanged, a snapshot without folders but with these ignore files.
    pub(crate) fn if_rules_unchanged(
        &self,
        rules: &Rules,
        walk_roots: &[WalkRoot],
        begin_ns: u64,
    ) -> Option<Self> {
        let now = Self::with_outside_ignore_files(rules, walk_roots, begin_ns);
        let settled = |stamp: &IgnoreFileStamp| stamp.state.is_none_or(|(_, mtime_ns)| mtime_ns != 0);
        let as_then = |stamp: &IgnoreFileStamp| {
            settled(stamp) && IgnoreFileStamp::state(Path::new(&stamp.path), begin_ns) == stamp.state
        };
        let same = now.outside_ignore_files == self.outside_ignore_files
            && self.outside_ignore_files.iter().all(settled);
        (same && self.ignore_files.iter().all(as_then))
            .then(|| Self { ignore_files: self.ignore_files.clone(), ..now })
    }

    pub(crate) fn is_ignore_file(name: &OsStr) -> bool {
        IGNORE_FILES.iter().any(|rule| name == *rule)
    }

    /// Whether `path` is an ignore file that the walk has not seen.
    pub(crate) fn is_new_ignore_file(&self, path: &Path) -> bool {
        path.file_name().is_some_and(Self::is_ignore_file)
            && self
                .ignore_files
                .binary_search_by(|stamp| stamp.path.as_os_str().cmp(path.as_os_str()))
                .is_err()
    }

    /// Whether the walk visited the folder at tree path `path`.
    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        self.folders.binary_search_by(|folder| path_order(&folder.path, path)).is_ok()
    }

    /// Reads the snapshot in `folder`. Returns `None` if it does not belong to the manifest of this `generation`.
    pub(crate) fn load(folder: &Path, generation: u64) -> Option<Self> {
        decode(&std::fs::read(folder.join(NAME)).ok()?, generation)
    }

    /// Removes the snapshot in `folder`. This must precede every change of the database.
    /// If it fails, the database must not change.
    pub(crate) fn forget(folder: &Path) -> std::io::Result<()> {
        match std::fs::remove_file(folder.join(NAME)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the snapshot. If that fails, the next walk is a full one.
    pub(crate) fn save(&self, folder: &Path, generation: u64) {
        let aside = folder.join("folders.new");
        if std::fs::write(&aside, self.encode(generation)).is_ok() {
            let _ = std::fs::rename(&aside, folder.join(NAME));
        }
    }

    fn encode(&self, generation: u64) -> Vec<u8> {
        seal(&MAGIC, &(generation, self))
    }
}

fn decode(bytes: &[u8], wanted: u64) -> Option<FolderSnapshot> {
    let mut bytes = unseal(bytes)?;
    (bytes.take(MAGIC.len())? == MAGIC).then_some(())?;
    let (generation, folders): (u64, _) = bytes.value()?;
    (wanted == generation).then_some(folders)
}

impl IgnoreFileStamp {
    /// The state of an ignore file. A `.git` folder stands for two: itself and its `info/exclude`.
    fn of(path: &Path, begin_ns: u64) -> Vec<Self> {
        let of = |path: PathBuf| Self { state: Self::state(&path, begin_ns), path: path.into() };
        let exclude = path.ends_with(".git").then(|| path.join("info/exclude"));
        std::iter::once(path.to_path_buf()).chain(exclude).map(of).collect()
    }

    fn state(path: &Path, begin_ns: u64) -> Option<(u64, u64)> {
        let metadata = std::fs::metadata(path).ok()?;
        if !path.ends_with(".git") {
            Some((metadata.len(), settled_ctime_ns(&metadata, begin_ns)))
        } else if metadata.is_dir() {
            // Only the presence of the folder counts. Git changes its contents all the time.
            Some((0, 1))
        } else {
            // A `.git` file points to a repository elsewhere, whose exclude list is not tracked. Time 0 forces a full walk.
            Some((0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_remembered_comes_back_for_its_manifest() {
        let folder = |path: &str, ctime_ns| FolderStamp { path: path.into(), ctime_ns };
        let folders = FolderSnapshot {
            folders: vec![folder("", 7), folder("a", 0), folder("a/b", 1 << 60)],
            ignore_files: vec![IgnoreFileStamp { path: "/t/a/.ignore".into(), state: Some((3, 9)) }],
            outside_ignore_files: vec![IgnoreFileStamp { path: "/.git".into(), state: None }],
            walked_ns: 8,
        };
        let bytes = folders.encode(5);
        assert_eq!(decode(&bytes, 5), Some(folders));
        assert_eq!(decode(&bytes, 6), None);
    }
}
