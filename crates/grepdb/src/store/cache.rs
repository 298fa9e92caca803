//! A database that stays open from one search to the next.
//!
//! In: a location. Out: the open database, opened anew if its files changed.
//!
//! It does not compare the database with the tree.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::error::Result;
use crate::store::database::{Database, Location};

/// One open database. Reopening takes longer than the search for a rare word.
#[derive(Debug, Default)]
pub struct DatabaseCache(Mutex<Option<(Stamp, Arc<Database>)>>);

impl DatabaseCache {
    /// An empty cache.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The database at `location`. Opens it if it is not open, or has changed since. Returns `None` if there is none.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open(&self, location: &Location) -> Result<Option<Arc<Database>>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&location.folder);
        if let Some((then, database)) = &*open
            && *then == stamp
        {
            return Ok(Some(database.clone()));
        }
        let Some(database) = Database::open(location)?.map(Arc::new) else { return Ok(None) };
        *open = Some((stamp, database.clone()));
        Ok(Some(database))
    }
}

/// Distinguishes two states of a database: size and time of the files that an update replaces.
#[derive(Debug, PartialEq, Eq)]
struct Stamp(Vec<(PathBuf, Option<(u64, SystemTime)>)>);

impl Stamp {
    fn of(folder: &Path) -> Self {
        let state = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        let files = ["manifest", "changed"].map(|name| folder.join(name));
        Self(files.into_iter().map(|path| (path.clone(), state(&path))).collect())
    }
}
