//! THP, mTHP and hugetlb: the settings, and the available sizes.
//!
//! Source: Documentation/admin-guide/mm/transhuge.rst and hugetlbpage.rst of Linux. mTHP directories exist since 6.8.

use super::files::Files;
use super::parse::chosen;

/// Global THP settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thp {
    /// `enabled`: always, madvise or never.
    pub enabled: Option<String>,
    /// `defrag`: always, defer, defer+madvise, madvise or never.
    pub defrag: Option<String>,
    /// `shmem_enabled`.
    pub shmem_enabled: Option<String>,
    /// `use_zero_page`: reads of untouched memory map one shared huge zero page.
    pub use_zero_page: Option<bool>,
    /// `shrink_underused` (6.12): huge pages that are mostly zero may be split.
    pub shrink_underused: Option<bool>,
    /// `hpage_pmd_size` in bytes.
    pub pmd_bytes: Option<usize>,
    /// khugepaged.
    pub khugepaged: Khugepaged,
    /// The directories `hugepages-*kB`, the PMD size included, by size.
    pub sizes: Vec<Mthp>,
}

/// Settings of khugepaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Khugepaged {
    /// Whether it may compact.
    pub defrag: Option<bool>,
    /// Untouched pages a range may have and still be collapsed.
    pub max_ptes_none: Option<u64>,
    /// Pages scanned per pass.
    pub pages_to_scan: Option<u64>,
}

/// One size of transparent huge page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mthp {
    /// Size in bytes.
    pub len_bytes: usize,
    /// `enabled`: always, inherit, madvise or never.
    pub enabled: String,
    /// `stats/anon_fault_alloc`.
    pub faults: Option<u64>,
    /// `stats/anon_fault_fallback`.
    pub fallbacks: Option<u64>,
}

/// One hugetlb pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugetlbPool {
    /// Page size in bytes.
    pub page_bytes: usize,
    /// Pages in the pool.
    pub pages: u64,
    /// Pages free.
    pub free: u64,
    /// Pages reserved but not faulted.
    pub reserved: u64,
    /// Pages that may be added on demand (`nr_overcommit_hugepages`).
    pub overcommit: u64,
}

const THP: &str = "sys/kernel/mm/transparent_hugepage";
const HUGETLB: &str = "sys/kernel/mm/hugepages";

impl Thp {
    pub(super) fn read(files: &Files) -> Option<Self> {
        let word = |name: &str| {
            files.text(&format!("{THP}/{name}")).and_then(|text| chosen(&text).map(str::to_owned))
        };
        let number = |name: &str| files.number(&format!("{THP}/{name}"));
        let unsigned = |name: &str| number(name).and_then(|value| u64::try_from(value).ok());
        Some(Self {
            enabled: Some(word("enabled")?),
            defrag: word("defrag"),
            shmem_enabled: word("shmem_enabled"),
            use_zero_page: number("use_zero_page").map(|value| value != 0),
            shrink_underused: number("shrink_underused").map(|value| value != 0),
            pmd_bytes: number("hpage_pmd_size").and_then(|bytes| usize::try_from(bytes).ok()),
            khugepaged: Khugepaged {
                defrag: number("khugepaged/defrag").map(|value| value != 0),
                max_ptes_none: unsigned("khugepaged/max_ptes_none"),
                pages_to_scan: unsigned("khugepaged/pages_to_scan"),
            },
            sizes: sizes(files),
        })
    }

    /// The setting for pages of the PMD size: of their own directory (6.8), unless that says `inherit`; else
    /// `enabled`.
    pub fn word(&self) -> Option<&str> {
        match self.sizes.iter().find(|size| Some(size.len_bytes) == self.pmd_bytes) {
            Some(size) if size.enabled != "inherit" => Some(size.enabled.as_str()),
            _ => self.enabled.as_deref(),
        }
    }

