//! A cache of names from earlier recordings, in a folder of the user's.
//!
//! In: the key of an ELF file and addresses in it, or the running kernel. Out: the cached names. New names
//! are added. There is one file per key, itself a trace file of one module, so it has a version and
//! checksums. A file that is damaged, unreadable or from another version of this program is ignored. Files
//! are written under a temporary name and renamed, so of two concurrent recordings the later one wins. If
//! there are too many, the oldest are removed.
//!
//! It does not look up a name.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::SystemTime;

use faultless_trace::file::{Line, Writer, read};
use faultless_trace::recording::{Footer, Frame, Header, Module, Name};

use super::Symbols;
use crate::facts::TOOL;
use crate::tuning as t;

/// What follows the lines of the kernel's functions.
const FUNCTIONS: &str = concat!("faultless ", env!("CARGO_PKG_VERSION"), " functions\n");

/// Names by offset in a file; empty if the address is known to have none.
pub(crate) type Names = HashMap<u64, Vec<Name>>;

/// The folder.
#[derive(Debug)]
pub(crate) struct NameCache {
    folder: PathBuf,
    /// Something was added.
    grown: AtomicBool,
}

impl NameCache {
    /// Opens `folder`, and makes it if missing. `None`: that failed, or others may write to it.
    pub(crate) fn open(folder: &Path) -> Option<Self> {
        if let Some(parent) = folder.parent() {
            // Others may look into the parent: the interposer lies there too.
            let _ = DirBuilder::new().recursive(true).mode(0o755).create(parent);
        }
        // Kernel addresses are private.
        let _ = DirBuilder::new().mode(0o700).create(folder);
        let metadata = fs::symlink_metadata(folder).ok()?;
        let is_own = metadata.uid() == faultless_os::host::user().0 && metadata.mode() & 0o022 == 0;
        (metadata.is_dir() && is_own)
            .then(|| Self { folder: folder.to_owned(), grown: AtomicBool::new(false) })
    }

    /// The cached names of the file with this key.
    pub(crate) fn names(&self, key: &str) -> Names {
        self.read(key).and_then(|bytes| parse(&bytes, key)).unwrap_or_default()
    }

    /// Caches the names of a file. On failure they are looked up again next time.
    pub(crate) fn keep(&self, key: &str, names: &Names) {
        if let Ok(bytes) = format(key, names) {
            self.write(key, &bytes);
        }
    }

    /// The functions of the running kernel. Those of modules are left out, because modules come and go. The
    /// file is of no use after the next boot, so a checksum would find no damage that lasts.
    pub(crate) fn kernel(&self) -> Option<Symbols> {
        let file = File::open(self.folder.join(kernel_key()?)).ok()?;
        let len_bytes = file.metadata().ok()?.len().checked_sub(FUNCTIONS.len() as u64)?;
        let mut end = [0; FUNCTIONS.len()];
        file.read_exact_at(&mut end, len_bytes).ok()?;
        (end == FUNCTIONS.as_bytes()).then(|| Symbols::of_file(file, len_bytes))
    }

    /// Keeps them.
    pub(crate) fn keep_kernel(&self, symbols: &Symbols) {
        let lines = symbols.lasting();
        if let Some(key) = kernel_key().filter(|_| !lines.is_empty()) {
            self.write(&key, format!("{lines}{FUNCTIONS}").as_bytes());
        }
    }

    pub(crate) fn read(&self, key: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.folder.join(key)).ok()?;
        file.take(t::NAME_CACHE_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= t::NAME_CACHE_FILE_BYTES_MAX).then_some(bytes)
    }

    pub(crate) fn write(&self, key: &str, bytes: &[u8]) {
        if bytes.len() as u64 > t::NAME_CACHE_FILE_BYTES_MAX {
            return;
        }
        // Two threads may cache the same file under two paths.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let aside = self.folder.join(format!("{key}.{}-{number}", std::process::id()));
        self.grown.store(true, Ordering::Relaxed);
        let Ok(mut file) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside) else {
            return;
        };
        if file.write_all(bytes).and_then(|()| fs::rename(&aside, self.folder.join(key))).is_err() {
            // A leftover is removed with the oldest files.
            let _ = fs::remove_file(&aside);
        }
    }

    /// Removes the oldest files if there are too many now.
    pub(crate) fn trim(&self) {
        if !self.grown.swap(false, Ordering::Relaxed) {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        files.sort();
        let (mut count, mut bytes) = (files.len(), files.iter().map(|(_, len, _)| len).sum::<u64>());
        for (_, len, path) in files {
            if count <= t::NAME_CACHE_FILES_MAX && bytes <= t::NAME_CACHE_BYTES_MAX {
                break;
            }
            // Another recording may have removed it.
            let _ = fs::remove_file(path);
            (count, bytes) = (count - 1, bytes - len);
        }
    }
}

/// The kernel draws its addresses anew at each boot.
fn kernel_key() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let boot = boot.trim();
    (!boot.is_empty() && boot.chars().all(is_plain)).then(|| format!("kernel-{boot}"))
}

fn format(key: &str, names: &Names) -> io::Result<Vec<u8>> {
    let header = Header { tool: TOOL.to_owned(), command: vec![key.to_owned()], ..Header::default() };
    let mut writer = Writer::new(Vec::new(), header)?;
    writer.line(&Line::Module(0, Module::default()))?;
    for (number, (&address, names)) in names.iter().enumerate() {
        let frame = Frame { module: Some(0), address, names: names.clone() };
        writer.line(&Line::Frame(number as u32, frame))?;
    }
    writer.line(&Line::Footer(Box::<Footer>::default()))?;
    writer.finish()
}

