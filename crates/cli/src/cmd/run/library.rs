//! The interposer as a file that `LD_PRELOAD` can name.
//!
//! In: the bytes inside this binary. Out: a path. The file is addressed by its content, written aside and renamed, and
//! read back before every use: a file or directory that somebody else could write is never named.

use faultless_os::host::user;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::cmd::Failure;

static LIBRARY: &[u8] = include_bytes!(env!("FAULTLESS_PRELOAD"));

/// Puts the interposer into place unless it is there.
pub(super) fn install() -> Result<PathBuf, Failure> {
    let mut reasons = Vec::new();
    for directory in directories() {
        match install_in(&directory) {
            Ok(path) => return Ok(path),
            Err(error) => reasons.push(format!("{}: {error}", directory.display())),
        }
    }
    let reasons = reasons.join("; ");
    Err(Failure(format!(
        "no place for the interposer ({reasons}); set XDG_CACHE_HOME to a directory of yours"
    )))
}

/// Candidates, best first.
fn directories() -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let temporary = std::env::temp_dir().join(format!("faultless-{}", user().0));
    cache.map(|cache| cache.join("faultless")).into_iter().chain([temporary]).collect()
}

fn install_in(directory: &Path) -> io::Result<PathBuf> {
    if directory.as_os_str().as_bytes().iter().any(|byte| b" :\n\t".contains(byte)) {
        return Err(io::Error::other("LD_PRELOAD cannot name a path with a space or a colon"));
    }
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check_private(&fs::symlink_metadata(directory)?, fs::Metadata::is_dir)?;
    let name = CString::new(directory.as_os_str().as_bytes())?;
    if faultless_os::map::is_noexec(&name) {
        return Err(io::Error::other("mounted noexec: no library can be loaded from it"));
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(LIBRARY);
    let path = directory.join(format!("preload-{:016x}.so", hasher.finish()));
    if !is_installed(&path) {
        write(directory, &path)?;
        if !is_installed(&path) {
            return Err(io::Error::other("the file that was written is not the one that is read"));
        }
    }
    Ok(path)
}

fn write(directory: &Path, path: &Path) -> io::Result<()> {
    let aside = directory.join(format!("preload-{}.tmp", std::process::id()));
    let _ = fs::remove_file(&aside);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)
        .and_then(|mut file| file.write_all(LIBRARY))
        .and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

/// Whether the file is there, ours alone to write, and the library byte for byte.
fn is_installed(path: &Path) -> bool {
    let read = || -> io::Result<Vec<u8>> {
        check_private(&fs::symlink_metadata(path)?, fs::Metadata::is_file)?;
        let mut bytes = Vec::with_capacity(LIBRARY.len() + 1);
        File::open(path)?.take(LIBRARY.len() as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().is_ok_and(|bytes| bytes == LIBRARY)
}

fn check_private(metadata: &fs::Metadata, is_kind: fn(&fs::Metadata) -> bool) -> io::Result<()> {
    let ours = is_kind(metadata) && metadata.uid() == user().0 && metadata.mode() & 0o022 == 0;
    if ours { Ok(()) } else { Err(io::Error::other("not this user's alone")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("faultless-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    #[test]
    fn a_tampered_file_is_replaced_before_use() {
        let directory = directory("tampered");
        let path = install_in(&directory).unwrap();
        fs::write(&path, b"something else").unwrap();
        assert_eq!(install_in(&directory).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let directory = directory("open");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(install_in(&directory).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_path_that_ld_preload_would_split_is_refused() {
        assert!(install_in(&directory("with space").join("a b")).is_err());
    }
}
