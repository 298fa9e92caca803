//! Watches a tree, and keeps its database up to date.
//!
//! ```text
//! kernel -> events -> paths -> marked at once; an update after a quiet time, or when folders or ignore files changed
//! ```
//! In: a location. Out: marks and updates, and an event about each. It watches the folders that a walk visits, and no
//! others. When the kernel drops events, it runs an update to find the changes.
//!
//! It does not stop on its own, or print.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RemoveKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use crate::build::commit::UpdateReport;
use crate::error::{Error, Result};
use crate::path::{FOLDER, disk_path};
use crate::store::database::{Database, Location};
use crate::store::file_lock::FileLock;
use crate::tree::snapshot::FolderSnapshot;
use crate::tree::walk::walk;
use crate::tuning as t;

/// What a watcher did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// It watches this many folders.
    Started(usize),
    /// It marked this many files as changed.
    Marked(usize),
    /// It updated the database.
    Updated(UpdateReport),
    /// The kernel dropped events. An update follows.
    EventsLost,
    /// Another process is updating the database. The watcher waits.
    Busy,
}

/// Keeps one database up to date.
pub struct TreeWatcher<'a> {
    /// The database.
    pub location: &'a Location,
    /// It updates after this time without a change.
    pub quiet: Duration,
    /// Threads of an update.
    pub threads: usize,
    /// Whether to stop.
    pub is_stopped: &'a dyn Fn() -> bool,
}

impl TreeWatcher<'_> {
    /// Watches until it is stopped. Calls `tell` for every event.
    ///
    /// # Errors
    /// Another process watches this database, the kernel refuses to watch so many folders, the tree is gone, or the
    /// database can't be written.
    pub fn run(&self, tell: &mut dyn FnMut(WatchEvent)) -> Result<()> {
        self.location.manifest()?;
        let _lock = self.lock()?;
        let (sender, events) = channel();
        let watcher = RecommendedWatcher::new(sender, notify::Config::default()).map_err(refused)?;
        let mut watches = FolderWatches { watcher, folders: HashSet::new() };
        let mut pending = PendingChanges { update_is_due: true, ..PendingChanges::default() };
        watches.replace(&self.folders()?)?;
        tell(WatchEvent::Started(watches.folders.len()));
        while !(self.is_stopped)() {
            self.listen(&events, &mut pending, tell)?;
            if !pending.paths.is_empty() {
                let paths: Vec<PathBuf> = std::mem::take(&mut pending.paths).into_iter().collect();
                match Database::mark_changed(self.location, &paths)? {
                    0 => {}
                    marked => {
                        pending.marked_at = Some(Instant::now());
                        tell(WatchEvent::Marked(marked));
                    }
                }
            }
            let is_quiet = pending.marked_at.is_some_and(|at| at.elapsed() >= self.quiet);
            if pending.update_is_due || is_quiet {
                self.update(&mut watches, &mut pending, tell)?;
            }
        }
        Ok(())
    }

    /// Ensures that there is one watcher per database.
    fn lock(&self) -> Result<FileLock> {
        let path = self.location.folder.join("watch.lock");
        let lock = FileLock::try_at(&path).map_err(Error::io("lock", &path))?;
        lock.ok_or_else(|| Error::Watched(self.location.folder.clone()))
    }

    fn folders(&self) -> Result<Vec<PathBuf>> {
        let manifest = self.location.manifest()?;
        let folders = match FolderSnapshot::load(&self.location.folder, manifest.generation) {
            Some(folders) => folders,
            None => walk(&self.location.root, &manifest.rules, self.threads)?.folders,
        };
        Ok(folders.folders.iter().map(|folder| disk_path(&self.location.root, &folder.path)).collect())
    }

    /// Collects events for `WATCH_EVERY`.
    fn listen(
        &self,
        events: &Receiver<notify::Result<Event>>,
        pending: &mut PendingChanges,
        tell: &mut dyn FnMut(WatchEvent),
    ) -> Result<()> {
        let end = Instant::now() + t::WATCH_EVERY;
        loop {
            match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Ok(event)) => {
                    if event.need_rescan() {
                        tell(WatchEvent::EventsLost);
                        pending.update_is_due = true;
                    }
                    pending.take(event);
                }
                // The update finds what the failed event was about.
                Ok(Err(_)) => pending.update_is_due = true,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        std::fs::read_dir(&self.location.root).map_err(Error::io("watch", &self.location.root)).map(drop)
    }

    fn update(
        &self,
        watches: &mut FolderWatches,
        pending: &mut PendingChanges,
        tell: &mut dyn FnMut(WatchEvent),
    ) -> Result<()> {
        match Database::update(self.location, None, self.threads, &mut |_| ControlFlow::Continue(())) {
            Ok(updated) => {
                // Files may have come into a new folder before it was watched. Another update finds them.
                let update_is_due = watches.replace(&self.folders()?)?;
                *pending = PendingChanges { update_is_due, ..PendingChanges::default() };
                tell(WatchEvent::Updated(updated));
                Ok(())
            }
            Err(Error::Locked(_)) => {
                tell(WatchEvent::Busy);
                std::thread::sleep(t::WATCH_EVERY);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

struct FolderWatches {
    watcher: RecommendedWatcher,
    folders: HashSet<PathBuf>,
}

impl FolderWatches {
    /// Watches exactly `folders`. Returns whether one of them is new; a renamed folder is.
    fn replace(&mut self, folders: &[PathBuf]) -> Result<bool> {
        let gone: Vec<PathBuf> = {
            let now: HashSet<&PathBuf> = folders.iter().collect();
            self.folders.iter().filter(|folder| !now.contains(folder)).cloned().collect()
        };
        for folder in gone {
            // An error: the kernel has dropped the watch together with the folder.
            let _ = self.watcher.unwatch(&folder);
            self.folders.remove(&folder);
        }
        let mut has_new = false;
        for folder in folders.iter().filter(|folder| !self.folders.contains(*folder)).collect::<Vec<_>>() {
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => continue,
                Err(notify::Error { kind: notify::ErrorKind::Io(error), .. })
                    if error.kind() == std::io::ErrorKind::NotFound =>
                {
                    continue;
                }
                watched => watched.map_err(refused)?,
            }
            self.folders.insert(folder.clone());
            has_new = true;
        }
        Ok(has_new)
    }
}

#[derive(Default)]
struct PendingChanges {
    /// Changed files that are not marked yet.
    paths: BTreeSet<PathBuf>,
    /// When files were last marked.
    marked_at: Option<Instant>,
    /// The next update must not wait.
    update_is_due: bool,
}

impl PendingChanges {
    fn take(&mut self, event: Event) {
        let tells = match event.kind {
            EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
            EventKind::Modify(ModifyKind::Metadata(_)) => false,
            _ => true,
        };
        if !tells {
            return;
        }
        let is_ours = |path: &Path| path.components().any(|part| part.as_os_str() == FOLDER);
        for path in event.paths.into_iter().filter(|path| !is_ours(path)) {
            let is_folder = std::fs::symlink_metadata(&path).map(|metadata| metadata.is_dir());
            match is_folder {
                // A new folder may contain files without events.
                Ok(true) => {
                    self.update_is_due |=
                        matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)))
                }
                // A removed path may have been a folder.
                Err(_) => {
                    self.paths.insert(path);
                    self.update_is_due |= matches!(
                        event.kind,
                        EventKind::Remove(RemoveKind::Folder) | EventKind::Modify(ModifyKind::Name(_))
                    );
                }
                Ok(false) => {
                    let is_ignore_file = path.file_name().is_some_and(FolderSnapshot::is_ignore_file);
                    self.update_is_due |= is_ignore_file;
                    self.paths.insert(path);
                }
            }
        }
    }
}

