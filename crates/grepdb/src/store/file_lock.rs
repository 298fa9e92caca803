//! A lock of a file against other processes, and against other opens in this one.
//!
//! In: a file. Out: a [`FileLock`], until it is dropped.
//!
//! Closing the file would not do: a child that was forked meanwhile has the same open file, and with it the lock, until
//! it executes a program or ends. So the lock is given back explicitly (flock(2)).

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// A file that this process has locked.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Locks the file at `path`, which is created if necessary. `None`: another one holds the lock.
    pub(crate) fn try_at(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks an open file, once no other one holds the lock.
    pub(crate) fn wait(file: File) -> io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // It was locked, so it can be unlocked.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_meanwhile_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = FileLock::try_at(&path).unwrap().unwrap();
        // What a child has: the same open file.
        let of_child = lock.0.try_clone().unwrap();
        assert!(FileLock::try_at(&path).unwrap().is_none());
        drop(lock);
        assert!(FileLock::try_at(&path).unwrap().is_some());
        drop(of_child);
    }
}
