//! An initramfs: files -> a cpio archive of the format `newc`, which the kernel unpacks.
//!
//! The format is described in the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`. The same
//! entries give the same bytes: there are no dates, and the owner is root.

const MAGIC: &str = "070701";
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
/// Name of the last entry.
const TRAILER: &str = "TRAILER!!!";
/// Headers and contents begin at multiples of this.
const ALIGN: usize = 4;

/// An archive that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a folder.
    #[must_use]
    pub(crate) fn folder(self, name: &str) -> Self {
        self.entry(name, FOLDER, (0, 0), &[])
    }

    /// Adds a file that can be executed.
    #[must_use]
    pub(crate) fn file(self, name: &str, content: &[u8]) -> Self {
        self.entry(name, FILE, (0, 0), content)
    }

    /// Adds a character device.
    #[must_use]
    pub(crate) fn device(self, name: &str, major: u32, minor: u32) -> Self {
        self.entry(name, CHARACTER_DEVICE, (major, minor), &[])
    }

    /// The whole archive.
    #[must_use]
    pub(crate) fn finish(self) -> Vec<u8> {
        self.entry(TRAILER, 0, (0, 0), &[]).bytes
    }

    fn entry(mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Self {
        self.entries += 1;
        let links = if mode == FOLDER { 2 } else { 1 };
        let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_len = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let fields = [self.entries, mode, 0, 0, links, 0, len, 0, 0, device.0, device.1, name_len, 0];
        self.bytes.extend(MAGIC.bytes());
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_the_format_asks_for() {
        let archive = Archive::default().folder("dev").device("dev/console", 5, 1).file("init", b"#!x\n");
        let bytes = archive.clone().finish();
        assert_eq!(bytes, archive.finish(), "the same entries give the same bytes");
        assert_eq!(bytes.len() % ALIGN, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches(MAGIC).count(), 4);
        // ino, mode, uid, gid, nlink, mtime, filesize of the folder.
        assert!(text.starts_with("07070100000001000041ed0000000000000000000000020000000000000000"), "{text}");
        assert!(text.contains("0000000500000001"), "the device's numbers");
        assert!(text.ends_with("TRAILER!!!\0\0\0\0") || text.contains(TRAILER));
    }
}
