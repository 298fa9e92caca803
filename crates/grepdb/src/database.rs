//! A database: where it is, what it holds, how it comes to be and how it keeps up.
//!
//! In: a tree. Out: a [`Database`] to search.
//!
//! What it does not do: watch.

use std::path::{Path, PathBuf};

use crate::build::{self, Plan, Progress, Written};
use crate::changed::Changed;
use crate::damage;
use crate::error::{Error, Result};
use crate::files::by_path;
use crate::folders::Folders;
use crate::live::Live;
use crate::segment::Segment;
use crate::source::{Rules, Source};
use crate::store::{Manifest, Part, Store};
use crate::update;
use crate::walk::{FOLDER, Walked, below, now_ns, walk};

/// An open database.
#[derive(Debug, Default)]
pub struct Database {
    pub(crate) place: Place,
    pub(crate) manifest: Manifest,
    pub(crate) segments: Vec<Segment>,
    pub(crate) live: Live,
    /// Segments are missing that the manifest names.
    pub(crate) is_cut: bool,
}

/// How far a database is behind its tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Files that are new, other or gone.
    pub changed: u64,
    /// Folders and files that could not be walked.
    pub trouble: Vec<String>,
}

/// Where a database is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its folder.
    pub folder: PathBuf,
    /// The tree that it is of: paths are told below this.
    pub root: PathBuf,
}

/// What a build or update did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// Files there are now.
    pub files: u64,
    /// Files that were read.
    pub read: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Text there is now, bytes.
    pub text_bytes: u64,
    /// Written to the disk, bytes.
    pub written_bytes: u64,
    /// Folders and files that could not be walked.
    pub trouble: Vec<String>,
}

impl Place {
    /// Of the database of the tree at `root`, which lies in it.
    pub fn of(root: &Path) -> Self {
        Self { folder: root.join(FOLDER).join("grep"), root: root.to_path_buf() }
    }
}

impl Database {
    /// Opens the database of the tree at `root`; `None` where there is none.
    ///
    /// # Errors
    /// It is damaged, of another version, or can't be read.
    pub fn open(root: &Path) -> Result<Option<Self>> {
        Self::open_at(&Place::of(root))
    }

    /// Opens the database at `place`; `None` where there is none.
    ///
    /// # Errors
    /// It is damaged, of another version, or can't be read.
    pub fn open_at(place: &Place) -> Result<Option<Self>> {
        Self::open_with(place, None)
    }

    /// Opens it. With `lost` what a search finds out late is looked at now, and segments that can't be read are left out.
    fn open_with(place: &Place, mut lost: Option<&mut dyn FnMut(Error)>) -> Result<Option<Self>> {
        let store = Store::at(&place.folder);
        // A change between the manifest and its segments removes some: then there is a newer manifest.
        let mut before = None;
        loop {
            // What changes after this is read is found by who looks again.
            let changed = Changed::read(&place.folder)?;
            let Some(mut manifest) = store.manifest()? else { return Ok(None) };
            let mut segments = Vec::new();
            let (mut is_all, mut is_cut) = (true, false);
            let parts = std::mem::take(&mut manifest.segments);
            for part in parts {
                let opened = store.open(&part).and_then(|segment| {
                    if lost.is_some() {
                        segment.knows(0..segment.chunks())?;
                    }
                    Ok(segment)
                });
                match opened {
                    Ok(segment) => {
                        segments.push(segment);
                        manifest.segments.push(part);
                    }
                    Err(error) if !error.is_damage() => return Err(error),
                    Err(_) if before != Some(manifest.generation) => {
                        is_all = false;
                        break;
                    }
                    Err(error) => {
                        is_cut = true;
                        match &mut lost {
                            Some(lost) => lost(error),
                            None => return Err(error),
                        }
                    }
                }
            }
            if is_all {
                let live = Live::marked(changed.paths());
                // The folders of a project may be others by now; a tree may have been moved.
                let is_project = !manifest.rules.groups.is_empty();
                let root = if is_project { &manifest.root } else { &place.root }.clone();
                let place = Place { root, folder: place.folder.clone() };
                return Ok(Some(Self { place, manifest, segments, live, is_cut }));
            }
            before = Some(manifest.generation);
        }
    }

