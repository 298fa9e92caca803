//! A control group with a memory limit, version 1 or 2, for programs that must not take the machine's memory.
//!
//! Only root can make one. Processes in it beyond the limit are killed, and no others. It goes with this value.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// # Errors
    /// Why there can be none here, to print with a skipped test.
    pub(crate) fn new(bytes: u64) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("faultless-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let (parent, limit) = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            // Where other processes are in the topmost group, as in a container, it can pass no controller on.
            let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
            ("/sys/fs/cgroup", "memory.max")
        } else {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        };
        let group = Self(Path::new(parent).join(name));
        let told = |error| format!("no control group with a memory limit below {parent}: {error}");
        fs::create_dir(&group.0).map_err(told)?;
        fs::write(group.0.join(limit), bytes.to_string()).map_err(told)?;
        // Only version 2 has it, and only where there is swap.
        let _ = fs::write(group.0.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// What to give to `Case::group`.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may still be clearing the last process away.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
