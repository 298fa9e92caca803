//! Tracepoints of the kernel, as tracefs describes them.
//!
//! In: a name such as `mmap_lock/mmap_lock_start_locking`. Out: its number for [`crate::perf`], and the
//! offsets of its fields in a sample. Only root sees tracefs. Where it is not mounted, this process makes a
//! mount of its own, attached to no folder (Linux 5.2).
//!
//! It does not open events.
//!
//! References: fsopen(2), fsconfig(2), fsmount(2), and Documentation/trace/events.rst of the kernel.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// A tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its number.
    pub id: u32,
    /// Name and first byte of each field.
    fields: Vec<(String, usize)>,
}

impl Tracepoint {
    /// Reads its description; `None` if it does not exist, or without the right to see it.
    pub fn find(name: &str) -> Option<Self> {
        const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let read = |root: &str| std::fs::read_to_string(format!("{root}/events/{name}/format")).ok();
        let own = || read(&format!("/proc/self/fd/{}", own_mount()?.as_raw_fd()));
        Self::parse(&TRACEFS.into_iter().find_map(read).or_else(own)?)
    }

    /// The byte offset of the field of that name.
    pub fn offset(&self, field: &str) -> Option<usize> {
        self.fields.iter().find(|(name, _)| name == field).map(|&(_, offset)| offset)
    }

    /// Lines `ID: 7` and `field:bool write; offset:24; size:1; signed:0;`.
    fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()?;
        let field = |line: &str| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';');
            let name = parts.next()?.split([' ', '*']).next_back()?.to_owned();
            Some((name, parts.next()?.trim().strip_prefix("offset:")?.parse().ok()?))
        };
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }
}

/// A mount of tracefs that only this process has; `None` without the right (CAP_SYS_ADMIN).
fn own_mount() -> Option<&'static OwnedFd> {
    static MOUNT: OnceLock<Option<OwnedFd>> = OnceLock::new();
    MOUNT.get_or_init(|| mount().ok()).as_ref()
}

fn mount() -> Result<OwnedFd> {
    // The numbers of <linux/mount.h>.
    const CLOEXEC: u64 = 1;
    const CREATE: u64 = 6;
    let owned = |call, fd| match fd {
        // SAFETY: the kernel has just handed out this descriptor and nothing else owns it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
        _ => Err(Error::last(call)),
    };
    // SAFETY: a C string and an integer.
    let context = owned("fsopen", unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOEXEC) })?;
    let fd = context.as_raw_fd();
    // SAFETY: this command takes no key and no value.
    if unsafe { libc::syscall(libc::SYS_fsconfig, fd, CREATE, 0_usize, 0_usize, 0_u64) } != 0 {
        return Err(Error::last("fsconfig"));
    }
    // SAFETY: integers.
    owned("fsmount", unsafe { libc::syscall(libc::SYS_fsmount, fd, CLOEXEC, 0_u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_sees_tracepoints_whether_or_not_tracefs_is_mounted() {
        if crate::host::user().0 != 0 {
            return faultless_wants::missing_feature("root", "tracepoints are for root");
        }
        let found = Tracepoint::find("raw_syscalls/sys_enter").unwrap();
        let own = format!(
            "/proc/self/fd/{}/events/raw_syscalls/sys_enter/format",
            own_mount().unwrap().as_raw_fd()
        );
        assert_eq!(Tracepoint::parse(&std::fs::read_to_string(own).unwrap()), Some(found.clone()));
        assert_eq!((found.offset("id"), found.offset("args[6]")), (Some(8), Some(16)));
    }

    #[test]
    fn a_description_gives_number_and_places() {
        let text = "name: x\nID: 677\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                    \tfield:struct mm_struct * mm;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:bool write;\toffset:24;\tsize:1;\n";
        let found = Tracepoint::parse(text).unwrap();
        assert_eq!((found.id, found.offset("write"), found.offset("mm")), (677, Some(24), Some(8)));
        assert_eq!(found.offset("read"), None);
        assert_eq!(Tracepoint::parse("rubbish"), None);
    }
}