fn refused(error: notify::Error) -> Error {
    Error::Watch(match error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "no more folders can be watched; `sysctl fs.inotify.max_user_watches=1048576` allows more".into()
        }
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, Flag};

    use super::*;

    #[test]
    fn lost_events_lead_to_an_update() {
        let root = tempfile::tempdir().unwrap();
        let location = Location::in_tree(root.path());
        let watch =
            TreeWatcher { location: &location, quiet: Duration::ZERO, threads: 1, is_stopped: &|| false };
        let (sender, events) = channel();
        sender.send(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan))).unwrap();
        let (mut pending, mut told) = (PendingChanges::default(), Vec::new());
        watch.listen(&events, &mut pending, &mut |event| told.push(event)).unwrap();
        assert_eq!((pending.update_is_due, told), (true, vec![WatchEvent::EventsLost]));
    }

    /// The number of folders stays the same, but the new one was not watched while files came into it.
    #[test]
    fn a_renamed_folder_is_a_new_one() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (root.path().join("old"), root.path().join("new"));
        let (sender, _events) = channel();
        let watcher = RecommendedWatcher::new(sender, notify::Config::default()).unwrap();
        let mut watches = FolderWatches { watcher, folders: HashSet::new() };
        std::fs::create_dir(&old).unwrap();
        assert!(watches.replace(std::slice::from_ref(&old)).unwrap());
        assert!(!watches.replace(std::slice::from_ref(&old)).unwrap());
        std::fs::rename(&old, &new).unwrap();
        assert!(watches.replace(&[new]).unwrap());
        assert_eq!(watches.folders.len(), 1);
    }

    #[test]
    fn files_wait_and_folders_and_rules_do_not() {
        let root = tempfile::tempdir().unwrap();
        let due = |name: &str, kind| {
            let mut pending = PendingChanges::default();
            pending.take(Event::new(kind).add_path(root.path().join(name)));
            (pending.update_is_due, pending.paths.len())
        };
        std::fs::create_dir(root.path().join("folder")).unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        std::fs::write(root.path().join(".ignore"), "").unwrap();
        let created = EventKind::Create(CreateKind::Any);
        assert_eq!(due("folder", created), (true, 0));
        assert_eq!(due("file", created), (false, 1));
        assert_eq!(due(".ignore", created), (true, 1));
        assert_eq!(due(".faultless/grep/manifest", created), (false, 0));
        assert_eq!(due("file", EventKind::Access(AccessKind::Any)), (false, 0));
    }
}
