//! Work in a child of fork.

/// Runs `work` in a child of fork. Returns its wait status: 0 if it returned true.
pub(crate) fn in_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child only uses the pool, computes and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that cannot go on must not wait for ever.
        unsafe { libc::alarm(600) };
        let status = i32::from(!work());
        // SAFETY: leaves without the parent's handlers.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: `status` is a place for one integer.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status
}
