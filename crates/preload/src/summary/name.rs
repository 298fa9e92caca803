//! The name of the process, for the report.

/// Bytes of a thread's name with its terminator, prctl(2).
pub(super) const NAME_BYTES: usize = 16;

/// The name of the process. Writes it into `name`.
pub(super) fn name_of_process(name: &mut [u8; NAME_BYTES]) -> &[u8] {
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    name.split_at_checked(len).map_or(&name[..], |(name, _)| name)
}
