//! The folder of recordings: bounded, the oldest go first.
//!
//! In: the folder that `faultless export --format parquet` fills, as `TABLE/date=DAY/service=NAME/host=NAME/RUN.parquet`.
//! Out: the space that it takes. Only files of this host are counted and removed, a whole run at a time.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use faultless_console::{Failure, encoded, reason};

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    host: String,
    bytes_max: u64,
}

/// A folder for one recording; removed at its end.
pub(super) struct Scratch(pub(super) PathBuf);

/// The files of a run.
#[derive(Debug, Default)]
struct Run {
    newest: Option<SystemTime>,
    bytes: u64,
    files: Vec<PathBuf>,
}

impl Folder {
    /// Makes the folder if it is missing, and removes what a killed agent left.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn open(dir: &Path, bytes_max: u64) -> Result<Self, Failure> {
        let host = faultless_prof::host_name();
        let host = if host.is_empty() { "unknown".to_owned() } else { host };
        let folder = Self { dir: dir.to_owned(), host, bytes_max };
        folder.scratch().map(drop).map_err(|error| {
            let (dir, reason) = (dir.display(), reason(&error));
            Failure(format!("{dir}: {reason}; name a folder that can be written: --record DIR"))
        })?;
        Ok(folder)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The machine's name in the tables.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// An empty folder for what is removed again.
    pub(super) fn scratch(&self) -> io::Result<Scratch> {
        let path = self.dir.join(".recording");
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Recordings name what a program does.
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Scratch(path))
    }

    /// Removes the oldest runs until the others have room. Returns what these take, bytes.
    pub(super) fn trim(&self) -> u64 {
        let mut runs = HashMap::new();
        let host = format!("host={}", encoded(&self.host));
        collect(&self.dir, &host, &mut runs);
        let mut bytes: u64 = runs.values().map(|run| run.bytes).sum();
        let mut runs: Vec<Run> = runs.into_values().collect();
        runs.sort_by_key(|run| run.newest);
        for run in runs {
            if bytes <= self.bytes_max {
                break;
            }
            run.remove(&self.dir);
            bytes -= run.bytes;
        }
        bytes
    }
}

/// Adds the files of a host below a folder, by name.
fn collect(folder: &Path, host: &str, runs: &mut HashMap<OsString, Run>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            collect(&path, host, runs);
        } else if folder.ends_with(host) && path.extension().is_some_and(|ending| ending == "parquet") {
            /// Of `st_blocks`, stat(2).
            const BLOCK_BYTES: u64 = 512;
            let run = runs.entry(entry.file_name()).or_default();
            run.newest = run.newest.max(found.modified().ok());
            run.bytes += found.blocks() * BLOCK_BYTES;
            run.files.push(path);
        }
    }
}

impl Run {
    /// Removes its files, that of the table `runs` first: who finds a run there finds all of it. Then the folders that are empty.
    fn remove(&self, dir: &Path) {
        let (first, rest): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|file| file.starts_with(dir.join("runs")));
        for file in first.into_iter().chain(rest) {
            // What can't be removed is tried again the next time.
            let _ = fs::remove_file(file);
            let above = file.ancestors().skip(1).take_while(|folder| *folder != dir);
            above.take_while(|folder| fs::remove_dir(folder).is_ok()).for_each(drop);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A full disk does not prevent it, and the next recording tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

    #[test]
    fn the_oldest_runs_of_this_host_go_whole_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), 64 << 10).unwrap();
        let host = encoded(folder.host()).to_string();
        let file = |table: &str, host: &str, run: u64| {
            let path = dir.path().join(format!("{table}/date=2026-01-0{run}/service=a/host={host}"));
            fs::create_dir_all(&path).unwrap();
            let path = path.join(format!("{run}.parquet"));
            fs::write(&path, vec![0; 16 << 10]).unwrap();
            File::open(&path)
                .unwrap()
                .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(run))
                .unwrap();
            path
        };
        let own: Vec<PathBuf> =
            (1..=4).flat_map(|run| ["runs", "sites"].map(|table| file(table, &host, run))).collect();
        let foreign = file("runs", "elsewhere", 1);
        assert_eq!(folder.trim(), 64 << 10, "four files of 16 KiB");
        let left: Vec<bool> = own.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [false, false, false, false, true, true, true, true]);
        assert!(foreign.exists() && !dir.path().join("sites/date=2026-01-01").exists(), "empty folders go");
        assert!(!dir.path().join(".recording").exists());
    }

    #[test]
    fn a_folder_that_can_not_be_is_named_with_the_flag() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Failure(said) = Folder::open(&file.path().join("below"), 1).unwrap_err();
        assert!(said.contains("below: ") && said.ends_with("--record DIR"), "{said}");
    }
}
