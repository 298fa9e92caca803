//! Files by page faults: read-only mappings, and which of a file's pages the page cache holds.
//!
//! In: open files. Out: mappings that own their addresses, and sums of their content. [`forget`] takes one
//! file out of the page cache, without root. Root's `/proc/sys/vm/drop_caches` would also drop the pages of
//! all other files, and with 2 the inodes and extents that locate pages. Neither reaches the cache of a
//! hypervisor's host.
//!
//! It does not write files, or decide what is prefetched.
//!
//! References: mmap(2), posix_fadvise(2), mincore(2).

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;

use crate::advise::{self, Advice};
use crate::counters::tick;
use crate::error::{Error, Result};
use crate::{map, page};

/// Bytes of the words that [`FileMap::sum`] adds up.
pub const WORD_BYTES: usize = size_of::<u64>();

/// Opens the regular file at `path` for reading. Refuses other kinds, even if the file was replaced since it
/// was listed, and never waits for a pipe's writer.
///
/// # Errors
/// As open(2); [`std::io::ErrorKind::InvalidInput`]: not a regular file.
pub fn open_regular(path: &Path) -> std::io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// Fills `into` from `offset` if the page cache holds all of it. Never waits for a disk, but may start its
/// read-ahead: a disk that answers at once counts as the page cache. Since Linux 4.14, where the file system
/// supports it.
pub fn read_cached(file: &File, into: &mut [u8], offset: u64) -> bool {
    let mut filled = 0;
    while filled < into.len() {
        let rest = &mut into[filled..];
        let part = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let Ok(at) = libc::off_t::try_from(offset + filled as u64) else { return false };
        // SAFETY: `part` names memory that is borrowed exclusively.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &part, 1, at, libc::RWF_NOWAIT) };
        match usize::try_from(read) {
            Ok(read) if read > 0 => filled += read,
            _ => return false,
        }
    }
    true
}

/// A private read-only mapping of the first bytes of a file, unmapped on drop.
///
/// Another process may change the file meanwhile, so there is no slice of it. If another process truncates
/// the file, the next touch ends this process with SIGBUS.
#[derive(Debug)]
pub struct FileMap {
    base: NonNull<u64>,
    len_bytes: usize,
}

// SAFETY: a FileMap is the only owner of its mapping; no thread-bound state.
unsafe impl Send for FileMap {}
// SAFETY: shared references only read, with volatile loads.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps the first `len_bytes`. Nothing is resident in this process yet.
    ///
    /// # Errors
    /// EINVAL: `len_bytes` is 0; ENOMEM; EACCES: not open for reading; ENODEV: the file system supports no
    /// mappings.
    pub fn new(file: &File, len_bytes: usize) -> Result<Self> {
        Self::map(file, len_bytes, libc::PROT_READ)
    }

    fn map(file: &File, len_bytes: usize, rights: libc::c_int) -> Result<Self> {
        let (flags, none) = (libc::MAP_PRIVATE, std::ptr::null_mut());
        // SAFETY: without MAP_FIXED a new mapping never replaces another.
        let start = unsafe { libc::mmap(none, len_bytes, rights, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::last_for("mmap(FILE", len_bytes));
        }
        let base = NonNull::new(start.cast()).ok_or(Error::new("mmap(FILE", libc::ENOMEM))?;
        Ok(Self { base, len_bytes })
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// `madvise(2)` for the whole mapping.
    ///
    /// # Errors
    /// As the kernel answers; EINVAL also for an advice that this kernel does not know.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        // SAFETY: the mapping is ours, and what any advice throws away the file still has.
        unsafe { advise::advise(self.base.as_ptr().addr(), self.len_bytes, advice) }
    }

    /// The sum of every `step`-th 8-byte word of a part, in native byte order. The reads are never optimised
    /// away.
    ///
    /// # Panics
    /// When the part does not lie inside, or does not begin at a word.
    pub fn sum(&self, part: Range<usize>, step: usize) -> u64 {
        assert!(
            part.end <= self.len_bytes && part.start.is_multiple_of(WORD_BYTES),
            "part inside the mapping"
        );
        let mut sum = 0_u64;
        for word in (part.start / WORD_BYTES..part.end / WORD_BYTES).step_by(step.max(1)) {
            // SAFETY: the word ends before `part.end`, which lies inside the mapping.
            let at = unsafe { self.base.as_ptr().add(word) };
            // SAFETY: inside a readable mapping, aligned, and any bytes are a u64.
            sum = sum.wrapping_add(unsafe { at.read_volatile() });
        }
        sum
    }

    /// Loads the word at each of these byte offsets, and yields how many [`tick`]s each load took.
    ///
    /// # Panics
    /// When a word does not lie inside.
    pub fn time_reads(&self, places: impl Iterator<Item = usize>) -> impl Iterator<Item = u64> {
        places.map(|place| {
            let at = self.word(place);
            let begin = tick();
            // SAFETY: a word inside a readable mapping, see `word`; any bytes are a u64.
            std::hint::black_box(unsafe { at.read_volatile() });
            tick().wrapping_sub(begin)
        })
    }

    /// The aligned word that holds the byte at `place`.
    fn word(&self, place: usize) -> *mut u64 {
        let word = place / WORD_BYTES;
        assert!((word + 1) * WORD_BYTES <= self.len_bytes, "word inside the mapping");
        // SAFETY: the word lies inside the mapping, as was just asserted.
        unsafe { self.base.as_ptr().add(word) }
    }

    /// How many of its bytes the page cache holds, by mincore(2). Since Linux 5.2 the kernel tells that only
    /// for files that this user owns or may write; others count as wholly cached.
    pub fn cached_bytes(&self) -> usize {
        map::resident_bytes(self.base.as_ptr().addr(), page::round_up(self.len_bytes))
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no longer used. A failure leaves address space behind.
        let _ = unsafe { map::release(self.base.as_ptr().addr(), self.len_bytes) };
    }
}

