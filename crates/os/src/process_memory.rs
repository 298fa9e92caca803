//! Memory of another process.
//!
//! In: a process and an address. Out: a copy of its bytes, in one system call.
//!
//! It does not stop the process, or write to it.
//!
//! Reference: process_vm_readv(2).

use std::ptr;

use crate::error::{Error, Result};

/// Copies memory of another process, up to the first page that is not there. Returns the bytes copied.
///
/// # Errors
/// ESRCH if the process is gone, EPERM without rights, EFAULT if nothing is mapped there.
pub fn read(pid: i32, at: u64, into: &mut [u8]) -> Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: ptr::without_provenance_mut(at as usize), iov_len: into.len() };
    // SAFETY: `local` describes `into`; the remote address is checked by the kernel in the other process.
    let len = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    if len < 0 { Err(Error::last("process_vm_readv")) } else { Ok(len as usize) }
}
