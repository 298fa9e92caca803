//! A tree that changes -> a database that keeps up.
//!
//! ```text
//! kernel -> events -> paths -> marked at once; after a quiet time, or where folders came or went, an update
//! ```
//! In: a place. Out: marks and updates, and a word about each. Every folder that was walked is watched, and no other. Where the kernel
//! dropped events, an update finds what they were about.
//!
//! What it does not do: end by itself, or print.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use crate::database::{Database, Place, Updated};
use crate::error::{Error, Result};
use crate::folders::Folders;
use crate::store::Store;
use crate::tuning as t;
use crate::walk::{FOLDER, full, walk};

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// So many folders are watched.
    Begun(usize),
    /// So many files were marked as changed.
    Marked(usize),
    /// The database is up to date again.
    Updated(Updated),
    /// Events were lost: an update follows.
    Lost,
    /// Another process updates the database: this one waits.
    Busy,
}

/// How a watch goes.
pub struct Watch<'a> {
    /// Of which database.
    pub place: &'a Place,
    /// No change for so long, and an update is made.
    pub quiet: Duration,
    /// Workers of an update.
    pub threads: usize,
    /// Whether to end.
    pub ends: &'a dyn Fn() -> bool,
}

impl Watch<'_> {
    /// Watches until it is to end; `tell` hears of what is done.
    ///
    /// # Errors
    /// Somebody else watches; the kernel does not let so many folders be watched; the tree is gone; the database can't be written.
    pub fn run(&self, tell: &mut dyn FnMut(Watched)) -> Result<()> {
        if Store::at(&self.place.folder).manifest()?.is_none() {
            return Err(Error::Missing(self.place.folder.clone()));
        }
        let _only = self.lock()?;
        let (sender, events) = channel();
        let watcher = RecommendedWatcher::new(sender, notify::Config::default()).map_err(refused)?;
        let mut eyes = Eyes { watcher, folders: HashSet::new() };
        let mut state = State { is_due: true, ..State::default() };
        eyes.open(&self.folders()?)?;
        tell(Watched::Begun(eyes.folders.len()));
        while !(self.ends)() {
            self.listen(&events, &mut state, tell)?;
            if !state.paths.is_empty() {
                let paths: Vec<PathBuf> = std::mem::take(&mut state.paths).into_iter().collect();
                match Database::mark(self.place, &paths)? {
                    0 => {}
                    marked => {
                        state.marked = Some(Instant::now());
                        tell(Watched::Marked(marked));
                    }
                }
            }
            let is_quiet = state.marked.is_some_and(|at| at.elapsed() >= self.quiet);
            if state.is_due || is_quiet {
                self.update(&mut eyes, &mut state, tell)?;
            }
        }
        Ok(())
    }

    /// One watch is enough for a database.
    fn lock(&self) -> Result<File> {
        let path = self.place.folder.join("watch.lock");
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = open.map_err(Error::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(std::fs::TryLockError::WouldBlock) => Err(Error::Watched(self.place.folder.clone())),
            Err(std::fs::TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }

    /// The folders that are walked.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let Some(manifest) = Store::at(&self.place.folder).manifest()? else {
            return Err(Error::Missing(self.place.folder.clone()));
        };
        let remembered = Folders::load(&self.place.folder, manifest.generation).map(|known| known.folders);
        let folders = match remembered {
            Some(folders) => folders,
            None => walk(&self.place.root, &manifest.rules, self.threads)?.folders,
        };
        Ok(folders.folders.iter().map(|folder| full(&self.place.root, &folder.path)).collect())
    }

    /// Takes the events of a short while.
    fn listen(
        &self,
        events: &Receiver<notify::Result<Event>>,
        state: &mut State,
        tell: &mut dyn FnMut(Watched),
    ) -> Result<()> {
        let end = Instant::now() + t::WATCH_EVERY;
        loop {
            match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Ok(event)) => {
                    if event.need_rescan() {
                        tell(Watched::Lost);
                        state.is_due = true;
                    }
                    state.take(event);
                }
                // What went wrong with one event, an update puts right.
                Ok(Err(_)) => state.is_due = true,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        std::fs::read_dir(&self.place.root).map_err(Error::io("watch", &self.place.root)).map(drop)
    }

    fn update(&self, eyes: &mut Eyes, state: &mut State, tell: &mut dyn FnMut(Watched)) -> Result<()> {
        match Database::update_at(self.place, None, self.threads, &mut |_| {}) {
            Ok(updated) => {
                // What came into new folders before they were watched is still to be found.
                let is_due = eyes.open(&self.folders()?)?;
                *state = State { is_due, ..State::default() };
                tell(Watched::Updated(updated));
                Ok(())
            }
            Err(Error::Locked(_)) => {
                tell(Watched::Busy);
                std::thread::sleep(t::WATCH_EVERY);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// What is watched.
struct Eyes {
    watcher: RecommendedWatcher,
    folders: HashSet<PathBuf>,
}

impl Eyes {
    /// Watches `folders`, and those that are not among them no longer. Whether there are new ones: a folder that was renamed is one.
    fn open(&mut self, folders: &[PathBuf]) -> Result<bool> {
        let gone: Vec<PathBuf> = {
            let now: HashSet<&PathBuf> = folders.iter().collect();
            self.folders.iter().filter(|folder| !now.contains(folder)).cloned().collect()
        };
        for folder in gone {
            // The kernel has dropped the watch with the folder.
            let _ = self.watcher.unwatch(&folder);
            self.folders.remove(&folder);
        }
        let mut are_new = false;
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
            are_new = true;
        }
        Ok(are_new)
    }
}

/// What has happened since the last update.
#[derive(Default)]
struct State {
    /// Files that have changed and are not marked yet.
    paths: BTreeSet<PathBuf>,
    /// When the last were marked.
    marked: Option<Instant>,
    /// An update can't wait.
    is_due: bool,
}

impl State {
    fn take(&mut self, event: Event) {
        let tells = match event.kind {
            EventKind::Access(kind) => {
                kind == notify::event::AccessKind::Close(notify::event::AccessMode::Write)
            }
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
                // A folder that came brings files nobody has told of.
                Ok(true) => {
                    self.is_due |=
                        matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)))
                }
                // What was there may have been a folder.
                Err(_) => {
                    self.paths.insert(path);
                    self.is_due |= matches!(
                        event.kind,
                        EventKind::Remove(notify::event::RemoveKind::Folder)
                            | EventKind::Modify(ModifyKind::Name(_))
                    );
                }
                Ok(false) => {
                    let is_rule = path.file_name().is_some_and(Folders::is_rule);
                    self.is_due |= is_rule;
                    self.paths.insert(path);
                }
            }
        }
    }
}

