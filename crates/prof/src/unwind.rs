//! From copied registers and stack to an interned stack.

/// What was copied of a thread when something happened to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserStack<'a> {
    /// Instruction pointer.
    pub(crate) ip: u64,
    /// Stack pointer.
    pub(crate) sp: u64,
    /// Frame pointer: `rbp`, `x29`.
    pub(crate) bp: u64,
    /// Link register, on aarch64.
    pub(crate) lr: u64,
    /// Memory from `sp` on.
    pub(crate) dump: &'a [u8],
    /// User part of the kernel's chain of frame pointers, leaf first; may hold junk.
    pub(crate) chain: &'a [u64],
    /// Kernel part, leaf first.
    pub(crate) kernel_chain: &'a [u64],
}
