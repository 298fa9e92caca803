//! From copied registers and stack to an interned stack.

use faultless_trace::file::Line;
use faultless_trace::observation::Map;

/// The user's side of a sample, and the kernel's chain.
pub(crate) struct UserStack<'a> {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    pub(crate) lr: u64,
    pub(crate) dump: &'a [u8],
    pub(crate) chain: &'a [u64],
    pub(crate) kernel_chain: &'a [u64],
}

/// Knows no stack.
#[derive(Debug)]
pub(crate) struct Unwinder;

impl Unwinder {
    pub(crate) fn new() -> Self {
        Self
    }
    pub(crate) fn map(&mut self, _pid: u32, _map: &Map) {}
    pub(crate) fn fork(&mut self, _pid: u32, _parent: u32) {}
    pub(crate) fn exec(&mut self, _pid: u32) {}
    pub(crate) fn exit(&mut self, _pid: u32) {}
    pub(crate) fn stack(&mut self, _pid: u32, stack: &UserStack<'_>) -> Option<u32> {
        let _ = (stack.ip, stack.sp, stack.bp, stack.lr, stack.dump, stack.chain, stack.kernel_chain);
        None
    }
    pub(crate) fn take_lines(&mut self) -> Vec<Line> {
        Vec::new()
    }
    pub(crate) fn name(&mut self) -> Vec<Line> {
        Vec::new()
    }
}