    /// Whether `madvise(MADV_HUGEPAGE)` gets THP of the PMD size.
    pub fn available(&self) -> bool {
        matches!(self.word(), Some("always" | "madvise"))
    }

    /// Sizes smaller than the PMD size that `MADV_HUGEPAGE` memory may get.
    pub fn mthp_enabled(&self) -> impl Iterator<Item = &Mthp> {
        let inherited = self.enabled.as_deref() != Some("never");
        self.sizes.iter().filter(move |size| {
            Some(size.len_bytes) != self.pmd_bytes
                && match size.enabled.as_str() {
                    "always" | "madvise" => true,
                    "inherit" => inherited,
                    _ => false,
                }
        })
    }
}

fn sizes(files: &Files) -> Vec<Mthp> {
    let mut sizes: Vec<Mthp> = files
        .names(THP)
        .iter()
        .filter_map(|name| {
            let directory = format!("{THP}/{name}");
            let count = |stat: &str| {
                files.number(&format!("{directory}/stats/{stat}")).and_then(|value| u64::try_from(value).ok())
            };
            Some(Mthp {
                len_bytes: page_bytes(name)?,
                enabled: chosen(&files.text(&format!("{directory}/enabled"))?)?.to_owned(),
                faults: count("anon_fault_alloc"),
                fallbacks: count("anon_fault_fallback"),
            })
        })
        .collect();
    sizes.sort_by_key(|size| size.len_bytes);
    sizes
}

impl HugetlbPool {
    pub(super) fn read_all(files: &Files) -> Vec<Self> {
        let mut pools: Vec<Self> = files
            .names(HUGETLB)
            .iter()
            .filter_map(|name| {
                let count = |file: &str| {
                    let value = files.number(&format!("{HUGETLB}/{name}/{file}"));
                    value.and_then(|value| u64::try_from(value).ok())
                };
                Some(Self {
                    page_bytes: page_bytes(name)?,
                    pages: count("nr_hugepages")?,
                    free: count("free_hugepages").unwrap_or(0),
                    reserved: count("resv_hugepages").unwrap_or(0),
                    overcommit: count("nr_overcommit_hugepages").unwrap_or(0),
                })
            })
            .collect();
        pools.sort_by_key(|pool| pool.page_bytes);
        pools
    }
}

/// The size in a directory name, `hugepages-2048kB`.
fn page_bytes(name: &str) -> Option<usize> {
    name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thp(enabled: &str, sizes: &[(usize, &str)]) -> Thp {
        let size = |(len_bytes, enabled): &(usize, &str)| Mthp {
            len_bytes: *len_bytes,
            enabled: (*enabled).into(),
            ..Mthp::default()
        };
        Thp {
            enabled: Some(enabled.into()),
            pmd_bytes: Some(2 << 20),
            sizes: sizes.iter().map(size).collect(),
            ..Thp::default()
        }
    }

    #[test]
    fn size_is_in_the_name_of_the_directory() {
        assert_eq!(page_bytes("hugepages-2048kB"), Some(2 << 20));
        assert_eq!(page_bytes("khugepaged"), None);
        assert_eq!(page_bytes("hugepages-kB"), None);
    }

    #[test]
    fn the_setting_of_the_size_beats_the_global_one() {
        assert!(thp("madvise", &[(2 << 20, "inherit")]).available());
        assert!(thp("never", &[(2 << 20, "madvise")]).available());
        assert!(!thp("always", &[(2 << 20, "never")]).available());
        assert!(!thp("never", &[]).available());
    }

    #[test]
    fn inherited_mthp_follow_the_global_setting() {
        let sizes = [(64 << 10, "inherit"), (128 << 10, "never"), (2 << 20, "inherit")];
        let enabled = |thp: Thp| thp.mthp_enabled().map(|size| size.len_bytes).collect::<Vec<_>>();
        assert_eq!(enabled(thp("madvise", &sizes)), [64 << 10]);
        assert!(enabled(thp("never", &sizes)).is_empty());
    }
}
