//! The report in a file: written under another name and renamed, so that readers find a whole report or none.
//!
//! In: a path, before the program's `main`; the report, at the end. Out: whether the file is there. `%p` in the file's
//! name becomes the process number. Without it, the process that ends last leaves its report. The path is copied,
//! because a program may overwrite its environment. A program that confined itself writes no file, because its filter
//! might kill it for that. A new report keeps the permissions of the old one. If a device or a link has the name, no
//! report is written.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

use crate::line::{Line, Text};
use crate::{next, pool};

type Path = Text<{ libc::PATH_MAX as usize }>;

/// The names of the file and of the temporary file.
pub(super) struct Names(Path, Path);

impl Names {
    pub(super) const fn new() -> Self {
        Self(Path::new(), Path::new())
    }
}

struct SharedPath(UnsafeCell<Path>);

// SAFETY: written once, before NAMED says so; afterwards only shared references are made.
unsafe impl Sync for SharedPath {}

static PATH: SharedPath = SharedPath(UnsafeCell::new(Path::new()));
static NAMED: AtomicBool = AtomicBool::new(false);

/// Names the file. Called at most once, before `main`. `None` if the path is empty or too long.
pub(super) fn name(path: &[u8]) -> Option<()> {
    // SAFETY: no other thread runs yet, and NAMED, without which nobody reads it, is set below.
    let target = unsafe { &mut *PATH.0.get() };
    target.text(path).c_str().filter(|path| !path.is_empty())?;
    NAMED.store(true, Release);
    Some(())
}

/// The report goes to no file.
pub(super) fn forget() {
    NAMED.store(false, Release);
}

/// Whether the report goes to a file.
pub(super) fn is_named() -> bool {
    NAMED.load(Acquire)
}

/// Writes the report to the file; false if the file is not there afterwards. `names` are buffers.
pub(super) fn write(report: &mut Line, Names(target, aside): &mut Names) -> bool {
    if pool::is_confined() {
        return false;
    }
    expand(target);
    expand(aside);
    aside.text(b".").number(super::name::number().into()).text(b".part");
    let (Some(target), Some(aside)) = (target.c_str(), aside.c_str()) else { return false };
    let Some(rights) = rights(target) else { return false };
    // An earlier process with the same number may have been killed while it wrote.
    remove(aside);
    let is_there = create(aside, rights, report) && rename(aside, target);
    if !is_there {
        remove(aside);
    }
    is_there
}

/// The path, with the process number for each `%p` in its last part.
fn expand(path: &mut Path) {
    // SAFETY: written before NAMED was set, without which nobody comes here.
    let Some(named) = unsafe { &*PATH.0.get() }.c_str() else { return };
    let named = named.to_bytes();
    let folder = named.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (folder, mut rest) = named.split_at_checked(folder).unwrap_or((named, &[]));
    path.text(folder);
    while let Some(at) = rest.windows(2).position(|pair| pair == b"%p") {
        path.text(rest.get(..at).unwrap_or(&[])).number(super::name::number().into());
        rest = rest.get(at + 2..).unwrap_or(&[]);
    }
    path.text(rest);
}

/// The permissions of a new report.
enum Rights {
    /// The usual permissions of a new file.
    New,
    /// The permissions of the old report, which others may be unable to read.
    Old(libc::mode_t),
}

/// The permissions for a report of this name; `None` if the name belongs to anything but a file.
fn rights(path: &CStr) -> Option<Rights> {
    let mut old = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a C string, and a place for one stat.
    if unsafe { libc::lstat(path.as_ptr(), old.as_mut_ptr()) } != 0 {
        return Some(Rights::New);
    }
    // SAFETY: all-zero is a valid stat, and the kernel has filled it in.
    let mode = unsafe { old.assume_init() }.st_mode;
    (mode & libc::S_IFMT == libc::S_IFREG).then_some(Rights::Old(mode & 0o777))
}

fn create(path: &CStr, rights: Rights, report: &mut Line) -> bool {
    let mode: libc::mode_t = match rights {
        Rights::New => 0o666, // less the umask, as for any new file
        Rights::Old(_) => 0o600,
    };
    // Others may be able to write to the folder. Their links must not be followed.
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, mode as usize];
    // SAFETY: the path is a C string, and no descriptor is inherited.
    let file = unsafe { next::system_call(libc::SYS_openat, arguments) };
    let Some(file) = i32::try_from(file).ok().filter(|&file| file >= 0) else { return false };
    let is_alike = match rights {
        Rights::New => true,
        // SAFETY: two integers; opened above.
        Rights::Old(mode) => unsafe { libc::fchmod(file, mode) == 0 },
    };
    let is_written = is_alike && report.write_to(file);
    // SAFETY: opened above, closed once. Some file systems only say here that there was no room.
    let is_closed = unsafe { next::system_call(libc::SYS_close, [file as usize]) } == 0;
    is_written && is_closed
}

fn rename(from: &CStr, to: &CStr) -> bool {
    // SAFETY: two C strings.
    unsafe { libc::rename(from.as_ptr(), to.as_ptr()) == 0 }
}

fn remove(path: &CStr) {
    // SAFETY: a C string.
    unsafe { libc::unlink(path.as_ptr()) };
}
