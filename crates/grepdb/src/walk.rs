//! A tree -> its files, as ripgrep would walk it.
//!
//! In: a root and [`Rules`]. Out: files with their sizes and times, in the order of the database; folders with theirs; and what could
//! not be walked.
//!
//! What it does not do: open a file.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use ignore::WalkState;

use crate::error::{Error, Result};
use crate::files::by_path;
use crate::folders::Folders;
use crate::source::{Rules, Source};

/// Name of the folder with the database, below the root.
pub const FOLDER: &str = ".faultless";
/// A file may have been written twice within this, ns, and have the same time: kernels tick every 1 to 10 ms.
const RACY_NS: i128 = 20_000_000;

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Below the root.
    pub(crate) path: Vec<u8>,
    pub(crate) size_bytes: u64,
    /// 0 where it may be written again within the same tick.
    pub(crate) mtime_ns: u64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// In the order of the database.
    pub(crate) files: Vec<Found>,
    /// Where it has been.
    pub(crate) folders: Folders,
    /// What could not be read, and why.
    pub(crate) trouble: Vec<String>,
}

/// Walks the tree below `root`.
///
/// # Errors
/// A glob or an expression is none; there is no such tree.
pub(crate) fn walk(root: &Path, rules: &Rules, threads: usize) -> Result<Walked> {
    let sources = Source::all(root, rules)?;
    let begin_ns = now_ns();
    let mut walked = Walked { folders: Folders::outside(rules, &sources, begin_ns), ..Walked::default() };
    for source in &sources {
        std::fs::read_dir(&source.root).map_err(Error::io("walk", &source.root))?;
    }
    let all = Mutex::new(&mut walked);
    for source in &sources {
        source.walker(threads).run(|| {
            let mut part = Part { root, rules, begin_ns, all: &all, walked: Walked::default() };
            Box::new(move |entry| {
                part.see(entry);
                WalkState::Continue
            })
        });
    }
    for file in rules.groups.iter().flat_map(|group| &group.files) {
        match std::fs::symlink_metadata(file) {
            Ok(metadata) if !metadata.is_file() => {
                walked.trouble.push(format!("{}: not a file", file.display()))
            }
            Ok(metadata) => walked.files.push(Found::of(below(root, file), &metadata)),
            Err(error) => walked.trouble.push(format!("{}: {error}", file.display())),
        }
    }
    walked.files.sort_unstable_by(|a, b| by_path(&a.path, &b.path));
    walked.files.dedup_by(|a, b| a.path == b.path);
    walked.trouble.sort_unstable();
    walked.folders.sort();
    Ok(walked)
}

/// What one thread found; joins the rest with its end.
struct Part<'a, 'w> {
    root: &'a Path,
    rules: &'a Rules,
    begin_ns: u64,
    all: &'a Mutex<&'w mut Walked>,
    walked: Walked,
}

impl Part<'_, '_> {
    fn see(&mut self, entry: std::result::Result<ignore::DirEntry, ignore::Error>) {
        let seen = entry.and_then(|entry| match entry.file_type() {
            Some(kind) if kind.is_file() => {
                let found = Found::of(below(self.root, entry.path()), &entry.metadata()?);
                self.walked.files.push(found);
                Ok(())
            }
            // The root may be a link.
            Some(kind) if kind.is_dir() || entry.depth() == 0 => {
                let metadata = std::fs::metadata(entry.path())?;
                let path = below(self.root, entry.path());
                self.walked.folders.note(self.root, path, &metadata, self.rules, self.begin_ns);
                Ok(())
            }
            _ => Ok(()),
        });
        if let Err(error) = seen {
            self.walked.trouble.push(error.to_string());
        }
    }
}

impl Drop for Part<'_, '_> {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.files.append(&mut self.walked.files);
        all.trouble.append(&mut self.walked.trouble);
        all.folders.append(&mut self.walked.folders);
    }
}

impl Found {
    /// The file at `path` below the root.
    pub(crate) fn of(path: Vec<u8>, metadata: &std::fs::Metadata) -> Self {
        Self { path, size_bytes: metadata.len(), mtime_ns: settled_mtime_ns(metadata, now_ns()) }
    }
}

/// `path` without `root` before it.
pub(crate) fn below(root: &Path, path: &Path) -> Vec<u8> {
    path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec()
}

