//! Whether this machine is a guest that gives its free pages back to its host.
//!
//! In: nothing. Out: yes or no. It allocates nothing and lists no folder, since virtio numbers its devices
//! from 0 on. `host` reads the same files for people, with allocations.

use crate::text::{decimal, read_joined};

/// Devices checked. A guest has about a dozen, numbered in order of discovery.
const DEVICES: u64 = 64;

/// Whether the balloon (virtio device id 5) reports free pages to the host (VIRTIO_BALLOON_F_REPORTING, bit
/// 5; Linux 5.7). Takes about 1 us per missing device, and 10 us per existing one.
pub fn reports_free_pages() -> bool {
    reports_below(b"")
}

fn reports_below(root: &[u8]) -> bool {
    (0..DEVICES).any(|device| {
        let mut digits = [0; 20];
        let device = decimal(device, &mut digits);
        let begins = |file: &[u8], is_right: fn(&[u8]) -> bool| {
            let path = [root, b"/sys/bus/virtio/devices/virtio", device, file];
            read_joined(&path, &mut [0; 16]).is_some_and(is_right)
        };
        begins(b"/device", |id| id.trim_ascii() == b"0x0005")
            && begins(b"/features", |features| features.get(5) == Some(&b'1'))
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn free_page_reporting_is_bit_five_of_the_balloon_wherever_that_is() {
        let root = std::env::temp_dir().join(format!("faultless-balloon-{}", std::process::id()));
        let device = |number: u32, id: &str, features: &str| {
            let folder = root.join(format!("sys/bus/virtio/devices/virtio{number}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("device"), id).unwrap();
            std::fs::write(folder.join("features"), features).unwrap();
        };
        let reports = || reports_below(root.to_str().unwrap().as_bytes());
        assert!(!reports());
        device(0, "0x0002\n", "1111111111\n");
        device(12, "0x0005\n", "1111101111\n");
        assert!(!reports());
        device(12, "0x0005\n", "0000010000\n");
        assert!(reports());
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn people_and_the_pool_are_told_the_same() {
        let host = crate::host::Host::read_below(std::path::Path::new("/"));
        assert_eq!(reports_free_pages(), host.balloon.is_some_and(|balloon| balloon.free_page_reporting));
    }
}
