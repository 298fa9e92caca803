//! The interposer, and the small-object allocator behind it, as files that `LD_PRELOAD` can name.
//!
//! In: the bytes inside this binary. Out: a path. The name of a file contains a hash of its content. The file
//! is written aside and renamed.
//!
//! A path is used only if nobody else can write to the file or its directory, and only if the file has not
//! changed since its installation. Before every use its length and modification time are compared; its 50 to
//! 150 KiB are not read again.
//!
//! Everybody may read the file, because a program under `faultless run` may become another user. For root it
//! therefore lies in a system directory that every user can reach, not in a home directory.

use std::ffi::CString;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use faultless_console::Failure;
use faultless_os::host;

/// A library inside this binary.
pub(crate) struct Library {
    pub(super) name: &'static str,
    bytes: &'static [u8],
}

/// The interposer.
pub(super) const PRELOAD: Library = Library {
    name: concat!("preload-", env!("FAULTLESS_PRELOAD_HASH"), ".so"),
    bytes: include_bytes!(env!("FAULTLESS_PRELOAD")),
};
/// The small-object allocator.
pub(super) const SMALL: Library = Library {
    name: concat!("small-", env!("FAULTLESS_SMALL_HASH"), ".so"),
    bytes: include_bytes!(env!("FAULTLESS_SMALL")),
};
/// The modification time of an installed file, in seconds since the epoch. A write to the file changes it.
const STAMP_S: i64 = 1;

/// Installs a library unless it is installed already.
pub(super) fn install(library: &Library) -> Result<PathBuf, Failure> {
    let user = host::user().0;
    let mut reasons = Vec::new();
    for directory in directories(user) {
        match install_in(library, &directory, user) {
            Ok(path) => return Ok(path),
            Err(error) => reasons.push(format!("{}: {error}", directory.display())),
        }
    }
    let reasons = reasons.join("; ");
    Err(Failure(format!(
        "no place for the interposer ({reasons}); set XDG_CACHE_HOME to a directory of yours"
    )))
}

/// Candidate directories, best first.
fn directories(user: u32) -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let asked = absolute("XDG_CACHE_HOME");
    let system = (user == 0).then(|| PathBuf::from("/var/cache"));
    let home = absolute("HOME").map(|home| home.join(".cache"));
    let temporary = std::env::temp_dir().join(format!("faultless-{user}"));
    let caches = [asked, system, home].into_iter().flatten();
    caches.map(|cache| cache.join("faultless")).chain([temporary]).collect()
}

fn install_in(library: &Library, directory: &Path, user: u32) -> io::Result<PathBuf> {
    if directory.as_os_str().as_bytes().iter().any(|byte| b" :\n\t".contains(byte)) {
        return Err(io::Error::other("LD_PRELOAD cannot name a path with a space or a colon"));
    }
    let path = directory.join(library.name);
    if !is_usable(directory, user)? {
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o755).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        is_usable(directory, user)?;
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    if !is_installed(library, &path, user) {
        write(library, directory, &path)?;
        if !is_installed(library, &path, user) {
            return Err(io::Error::other("the file that was written is not the one that is found"));
        }
    }
    Ok(path)
}

/// Whether the directory exists and everybody may read it.
///
/// # Errors
/// Somebody else could write to the directory, or no library can be loaded from it.
fn is_usable(directory: &Path, user: u32) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    if !metadata.is_dir() || !is_private(&metadata, user) {
        return Err(io::Error::other("not this user's alone"));
    }
    let name = CString::new(directory.as_os_str().as_bytes())?;
    if faultless_os::map::is_noexec(&name) {
        return Err(io::Error::other("mounted noexec: no library can be loaded from it"));
    }
    Ok(metadata.mode() & 0o055 == 0o055)
}

fn write(library: &Library, directory: &Path, path: &Path) -> io::Result<()> {
    let aside = directory.join(format!("{}.{}.tmp", library.name, std::process::id()));
    let _ = fs::remove_file(&aside);
    let put = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        file.write_all(library.bytes)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(STAMP_S as u64))?;
        // Otherwise a power failure could lose the content but keep the length and the time.
        file.sync_all()?;
        fs::rename(&aside, path)
    };
    put().inspect_err(|_| {
        let _ = fs::remove_file(&aside);
    })
}

/// Whether the file exists, only we can write to it, and it has not changed.
fn is_installed(library: &Library, path: &Path, user: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| {
        metadata.is_file()
            && is_private(&metadata, user)
            && metadata.mode() & 0o044 == 0o044
            && metadata.len() == library.bytes.len() as u64
            && (metadata.mtime(), metadata.mtime_nsec()) == (STAMP_S, 0)
    })
}

fn is_private(metadata: &fs::Metadata, user: u32) -> bool {
    metadata.uid() == user && metadata.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("faultless-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    fn install(directory: &Path) -> io::Result<PathBuf> {
        install_in(&PRELOAD, directory, host::user().0)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_tampered_file_is_replaced_before_use() {
        let directory = directory("tampered");
        let path = install(&directory).unwrap();
        for other in [vec![7; PRELOAD.bytes.len()], b"short".to_vec()] {
            fs::write(&path, other).unwrap();
            assert_eq!(install(&directory).unwrap(), path);
            assert_eq!(fs::read(&path).unwrap(), PRELOAD.bytes);
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn every_user_may_read_it_also_where_an_older_version_had_closed_the_directory() {
        let directory = directory("closed");
        DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let path = install(&directory).unwrap();
        assert_eq!((mode(&directory), mode(&path)), (0o755, 0o644));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let directory = directory("open");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        assert!(install(&directory).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let directory = directory("foreign");
        fs::create_dir(&directory).unwrap();
        assert!(install_in(&PRELOAD, &directory, host::user().0 + 1).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_path_that_ld_preload_would_split_is_refused() {
        assert!(install(&directory("with space").join("a b")).is_err());
    }
}
