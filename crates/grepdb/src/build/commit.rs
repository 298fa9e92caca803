//! Builds a database from scratch, and commits new segments.
//!
//! In: a tree, or segments that were just written. Out: a manifest that names them, a saved folder snapshot, and an
//! [`UpdateReport`].
//!
//! It does not read or pack files (`segments`).

use std::ops::ControlFlow;
use std::path::Path;

use crate::build::segments::{BuildPlan, Progress, WrittenSegment, build_segments};
use crate::error::{Error, Result};
use crate::path::FOLDER;
use crate::store::change_log::ChangeLog;
use crate::store::damage_log::DamageLog;
use crate::store::database::{Database, Location};
use crate::store::manifest::{DatabaseFolder, Manifest, SegmentMeta};
use crate::tree::content::open_text;
use crate::tree::rules::Rules;
use crate::tree::snapshot::FolderSnapshot;
use crate::tree::walk::{WalkResult, walk};

/// What a build or an update did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateReport {
    /// Files in the database now.
    pub files: u64,
    /// Files that were read.
    pub read: u64,
    /// Files that were removed from the database.
    pub removed: u64,
    /// Text in the database now, bytes.
    pub text_bytes: u64,
    /// Bytes written to disk.
    pub written_bytes: u64,
    /// Folders and files that could not be walked, and why.
    pub trouble: Vec<String>,
}

impl Database {
    /// Builds the database at `location` from scratch, and replaces an existing one.
    ///
    /// # Errors
    /// The tree can't be walked, the database can't be written, or `progress` says to stop. An existing database then stays in force.
    pub fn build(
        location: &Location,
        rules: &Rules,
        threads: usize,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<UpdateReport> {
        std::fs::read_dir(&location.root).map_err(Error::io("walk", &location.root))?;
        let folder = DatabaseFolder::at(&location.folder);
        let _lock = folder.lock()?;
        if *location == Location::in_tree(&location.root) {
            hide_from_git(&location.root)?;
        }
        let changed = ChangeLog::read(&location.folder)?;
        let old = folder.manifest().ok().flatten().unwrap_or_default();
        let walked = walk(&location.root, rules, threads)?;
        let next = old.next.max(folder.next());
        let plan = BuildPlan {
            root: &location.root,
            files: &walked.files,
            open: &open_text,
            threads,
            number: next,
            segment_path: &|number| folder.segment_path(number),
        };
        let written = folder.remove_on_error(plan.number, build_segments(&plan, progress))?;
        let manifest = Manifest {
            root: location.root.clone().into(),
            rules: rules.clone(),
            generation: old.generation + 1,
            next: next + written.len() as u64,
            walked_ns: walked.folders.walked_ns,
            segments: written.iter().map(|written| written.meta.clone()).collect(),
        };
        commit(&folder, &manifest, &walked)?;
        changed.clear(&location.folder)?;
        DamageLog::clear(&location.folder);
        let read = walked.files.len() as u64;
        Ok(UpdateReport { read, trouble: walked.trouble, ..report(&manifest, &written, 0) })
    }
}

/// Replaces the manifest, and the folder snapshot with it: a snapshot belongs to one manifest.
pub(crate) fn commit(folder: &DatabaseFolder, manifest: &Manifest, walked: &WalkResult) -> Result<()> {
    FolderSnapshot::forget(folder.path()).map_err(Error::io("change", folder.path()))?;
    folder.commit(manifest)?;
    save_snapshot(folder, manifest, walked);
    Ok(())
}

/// Saves the folder snapshot of a walk without errors. After any other walk, the next one walks the whole tree again.
pub(crate) fn save_snapshot(folder: &DatabaseFolder, manifest: &Manifest, walked: &WalkResult) {
    if walked.trouble.is_empty() {
        walked.folders.save(folder.path(), manifest.generation);
    }
}

pub(crate) fn report(manifest: &Manifest, written: &[WrittenSegment], removed: u64) -> UpdateReport {
    let current = |meta: &SegmentMeta| u64::from(meta.files) - meta.tombstones.len() as u64;
    UpdateReport {
        files: manifest.segments.iter().map(current).sum(),
        removed,
        text_bytes: manifest.segments.iter().map(|meta| meta.text_bytes).sum(),
        written_bytes: written.iter().map(|written| written.file_bytes).sum(),
        ..UpdateReport::default()
    }
}

/// Keeps the folder of the database out of version control.
fn hide_from_git(root: &Path) -> Result<()> {
    let path = root.join(FOLDER).join(".gitignore");
    std::fs::write(&path, "*\n").map_err(Error::io("write", &path))
}
