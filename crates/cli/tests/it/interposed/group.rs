//! A control group with a memory limit, version 1 or 2, for programs that could exhaust the machine's memory.
//!
//! Only root can make one. Beyond the limit, only processes in the group are killed. The group is removed on
//! drop.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// # Errors
    /// The reason why there can be none here, to print with a skipped test.
    pub(crate) fn new(bytes: u64) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("faultless-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let (parent, limit) = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            // If the topmost group holds other processes, as in a container, it can't delegate controllers.
            let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
            ("/sys/fs/cgroup", "memory.max")
        } else {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        };
        let group = Self(Path::new(parent).join(name));
        let told = |error| format!("no control group with a memory limit below {parent}: {error}");
        fs::create_dir(&group.0).map_err(told)?;
        fs::write(group.0.join(limit), bytes.to_string()).map_err(told)?;
        // Exists in version 2 only, and only with swap.
        let _ = fs::write(group.0.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// The argument of `Case::group`.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may still be removing the last process.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
