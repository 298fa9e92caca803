//! Other allocators that this machine's loader finds.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// An allocator, and the names under which its library is installed, newest first.
const LIBRARIES: [(&str, &[&str]); 3] = [
    ("jemalloc", &["libjemalloc.so.2"]),
    ("mimalloc", &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so"]),
    ("tcmalloc", &["libtcmalloc_minimal.so.4"]),
];

/// Each allocator that is installed: its name, and the library as LD_PRELOAD takes it.
pub(super) fn installed() -> Vec<(&'static str, &'static str)> {
    let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let is_found = |library: &&&str| {
        let in_folder = || folders.iter().any(|folder| is_native(&folder.join(library)));
        cached(&cache, library).iter().any(|path| is_native(path)) || in_folder()
    };
    let find = |(name, libraries): (&'static str, &'static [&'static str])| {
        libraries.iter().find(is_found).map(|library| (name, *library))
    };
    LIBRARIES.into_iter().filter_map(find).collect()
}

/// The paths of a library in the loader's cache, whose strings end in a zero (ldconfig(8)).
fn cached(cache: &[u8], library: &str) -> Vec<PathBuf> {
    let end = format!("/{library}\0");
    let path = |at: usize| {
        let begin = cache[..at].iter().rposition(|&byte| byte == 0).map_or(0, |zero| zero + 1);
        let path = String::from_utf8_lossy(&cache[begin..at + end.len() - 1]);
        PathBuf::from(path.into_owned())
    };
    memchr::memmem::find_iter(cache, &end).map(path).collect()
}

/// Whether it is a library for this machine's own programs (elf(5): class and machine).
fn is_native(path: &Path) -> bool {
    let head = |path: &Path| -> Option<[u8; 20]> {
        let mut head = [0; 20];
        File::open(path).ok()?.read_exact(&mut head).ok()?;
        head.starts_with(b"\x7fELF").then_some(head)
    };
    let kind = |head: [u8; 20]| (head[4], head[18], head[19]);
    let own = head(Path::new("/proc/self/exe"));
    head(path).zip(own).is_some_and(|(library, own)| kind(library) == kind(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_from_the_loaders_cache_and_only_those_of_this_machine_count() {
        let cache = b"ld.so\0libx.so.2\0/lib/a/libx.so.2\0/lib/b/libx.so.2\0/lib/notlibx.so.2\0";
        let paths = cached(cache, "libx.so.2");
        assert_eq!(paths, [Path::new("/lib/a/libx.so.2"), Path::new("/lib/b/libx.so.2")]);
        assert!(cached(b"", "libx.so.2").is_empty());
        let own = std::env::current_exe().unwrap();
        assert!(is_native(&own) && !is_native(Path::new("/etc/passwd")));
    }
}
