//! What the version of glibc tells about its malloc.

use faultless_os::host::Host;

/// The first glibc with the tunable `glibc.malloc.hugetlb` (NEWS of glibc 2.35).
const HUGETLB: (u32, u32) = (2, 35);

/// Whether this machine's glibc has the tunable `glibc.malloc.hugetlb`.
pub(super) fn has_hugetlb(host: &Host) -> bool {
    host.glibc.as_deref().and_then(version).is_some_and(|version| version >= HUGETLB)
}

/// Major and minor version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}
