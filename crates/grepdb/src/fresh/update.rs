//! Brings a database up to date, or tells its searches which files changed.
//!
//! In: a database and its tree. Out: a new manifest ([`Database::update`]), or an overlay of changed files.
//!
//! It does not compare files (`plan`), or watch the tree (`watch`).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::build::commit::{UpdateReport, commit, report, save_snapshot};
use crate::build::segments::{BuildPlan, Progress, build_segments};
use crate::error::{Error, Result};
use crate::fresh::plan::{changed_paths, plan_update, walk_again};
use crate::path::{path_order, tree_path};
use crate::store::change_log::ChangeLog;
use crate::store::damage_log::DamageLog;
use crate::store::database::{Database, Location};
use crate::store::inventory::Inventory;
use crate::store::manifest::{DatabaseFolder, Manifest};
use crate::store::overlay::Overlay;
use crate::tree::content::open_text;
use crate::tree::rules::{Rules, WalkRoot};
use crate::tree::snapshot::FolderSnapshot;

impl Database {
    /// Reads the files that changed since the last update of the database at `location`. With `rules` it replaces the
    /// rules, too.
    ///
    /// # Errors
    /// As [`build`](Self::build); or there is no database.
    pub fn update(
        location: &Location,
        rules: Option<&Rules>,
        threads: usize,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<UpdateReport> {
        let folder = DatabaseFolder::at(&location.folder);
        location.manifest()?;
        let _lock = folder.lock()?;
        let changed = ChangeLog::read(&location.folder)?;
        // The files of an unreadable segment are read again, as if they were new.
        let Some(mut database) = Self::open_with(location, Some(&mut |_| {}))? else {
            return Err(Error::Missing(location.root.clone()));
        };
        let new_rules = rules.filter(|rules| **rules != database.manifest.rules);
        if let Some(rules) = new_rules {
            database.manifest.rules = rules.clone();
            FolderSnapshot::forget(&location.folder).map_err(Error::io("change", &location.folder))?;
        }
        let damage = DamageLog::read(&location.folder);
        let inventory = Inventory::new(&database, &damage)?;
        let walked = walk_again(&database, &inventory, threads)?;
        let update = plan_update(&database, inventory, &walked.files, &changed.paths(), &damage);
        let plan = BuildPlan {
            root: &location.root,
            files: &update.read,
            open: &open_text,
            threads,
            number: database.manifest.next,
            segment_path: &|number| folder.segment_path(number),
        };
        let written = folder.remove_on_error(plan.number, build_segments(&plan, progress))?;
        let is_unchanged = new_rules.is_none()
            && !database.lacks_segments
            && written.is_empty()
            && update.kept == database.manifest.segments;
        let mut manifest =
            Manifest { walked_ns: walked.folders.walked_ns, segments: update.kept, ..database.manifest };
        if is_unchanged {
            save_snapshot(&folder, &manifest, &walked);
        } else {
            manifest.generation += 1;
            manifest.next += written.len() as u64;
            manifest.segments.extend(written.iter().map(|written| written.meta.clone()));
            commit(&folder, &manifest, &walked)?;
        }
        changed.clear(&location.folder)?;
        DamageLog::clear(&location.folder);
        let read = update.read.len() as u64;
        Ok(UpdateReport { read, trouble: walked.trouble, ..report(&manifest, &written, update.removed) })
    }

    /// Compares the database with the tree. Later searches read every changed file on disk. Returns the folders and
    /// files that could not be walked, and why.
    ///
    /// # Errors
    /// The tree can't be walked, or the database is damaged.
    pub fn refresh(&mut self, threads: usize) -> Result<Vec<String>> {
        let changed = ChangeLog::read(&self.location.folder)?;
        let inventory = self.inventory()?;
        let walked = walk_again(self, &inventory, threads)?;
        let paths = changed_paths(&self.location.root, &inventory.files, &walked.files, &changed.paths());
        let is_in_tree =
            |path: &Vec<u8>| walked.files.binary_search_by(|file| path_order(&file.path, path)).is_ok();
        self.overlay = Overlay::complete(paths, is_in_tree);
        Ok(walked.trouble)
    }

    /// Marks `files`, absolute paths, as changed: searches read them on disk until the next update. Returns how many
    /// of them belong to the database at `location`; it ignores the others.
    ///
    /// # Errors
    /// There is no database, or the change log can't be written.
    pub fn mark_changed(location: &Location, files: &[PathBuf]) -> Result<usize> {
        let manifest = location.manifest()?;
        let roots = WalkRoot::all(&location.root, &manifest.rules)?;
        let mut matchers: Vec<_> = roots.iter().map(WalkRoot::path_matcher).collect();
        let is_listed = |file: &Path| {
            manifest.rules.groups.iter().any(|group| group.files.iter().any(|listed| listed == file))
        };
        let belongs = |file: &&PathBuf| {
            is_listed(file) || matchers.iter_mut().any(|matcher| matcher.accepts(file, false))
        };
        let paths: Vec<_> =
            files.iter().filter(belongs).map(|file| tree_path(&location.root, file)).collect();
        if !paths.is_empty() {
            ChangeLog::append(&location.folder, &paths)?;
        }
        Ok(paths.len())
    }
}