/// A writable private mapping of the first bytes of a file: writes stay in this process.
#[derive(Debug)]
pub struct PrivateMap(FileMap);

impl PrivateMap {
    /// Maps the first `len_bytes`. Nothing is resident in this process yet.
    ///
    /// # Errors
    /// As for [`FileMap::new`].
    pub fn new(file: &File, len_bytes: usize) -> Result<Self> {
        FileMap::map(file, len_bytes, libc::PROT_READ | libc::PROT_WRITE).map(Self)
    }

    /// Stores to the word at each of these offsets; otherwise as [`FileMap::time_reads`].
    ///
    /// # Panics
    /// When a word does not lie inside.
    pub fn time_writes(&mut self, places: impl Iterator<Item = usize>) -> impl Iterator<Item = u64> {
        places.map(|place| {
            let at = self.0.word(place);
            let begin = tick();
            // SAFETY: a word inside a mapping that is writable and borrowed exclusively, see `FileMap::word`.
            unsafe { at.write_volatile(1) };
            tick().wrapping_sub(begin)
        })
    }
}

/// Takes a file's clean, unmapped pages out of the page cache (POSIX_FADV_DONTNEED). Sync the file first.
/// Pages of an in-memory file system stay; [`FileMap::cached_bytes`] tells.
///
/// # Errors
/// ESPIPE: a pipe; others as the file system answers.
pub fn forget(file: &File) -> Result<()> {
    // SAFETY: no memory is involved; a length of 0 is up to the end.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        errno => Err(Error::new("posix_fadvise(POSIX_FADV_DONTNEED", errno)),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::io::Write;

    const PAGES: usize = 64;

    /// An unlinked file of words 0, 1, 2, ...
    fn counted() -> File {
        let path = std::env::temp_dir().join(format!("faultless-file-{:?}", std::thread::current().id()));
        let mut options = File::options();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let words = (PAGES * page::size() / WORD_BYTES) as u64;
        let bytes: Vec<u8> = (0..words).flat_map(u64::to_ne_bytes).collect();
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn a_forgotten_file_is_read_again() {
        let file = counted();
        file.sync_all().unwrap();
        forget(&file).unwrap();
        let map = FileMap::new(&file, PAGES * page::size()).unwrap();
        if map.cached_bytes() > 0 {
            return faultless_wants::missing_feature(
                "a disk",
                "the folder for temporary files lies in memory",
            );
        }
        assert_eq!(map.sum(0..2 * WORD_BYTES, 1), 1);
        assert!(map.cached_bytes() > 0);
    }

    #[test]
    fn only_what_is_cached_is_read() {
        let file = counted();
        let mut word = [0; WORD_BYTES];
        assert!(read_cached(&file, &mut word, 3 * WORD_BYTES as u64));
        assert_eq!(u64::from_ne_bytes(word), 3);
        let end = (PAGES * page::size()) as u64;
        assert!(read_cached(&file, &mut [], end) && !read_cached(&file, &mut word, end - 1));
        file.sync_all().unwrap();
        forget(&file).unwrap();
        if FileMap::new(&file, PAGES * page::size()).unwrap().cached_bytes() > 0 {
            return faultless_wants::missing_feature(
                "a disk",
                "the folder for temporary files lies in memory",
            );
        }
        // A disk that is done before the kernel looks again is as good as the cache: the word must be the file's.
        let word_there = 3 * WORD_BYTES as u64;
        word.fill(0xff);
        let filled = read_cached(&file, &mut word, word_there);
        assert_eq!(u64::from_ne_bytes(word), if filled { 3 } else { u64::MAX });
        let cached_bytes = FileMap::new(&file, PAGES * page::size()).unwrap().cached_bytes();
        assert!(!filled || cached_bytes > 0, "read, and {cached_bytes} bytes are cached");
    }
}
