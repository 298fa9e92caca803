//! The change log: files that were reported as changed. Searches read them on disk until the next update.
//!
//! In: paths from `change` and `watch`. Out: the file `changed` beside the manifest, which every search reads.
//!
//! It does not check whether the files have changed.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::path::path_order;
use crate::store::file_lock::FileLock;

const NAME: &str = "changed";

/// The bytes of the log: paths, each with a NUL byte at its end.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog(Vec<u8>);

impl ChangeLog {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            read => {
                let mut list = read.map_err(Error::io("read", &path))?;
                // Another process is still writing the bytes after the last NUL.
                list.truncate(list.iter().rposition(|&byte| byte == 0).map_or(0, |at| at + 1));
                Ok(Self(list))
            }
        }
    }

    /// The tree paths in path order, without duplicates.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        let paths = self.0.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        let mut paths: Vec<_> = paths.map(<[u8]>::to_vec).collect();
        paths.sort_unstable_by(|a, b| path_order(a, b));
        paths.dedup();
        paths
    }

    pub(crate) fn append(folder: &Path, paths: &[Vec<u8>]) -> Result<()> {
        let path = folder.join(NAME);
        let write = || {
            let mut lock = FileLock::wait(OpenOptions::new().create(true).append(true).open(&path)?)?;
            lock.file()
                .write_all(&paths.iter().flat_map(|path| [path, &b"\0"[..]].concat()).collect::<Vec<u8>>())
        };
        write().map_err(Error::io("write", &path))
    }

    /// Removes the entries of `self` from the log in `folder`: an update has read these files. Keeps later entries.
    pub(crate) fn clear(&self, folder: &Path) -> Result<()> {
        let path = folder.join(NAME);
        if self.0.is_empty() {
            return Ok(());
        }
        let clear = || {
            let mut lock = FileLock::wait(File::options().read(true).write(true).open(&path)?)?;
            let file = lock.file();
            let mut list = Vec::new();
            file.read_to_end(&mut list)?;
            let rest = list.get(self.0.len()..).unwrap_or_default();
            // A process killed between these steps leaves some entries twice.
            file.rewind()?;
            file.write_all(rest)?;
            file.set_len(rest.len() as u64)
        };
        clear().map_err(Error::io("write", &path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(folder: &Path) -> Vec<Vec<u8>> {
        ChangeLog::read(folder).unwrap().paths()
    }

    #[test]
    fn what_is_added_while_an_update_runs_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(paths(folder).is_empty());
        ChangeLog::append(folder, &[b"a-b".to_vec(), b"a/c".to_vec()]).unwrap();
        let read = ChangeLog::read(folder).unwrap();
        ChangeLog::append(folder, &[b"x".to_vec(), b"a/c".to_vec()]).unwrap();
        assert_eq!(paths(folder), [b"a/c".to_vec(), b"a-b".to_vec(), b"x".to_vec()]);
        read.clear(folder).unwrap();
        assert_eq!(paths(folder), [b"a/c".to_vec(), b"x".to_vec()]);
        ChangeLog::read(folder).unwrap().clear(folder).unwrap();
        assert!(paths(folder).is_empty());
    }

    #[test]
    fn half_a_path_is_no_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), b"whole\0hal").unwrap();
        assert_eq!(paths(folder.path()), [b"whole".to_vec()]);
    }
}