/// The time of modification, ns since 1970; 0 where it is so fresh at `now_ns` that the next change may have the same.
pub(crate) fn settled_mtime_ns(metadata: &std::fs::Metadata, now_ns: u64) -> u64 {
    settled(metadata.mtime(), metadata.mtime_nsec(), now_ns)
}

/// The same with the time that no program can set, by which a folder tells that its names have changed.
pub(crate) fn settled_ctime_ns(metadata: &std::fs::Metadata, now_ns: u64) -> u64 {
    settled(metadata.ctime(), metadata.ctime_nsec(), now_ns)
}

fn settled(seconds: i64, nanoseconds: i64, now_ns: u64) -> u64 {
    let exact_ns = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    if exact_ns + RACY_NS > now_ns.into() { 0 } else { number(seconds, nanoseconds) }
}

/// The time of modification, ns since 1970, never 0.
pub(crate) fn mtime_ns(metadata: &std::fs::Metadata) -> u64 {
    number(metadata.mtime(), metadata.mtime_nsec())
}

/// A time as ns since 1970. Times before that wrap around: another time is another number, and none is 0.
fn number(seconds: i64, nanoseconds: i64) -> u64 {
    (seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds) as u64).max(1)
}

/// Now, ns since 1970.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// The file at `path` below `root`.
pub(crate) fn full(root: &Path, path: &[u8]) -> PathBuf {
    root.join(std::ffi::OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        root
    }

    fn paths(root: &Path, rules: &Rules) -> Vec<String> {
        let walked = walk(root, rules, 2).unwrap();
        assert!(walked.trouble.is_empty());
        walked.files.into_iter().map(|found| String::from_utf8(found.path).unwrap()).collect()
    }

    #[test]
    fn ignored_and_hidden_files_are_left_out_unless_asked_for() {
        let root = tree(&[
            ".git/HEAD",
            "a/x.c",
            "a/x.o",
            "a-b",
            ".hidden",
            "b/y.c",
            "b/z.o",
            ".faultless/grep/manifest",
        ]);
        std::fs::write(root.path().join(".gitignore"), "*.o\n").unwrap();
        assert_eq!(paths(root.path(), &Rules::default()), ["a/x.c", "a-b", "b/y.c"]);
        let rules = Rules { hidden: true, ..Rules::default() };
        assert_eq!(
            paths(root.path(), &rules),
            [".git/HEAD", ".gitignore", ".hidden", "a/x.c", "a-b", "b/y.c"]
        );
        let rules = Rules { no_ignore: true, ..Rules::default() };
        assert_eq!(paths(root.path(), &rules), ["a/x.c", "a/x.o", "a-b", "b/y.c", "b/z.o"]);
        let rules = Rules { globs: vec!["*.c".into(), "!b/*".into()], ..Rules::default() };
        assert_eq!(paths(root.path(), &rules), ["a/x.c"]);
        let rules = Rules { globs: vec!["[".into()], ..Rules::default() };
        assert!(walk(root.path(), &rules, 1).unwrap_err().to_string().starts_with("glob [:"));
    }

    #[test]
    fn any_time_is_a_number_of_its_own() {
        use std::time::Duration;

        let root = tree(&["x"]);
        let file = std::fs::File::options().write(true).open(root.path().join("x")).unwrap();
        let day = Duration::from_secs(86_400);
        let times = [UNIX_EPOCH, UNIX_EPOCH + day, UNIX_EPOCH - day, UNIX_EPOCH - 9_000 * day];
        let mut numbers = times.map(|time| {
            file.set_modified(time).unwrap();
            settled_mtime_ns(&file.metadata().unwrap(), now_ns())
        });
        numbers.sort_unstable();
        assert!(numbers[0] != 0 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        for later in [0, 1, 1_000_000] {
            file.set_modified(SystemTime::now() + later * day).unwrap();
            assert_eq!(settled_mtime_ns(&file.metadata().unwrap(), now_ns()), 0, "{later} days later");
        }
    }

    #[test]
    fn links_are_not_followed_and_fresh_files_have_no_time() {
        let root = tree(&["a/x"]);
        // However long this takes.
        let file = std::fs::File::options().write(true).open(root.path().join("a/x")).unwrap();
        file.set_modified(SystemTime::now() + std::time::Duration::from_secs(1_000)).unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).unwrap();
        let walked = walk(root.path(), &Rules::default(), 1).unwrap();
        assert_eq!(walked.files, [Found { path: b"a/x".to_vec(), size_bytes: 3, mtime_ns: 0 }]);
    }
}
