//! Probed calls.
//!
//! In: nothing. Out: each call's answer. No file tells whether they work: kernels are patched, and seccomp
//! filters deny.

use crate::error::{Error, Result};
use crate::page;
use crate::perf::{Event, Output, Software, Spec, Target};
use crate::touch::{Advice, Region};

/// What each tried call answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    /// MADV_POPULATE_WRITE (5.14).
    pub populate_write: Result<()>,
    /// MADV_FREE (4.5).
    pub free: Result<()>,
    /// The PAGEMAP_SCAN ioctl (6.7).
    pub pagemap_scan: Result<()>,
    /// userfaultfd for faults of user mode (`UFFD_USER_MODE_ONLY`, 5.11).
    pub userfaultfd: Result<()>,
    /// perf's PAGE_FAULTS event of this process, user mode only.
    pub perf_user: Result<()>,
    /// The same with faults taken in kernel mode.
    pub perf_kernel: Result<()>,
}

impl Default for Probes {
    fn default() -> Self {
        let untried = |call| Err(Error::new(call, libc::ENOSYS));
        Self {
            populate_write: untried("madvise(MADV_POPULATE_WRITE"),
            free: untried("madvise(MADV_FREE"),
            pagemap_scan: untried("ioctl(PAGEMAP_SCAN"),
            userfaultfd: untried("userfaultfd"),
            perf_user: untried("perf_event_open"),
            perf_kernel: untried("perf_event_open"),
        }
    }
}

impl Probes {
    pub(super) fn run() -> Self {
        Self {
            populate_write: advise(Advice::PopulateWrite),
            free: advise(Advice::Free),
            pagemap_scan: pagemap_scan(),
            userfaultfd: userfaultfd(),
            perf_user: perf_page_faults(true),
            perf_kernel: perf_page_faults(false),
        }
    }
}

fn advise(advice: Advice) -> Result<()> {
    let mut region = Region::new(page::size(), page::size())?;
    region.advise(0..page::size(), advice)
}

/// `struct pm_scan_arg` of <linux/fs.h>: twelve 64-bit words.
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

fn pagemap_scan() -> Result<()> {
    /// `_IOWR('f', 16, struct pm_scan_arg)`.
    const PAGEMAP_SCAN: u64 = 0xC060_6610;
    const PAGE_IS_PRESENT: u64 = 1 << 3;
    const CALL: &str = "ioctl(PAGEMAP_SCAN";
    let path = c"/proc/self/pagemap";
    // SAFETY: `path` is a nul-terminated string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(Error::last(CALL));
    }
    // One `struct page_region`: start, end, categories.
    let mut found = [0_u64; 3];
    let target = 0_u8;
    let start = (&raw const target).addr() / page::size() * page::size();
    let mut arg = ScanArg {
        size: size_of::<ScanArg>() as u64,
        start: start as u64,
        end: (start + page::size()) as u64,
        vec: (&raw mut found).expose_provenance() as u64,
        vec_len: 1,
        category_mask: PAGE_IS_PRESENT,
        return_mask: PAGE_IS_PRESENT,
        ..ScanArg::default()
    };
    // SAFETY: `arg` is a complete pm_scan_arg, and `vec` points at room for one region.
    let rc = unsafe { libc::ioctl(file, PAGEMAP_SCAN as _, &raw mut arg) };
    let answer = if rc >= 0 { Ok(()) } else { Err(Error::last(CALL)) };
    close(file);
    answer
}

fn userfaultfd() -> Result<()> {
    const UFFD_USER_MODE_ONLY: libc::c_int = 1;
    // SAFETY: userfaultfd takes flags only; the descriptor it returns is ours.
    let file = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY) };
    if file < 0 {
        return Err(Error::last("userfaultfd"));
    }
    close(file as libc::c_int);
    Ok(())
}

/// Opens and closes PERF_COUNT_SW_PAGE_FAULTS for this process.
fn perf_page_faults(user_only: bool) -> Result<()> {
    let spec = Spec {
        event: Software::PageFaults,
        output: Output::Count,
        user_only,
        inherit: false,
        on_exec: false,
        disabled: true,
    };
    Event::open(&spec, Target { pid: 0, cpu: None }, None).map(drop)
}

fn close(file: libc::c_int) {
    // SAFETY: the callers own the descriptor and do not use it again.
    unsafe { libc::close(file) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_agree_with_a_new_kernel() {
        let release = crate::host::Host::read_below(std::path::Path::new("/")).kernel;
        if release.at_least(6, 7) != Some(true) {
            return faultless_wants::missing_feature("Linux 6.7", format_args!("{:?}", release.release_text));
        }
        let probes = Probes::run();
        assert_eq!(probes.populate_write, Ok(()));
        assert_eq!(probes.free, Ok(()));
        // Containers may hide /proc/self/pagemap; the ioctl itself must be known.
        assert!(!matches!(&probes.pagemap_scan, Err(error) if error.errno == libc::ENOTTY), "{probes:?}");
    }
}
