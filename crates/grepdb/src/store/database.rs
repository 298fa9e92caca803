//! An open database: manifest, segments and overlay.
//!
//! In: a [`Location`]. Out: a [`Database`].
//!
//! It does not change anything on disk.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::path::FOLDER;
use crate::store::change_log::ChangeLog;
use crate::store::manifest::{DatabaseFolder, Manifest};
use crate::store::overlay::Overlay;
use crate::store::segment::Segment;
use crate::tree::rules::Rules;

/// An open database.
#[derive(Debug, Default)]
pub struct Database {
    pub(crate) location: Location,
    pub(crate) manifest: Manifest,
    /// As in the manifest.
    pub(crate) segments: Vec<Segment>,
    pub(crate) overlay: Overlay,
    /// Unreadable segments were left out of `manifest` and `segments`.
    pub(crate) lacks_segments: bool,
}

/// Where a database and its tree are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The folder of the database.
    pub folder: PathBuf,
    /// The root of the tree. All paths in the database are relative to it.
    pub root: PathBuf,
}

impl Location {
    /// The location of a database that lies inside its own tree, below `root`.
    pub fn in_tree(root: &Path) -> Self {
        Self { folder: root.join(FOLDER).join("grep"), root: root.to_path_buf() }
    }

    /// The nearest database that lies inside its own tree, from `folder` upwards.
    ///
    /// # Errors
    /// There is none.
    pub fn find(folder: &Path) -> Result<Self> {
        let root = Database::find_root(folder).ok_or_else(|| Error::Missing(folder.to_path_buf()))?;
        Ok(Self::in_tree(&root))
    }

    /// The manifest of the database. Fails if there is none.
    pub(crate) fn manifest(&self) -> Result<Manifest> {
        let manifest = DatabaseFolder::at(&self.folder).manifest()?;
        manifest.ok_or_else(|| Error::Missing(self.root.clone()))
    }
}

impl Database {
    /// Opens the database at `location`. Returns `None` if there is none.
    ///
    /// # Errors
    /// The database is damaged, has another format version, or can't be read.
    pub fn open(location: &Location) -> Result<Option<Self>> {
        Self::open_with(location, None)
    }

    /// Opens the database at `location`. With `damaged` it checks the chunk tables as well, leaves unreadable
    /// segments out, and reports them there.
    pub(crate) fn open_with(
        location: &Location,
        mut damaged: Option<&mut dyn FnMut(Error)>,
    ) -> Result<Option<Self>> {
        let folder = DatabaseFolder::at(&location.folder);
        // An update may remove a segment between our reading of the manifest and of the segment. Then there is a
        // newer manifest.
        let mut previous_generation = None;
        'manifest: loop {
            // Changes that are logged later than this are seen by the next open.
            let changed = ChangeLog::read(&location.folder)?;
            let Some(mut manifest) = folder.manifest()? else { return Ok(None) };
            let mut segments = Vec::new();
            let mut lacks_segments = false;
            for meta in std::mem::take(&mut manifest.segments) {
                let opened = folder.open(&meta).and_then(|segment| {
                    if damaged.is_some() {
                        (0..segment.chunks()).try_for_each(|at| segment.chunk_meta(at).map(drop))?;
                    }
                    Ok(segment)
                });
                match opened {
                    Ok(segment) => {
                        segments.push(segment);
                        manifest.segments.push(meta);
                    }
                    Err(error) if !error.is_damage() => return Err(error),
                    Err(_) if previous_generation != Some(manifest.generation) => {
                        previous_generation = Some(manifest.generation);
                        continue 'manifest;
                    }
                    Err(error) => {
                        lacks_segments = true;
                        match &mut damaged {
                            Some(damaged) => damaged(error),
                            None => return Err(error),
                        }
                    }
                }
            }
            // The root of a project may differ from the manifest's by now. A tree with its own database may have been
            // moved.
            let is_project = !manifest.rules.groups.is_empty();
            let root = if is_project { (&manifest.root).into() } else { location.root.clone() };
            let location = Location { root, folder: location.folder.clone() };
            let overlay = Overlay::marked(changed.paths());
            return Ok(Some(Self { location, manifest, segments, overlay, lacks_segments }));
        }
    }

    /// Reads the whole database at `location`. Returns every damaged part that is still in use, and logs it for the
    /// next update.
    ///
    /// # Errors
    /// The manifest is damaged, or a file can't be read.
    #[cfg(any(fuzzing, test))]
    pub fn check(location: &Location) -> Result<Vec<Error>> {
        let mut damaged = Vec::new();
        let database = Self::open_with(location, Some(&mut |error| damaged.push(error)))?;
        if let Some(database) = &database {
            for (at, segment) in database.segments.iter().enumerate() {
                segment
                    .check(|number| !database.has_tombstone(at, number), &mut |error| damaged.push(error))?;
            }
        }
        crate::store::damage_log::DamageLog::append(&location.folder, &damaged);
        Ok(damaged)
    }

    /// The nearest tree with a database, from `folder` upwards.
    pub fn find_root(folder: &Path) -> Option<PathBuf> {
        let has_database = |root: &&Path| Location::in_tree(root).folder.join("manifest").exists();
        folder.ancestors().find(has_database).map(Path::to_path_buf)
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The rules that say which files belong to it.
    pub fn rules(&self) -> &Rules {
        &self.manifest.rules
    }

    /// The root of the tree when the database at `location` was built, and its rules. `None` if there is no database.
    ///
    /// # Errors
    /// The manifest is damaged or can't be read.
    pub fn root_and_rules(location: &Location) -> Result<Option<(PathBuf, Rules)>> {
        let manifest = DatabaseFolder::at(&location.folder).manifest()?;
        Ok(manifest.map(|manifest| (manifest.root.into(), manifest.rules)))
    }

    /// Whether file `number` of segment `segment` is out of date.
    pub(crate) fn has_tombstone(&self, segment: usize, number: u32) -> bool {
        self.manifest.segments[segment].tombstones.binary_search(&number).is_ok()
    }
}