/// The kernel does not let something be watched.
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
        let place = Place::of(root.path());
        let watch = Watch { place: &place, quiet: Duration::ZERO, threads: 1, ends: &|| false };
        let (sender, events) = channel();
        sender.send(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan))).unwrap();
        let (mut state, mut told) = (State::default(), Vec::new());
        watch.listen(&events, &mut state, &mut |watched| told.push(watched)).unwrap();
        assert_eq!((state.is_due, told), (true, vec![Watched::Lost]));
    }

    /// As many folders as before, and one of them was not watched while files came into it.
    #[test]
    fn a_renamed_folder_is_a_new_one() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (root.path().join("old"), root.path().join("new"));
        let (sender, _events) = channel();
        let watcher = RecommendedWatcher::new(sender, notify::Config::default()).unwrap();
        let mut eyes = Eyes { watcher, folders: HashSet::new() };
        std::fs::create_dir(&old).unwrap();
        assert!(eyes.open(std::slice::from_ref(&old)).unwrap());
        assert!(!eyes.open(std::slice::from_ref(&old)).unwrap());
        std::fs::rename(&old, &new).unwrap();
        assert!(eyes.open(&[new]).unwrap());
        assert_eq!(eyes.folders.len(), 1);
    }

    #[test]
    fn files_wait_and_folders_and_rules_do_not() {
        let root = tempfile::tempdir().unwrap();
        let due = |name: &str, kind| {
            let mut state = State::default();
            state.take(Event::new(kind).add_path(root.path().join(name)));
            (state.is_due, state.paths.len())
        };
        std::fs::create_dir(root.path().join("folder")).unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        std::fs::write(root.path().join(".ignore"), "").unwrap();
        let created = EventKind::Create(CreateKind::Any);
        assert_eq!(due("folder", created), (true, 0));
        assert_eq!(due("file", created), (false, 1));
        assert_eq!(due(".ignore", created), (true, 1));
        assert_eq!(due(".faultless/grep/manifest", created), (false, 0));
        assert_eq!(due("file", EventKind::Access(notify::event::AccessKind::Any)), (false, 0));
    }
}