    /// Reads all of the database at `place`: what is damaged and still of use, noted for the next update.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn check(place: &Place) -> Result<Vec<Error>> {
        let mut damaged = Vec::new();
        let database = Self::open_with(place, Some(&mut |error| damaged.push(error)))?;
        if let Some(database) = &database {
            for (at, segment) in database.segments.iter().enumerate() {
                segment.check(|number| !database.is_dead(at, number), &mut |error| damaged.push(error))?;
            }
        }
        damage::note(&place.folder, &damaged);
        Ok(damaged)
    }

    /// Looks for a database from `folder` upwards: the root of its tree.
    pub fn find(folder: &Path) -> Option<PathBuf> {
        let has = |root: &&Path| Place::of(root).folder.join("manifest").exists();
        folder.ancestors().find(has).map(Path::to_path_buf)
    }

    /// Builds the database of the tree at `root` from nothing, and replaces the one there is.
    ///
    /// # Errors
    /// The tree can't be walked, or the database not be written; then the old one holds.
    pub fn build(
        root: &Path,
        rules: &Rules,
        threads: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Updated> {
        Self::build_at(&Place::of(root), rules, threads, progress)
    }

    /// Builds the database at `place` from nothing, and replaces the one there is.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_at(
        place: &Place,
        rules: &Rules,
        threads: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Updated> {
        std::fs::read_dir(&place.root).map_err(Error::io("walk", &place.root))?;
        let store = Store::at(&place.folder);
        let _lock = store.lock()?;
        if *place == Place::of(&place.root) {
            ignore_us(&place.root)?;
        }
        let changed = Changed::read(&place.folder)?;
        let old = store.manifest().ok().flatten().unwrap_or_default();
        let walked_ns = now_ns();
        let walked = walk(&place.root, rules, threads)?;
        let next = old.next.max(store.next());
        let plan = Plan {
            root: &place.root,
            files: &walked.files,
            threads,
            number: next,
            place: &|number| store.segment(number),
        };
        let written = store.undone(plan.number, build::build(&plan, progress))?;
        let manifest = Manifest {
            root: place.root.clone(),
            rules: rules.clone(),
            generation: old.generation + 1,
            next: next + written.len() as u64,
            walked_ns,
            segments: written.iter().map(part).collect(),
        };
        commit(&store, &manifest, &walked)?;
        changed.clear(&place.folder)?;
        damage::forget(&place.folder);
        let read = walked.files.len() as u64;
        Ok(Updated { read, trouble: walked.trouble, ..sum(&manifest, &written, 0) })
    }

    /// Reads what has changed in the tree since.
    ///
    /// # Errors
    /// As [`build`](Self::build); or there is none.
    pub fn update(root: &Path, threads: usize, progress: &mut dyn FnMut(Progress)) -> Result<Updated> {
        Self::update_at(&Place::of(root), None, threads, progress)
    }

    /// Reads what has changed since in the tree of the database at `place`, which has other `rules` from now on where some are given.
    ///
    /// # Errors
    /// As [`build`](Self::build); or there is none.
    pub fn update_at(
        place: &Place,
        rules: Option<&Rules>,
        threads: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Updated> {
        let store = Store::at(&place.folder);
        if store.manifest()?.is_none() {
            return Err(Error::Missing(place.folder.clone()));
        }
        let _lock = store.lock()?;
        let changed = Changed::read(&place.folder)?;
        // The files of a segment that is lost are read as if they were new.
        let Some(mut database) = Self::open_with(place, Some(&mut |_| {}))? else {
            return Err(Error::Missing(place.folder.clone()));
        };
        let walked_ns = now_ns();
        let other_rules = rules.filter(|rules| **rules != database.manifest.rules);
        if let Some(rules) = other_rules {
            database.manifest.rules = rules.clone();
            Folders::forget(&place.folder).map_err(Error::io("change", &place.folder))?;
        }
        let noted = damage::noted(&place.folder);
        let sound = update::sound(&database, &noted)?;
        let walked = update::look(&database, &sound, threads)?;
        let change = update::compare(&database, sound, &walked.files, &changed.paths(), &noted);
        let plan = Plan {
            root: &place.root,
            files: &change.read,
            threads,
            number: database.manifest.next,
            place: &|number| store.segment(number),
        };
        let written = store.undone(plan.number, build::build(&plan, progress))?;
        let is_same = other_rules.is_none()
            && !database.is_cut
            && written.is_empty()
            && change.kept == database.manifest.segments;
        let mut manifest = Manifest { walked_ns, segments: change.kept, ..database.manifest };
        if is_same {
            remember(&store, &manifest, &walked);
        } else {
            manifest.generation += 1;
            manifest.next += written.len() as u64;
            manifest.segments.extend(written.iter().map(part));
            commit(&store, &manifest, &walked)?;
        }
        changed.clear(&place.folder)?;
        damage::forget(&place.folder);
        let read = change.read.len() as u64;
        Ok(Updated { read, trouble: walked.trouble, ..sum(&manifest, &written, change.removed) })
    }

    /// Searches see the tree as it is now: what has changed since the last update is read from it.
    ///
    /// # Errors
    /// The tree can't be walked, or the database is damaged.
    pub fn refresh(&mut self, threads: usize) -> Result<Refreshed> {
        let changed = Changed::read(&self.place.folder)?;
        let sound = self.sound()?;
        let walked = update::look(self, &sound, threads)?;
        let paths = update::differences(&self.place.root, &sound.known, &walked.files, &changed.paths());
        let is_there =
            |path: &Vec<u8>| walked.files.binary_search_by(|found| by_path(&found.path, path)).is_ok();
        self.live = Live::fresh(paths, is_there);
        Ok(Refreshed { changed: self.live.len() as u64, trouble: walked.trouble })
    }

    /// Says that `files`, absolute, have changed: searches read them from disk until the next update. How many belong to the database at
    /// `place`; the others are left alone.
    ///
    /// # Errors
    /// There is no database; the list can't be written.
    pub fn mark(place: &Place, files: &[PathBuf]) -> Result<usize> {
        let Some(manifest) = Store::at(&place.folder).manifest()? else {
            return Err(Error::Missing(place.folder.clone()));
        };
        let sources = Source::all(&place.root, &manifest.rules)?;
        let mut judges: Vec<_> = sources.iter().map(Source::judge).collect();
        let named = |file: &Path| {
            manifest.rules.groups.iter().any(|group| group.files.iter().any(|named| named == file))
        };
        let ours = files
            .iter()
            .filter(|file| named(file) || judges.iter_mut().any(|judge| judge.accepts(file, false)));
        let paths: Vec<_> = ours.map(|file| below(&place.root, file)).collect();
        if !paths.is_empty() {
            Changed::add(&place.folder, &paths)?;
        }
        Ok(paths.len())
    }

    /// What of it is as it was written.
    pub(crate) fn sound(&self) -> Result<update::Sound> {
        update::sound(self, &damage::noted(&self.place.folder))
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What the paths of the database at `place` are below; `None` where there is none.
    ///
    /// # Errors
    /// As [`rules_at`](Self::rules_at).
    pub fn root_at(place: &Place) -> Result<Option<PathBuf>> {
        Ok(Store::at(&place.folder).manifest()?.map(|manifest| manifest.root))
    }

    /// Which files belong to the database at `place`; `None` where there is none.
    ///
    /// # Errors
    /// It can't be read, or is damaged.
    pub fn rules_at(place: &Place) -> Result<Option<Rules>> {
        Ok(Store::at(&place.folder).manifest()?.map(|manifest| manifest.rules))
    }

    /// Which files belong to it.
    pub fn rules(&self) -> &Rules {
        &self.manifest.rules
    }

    /// Whether file `number` of a segment is out of date.
    pub(crate) fn is_dead(&self, segment: usize, number: u32) -> bool {
        self.manifest.segments[segment].dead.binary_search(&number).is_ok()
    }
}

/// What was walked is remembered only with the manifest that it led to.
fn commit(store: &Store, manifest: &Manifest, walked: &Walked) -> Result<()> {
    Folders::forget(store.folder()).map_err(Error::io("change", store.folder()))?;
    store.commit(manifest)?;
    remember(store, manifest, walked);
    Ok(())
}

/// Where something could not be seen, everything is walked again next time.
fn remember(store: &Store, manifest: &Manifest, walked: &Walked) {
    if walked.trouble.is_empty() {
        walked.folders.save(store.folder(), manifest.generation, manifest.walked_ns);
    }
}

fn part(written: &Written) -> Part {
    let Written { number, files, text_bytes, .. } = *written;
    Part { number, files, text_bytes, dead: Vec::new() }
}

fn sum(manifest: &Manifest, written: &[Written], removed: u64) -> Updated {
    let live = |part: &Part| u64::from(part.files) - part.dead.len() as u64;
    Updated {
        files: manifest.segments.iter().map(live).sum(),
        removed,
        text_bytes: manifest.segments.iter().map(|part| part.text_bytes).sum(),
        written_bytes: written.iter().map(|written| written.file_bytes).sum(),
        ..Updated::default()
    }
}

/// Version control is not to see the folder.
fn ignore_us(root: &Path) -> Result<()> {
    let path = root.join(FOLDER).join(".gitignore");
    std::fs::write(&path, "*\n").map_err(Error::io("write", &path))
}