fn parse(bytes: &[u8], key: &str) -> Option<Names> {
    let found = read(bytes).ok()?;
    let is_ours = found.header.tool == TOOL && found.header.command == [key] && found.missing.is_empty();
    is_ours.then(|| found.stacks.frames.into_iter().map(|frame| (frame.address, frame.names)).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(functions: &[&str]) -> Names {
        let name =
            |function: &&str| Name { function: (*function).to_owned(), line: Some(7), ..Name::default() };
        functions.iter().enumerate().map(|(at, function)| (at as u64, vec![name(function)])).collect()
    }

    fn folder() -> (tempfile::TempDir, NameCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = NameCache::open(&folder.path().join("a/b/names")).unwrap();
        (folder, cache)
    }

    fn files(cache: &NameCache) -> Vec<PathBuf> {
        fs::read_dir(&cache.folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn what_was_kept_is_known_also_that_there_is_no_name() {
        let (_folder, cache) = folder();
        let mut known = names(&["a\tb\n", "std::vec<\u{e4}>"]);
        known.insert(99, Vec::new());
        assert!(cache.names("key").is_empty());
        cache.keep("key", &known);
        assert_eq!(cache.names("key"), known);
        assert!(cache.names("other").is_empty());
        known.extend(names(&["new"]));
        cache.keep("key", &known);
        assert_eq!(cache.names("key"), known);
        assert_eq!(files(&cache).len(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_that_is_damaged_cut_or_of_another_key_is_as_good_as_none() {
        let (_folder, cache) = folder();
        cache.keep("key", &names(&["alpha", "beta"]));
        let path = cache.folder.join("key");
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(5) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x11;
            fs::write(&path, damaged).unwrap();
            let found = cache.names("key");
            assert!(found.is_empty() || found == names(&["alpha", "beta"]), "byte {at}: {found:?}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(cache.names("key").is_empty(), "cut at {at}");
        }
        fs::write(cache.folder.join("other"), &whole).unwrap();
        assert!(cache.names("other").is_empty());
        cache.keep("key", &names(&["alpha"]));
        assert_eq!(cache.names("key"), names(&["alpha"]), "and is replaced");
    }

    #[test]
    fn a_file_of_another_version_is_as_good_as_none() {
        let (_folder, cache) = folder();
        let header =
            Header { tool: "faultless 0.0.1".into(), command: vec!["key".into()], ..Header::default() };
        let mut writer = Writer::new(Vec::new(), header).unwrap();
        writer.line(&Line::Module(0, Module::default())).unwrap();
        writer.line(&Line::Frame(0, Frame { module: Some(0), address: 1, names: Vec::new() })).unwrap();
        writer.line(&Line::Footer(Box::default())).unwrap();
        fs::write(cache.folder.join("key"), writer.finish().unwrap()).unwrap();
        assert!(cache.names("key").is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_made_or_that_others_may_write_to_keeps_nothing() {
        let (folder, cache) = folder();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(NameCache::open(&file).is_none() && NameCache::open(&file.join("names")).is_none());
        fs::set_permissions(&cache.folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(NameCache::open(&cache.folder).is_none());
        fs::remove_dir(&cache.folder).unwrap();
        cache.keep("key", &names(&["alpha"]));
        assert!(cache.names("key").is_empty());
        cache.trim();
    }

    #[test]
    fn the_oldest_files_go() {
        let (_folder, cache) = folder();
        let file = |name: &str, len_bytes: u64, seconds: u64| {
            let file = File::create(cache.folder.join(name)).unwrap();
            file.set_len(len_bytes).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        (0..t::NAME_CACHE_FILES_MAX + 5).for_each(|at| file(&at.to_string(), 0, at as u64));
        cache.trim();
        assert_eq!(files(&cache).len(), t::NAME_CACHE_FILES_MAX + 5, "nothing was added");
        cache.keep("key", &names(&["alpha"]));
        cache.trim();
        assert_eq!(files(&cache).len(), t::NAME_CACHE_FILES_MAX);
        assert!(!cache.folder.join("5").exists() && cache.folder.join("6").exists());
        file("large", t::NAME_CACHE_BYTES_MAX + 1, 1 << 20);
        cache.keep("key", &names(&["alpha", "beta"]));
        cache.trim();
        assert!(!cache.folder.join("large").exists() && !cache.folder.join("6").exists());
        assert_eq!(cache.names("key"), names(&["alpha", "beta"]), "the newest stays");
    }

    #[test]
    fn functions_of_the_kernel_are_kept_and_half_a_table_is_not_taken() {
        let (_folder, cache) = folder();
        assert!(cache.kernel().is_none());
        let symbols = Symbols::parse("1000 T alpha\n2000 t beta\n3000 t gamma [module]\n");
        cache.keep_kernel(&symbols);
        assert_eq!(cache.kernel().unwrap().name(0x1001), "alpha");
        let path = files(&cache).pop().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("gamma"), "{text}");
        fs::write(&path, &text[..text.len() - 1]).unwrap();
        assert!(cache.kernel().is_none());
    }
}
