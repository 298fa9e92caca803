//! Rows about THP, mTHP and hugetlb.

use faultless_os::host::{Host, Thp};
use faultless_prof::price::Prices;
use faultless_trace::measurement::{Bytes, Count, Nanos};

use super::row::{Grade, Row, Rule};

pub(super) const RULES: &[Rule] =
    &[thp, shmem, mthp, mthp_fallback, defrag, khugepaged, thp_fallback, hugetlb];

/// Report fallbacks from this share of all huge faults on.
const FALLBACK_SHARE: f64 = 0.1;
/// Fewer fallbacks than this happen by accident at boot.
const LEAST_FALLBACKS: u64 = 100;

/// transhuge.rst: meaning of the words, and that the directory of a size (6.8) may override them. madvise(2):
/// MADV_HUGEPAGE since 2.6.38. MADV_COLLAPSE ignores these settings, but it does not act in a fault.
fn thp(host: &Host, prices: &Prices) -> Option<Row> {
    const SETTING: &str = "transparent_hugepage/enabled";
    let Some(thp) = &host.thp else {
        return host.kernel.release.filter(|_| !host.hides_sys()).map(|_| {
            let meaning = "this kernel has no THP: every base page is a fault of its own";
            Row::new(SETTING, "absent", Grade::Note, meaning).source("transhuge.rst")
        });
    };
    let (word, global) = (thp.word()?, thp.enabled.as_deref()?);
    let size = Bytes(thp.pmd_bytes.unwrap_or(0) as u64);
    let value = if word == global { word.to_owned() } else { format!("{global}, but {word} for {size}") };
    let gain = match (prices.ns("thp_touch"), prices.thp_gain()) {
        (Some(touch), Some(gain)) => format!(": {} per {size}, {gain:.1}x cheaper per byte", Nanos(touch)),
        _ => String::new(),
    };
    let (grade, meaning, advice) = match word {
        "always" => (
            Grade::Good,
            format!("all large mappings get pages of {size}{gain}; a sparse one grows by {size} per touch"),
            "MADV_NOHUGEPAGE on memory touched sparsely".to_owned(),
        ),
        "madvise" => (
            Grade::Good,
            format!("memory that asks for it gets pages of {size}{gain}"),
            "MADV_HUGEPAGE on dense arenas, `faultless run`, or GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
                .to_owned(),
        ),
        _ => (
            Grade::Act,
            format!("no fault brings a page of {size}"),
            format!("{}; then doctor measures the gain", enable_thp(thp)),
        ),
    };
    Some(Row::new(SETTING, value, grade, meaning).advice(advice).source("transhuge.rst; madvise(2)"))
}

/// The command that makes THP available on request.
pub(super) fn enable_thp(thp: &Thp) -> String {
    let size = if thp.word() == thp.enabled.as_deref() {
        String::new()
    } else {
        format!("hugepages-{}kB/", thp.pmd_bytes.unwrap_or(0) >> 10)
    };
    format!("echo madvise > /sys/kernel/mm/transparent_hugepage/{size}enabled (root)")
}

/// transhuge.rst, "Hugepages in tmpfs/shmem": the setting governs memory without a mount of its own. tmpfs
/// has `huge=`.
fn shmem(host: &Host, _: &Prices) -> Option<Row> {
    const SETTING: &str = "transparent_hugepage/shmem_enabled";
    let thp = host.thp.as_ref()?;
    let (word, size) = (thp.shmem_enabled.clone()?, Bytes(thp.pmd_bytes? as u64));
    let row = match word.as_str() {
        "always" | "within_size" | "force" => {
            Row::new(SETTING, word, Grade::Good, format!("shared memory may get pages of {size}"))
        }
        "advise" => Row::new(
            SETTING,
            word,
            Grade::Good,
            format!("shared memory that asks for it gets pages of {size}"),
        ),
        _ => {
            let meaning =
                format!("no fault in shared memory (memfd, shmget, MAP_SHARED) brings a page of {size}");
            Row::new(SETTING, word, Grade::Note, meaning).advice(
                "for programs that share much memory and call MADV_HUGEPAGE: \
                 echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (root)",
            )
        }
    };
    Some(row.source("transhuge.rst"))
}

/// transhuge.rst; mTHP since 6.8.
fn mthp(host: &Host, prices: &Prices) -> Option<Row> {
    const SETTING: &str = "transparent_hugepage/hugepages-*kB/enabled";
    let thp = host.thp.as_ref()?;
    let smaller = thp.sizes.iter().filter(|size| Some(size.len_bytes) != thp.pmd_bytes).count();
    if smaller == 0 {
        return None;
    }
    let enabled: Vec<String> = thp
        .mthp_enabled()
        .map(|size| {
            let price = prices.ns_per_base_page(&format!("mthp_touch_{}k", size.len_bytes >> 10));
            let price = price.map(|price| format!(" ({} per base page)", Nanos(price))).unwrap_or_default();
            format!("{}{price}", Bytes(size.len_bytes as u64))
        })
        .collect();
    let row = if enabled.is_empty() {
        let meaning = "no sizes between a base page and a THP: heaps of small blocks fault page by page";
        Row::new(SETTING, "never", Grade::Note, meaning).advice(
            "try: echo madvise > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled (root), then doctor again",
        )
    } else {
        let meaning = "one fault brings several base pages, with less to clear at once than for a THP";
        Row::new(SETTING, enabled.join(", "), Grade::Good, meaning)
    };
    Some(row.source("transhuge.rst"))
}

/// transhuge.rst: anon_fault_alloc, anon_fault_fallback (6.8).
fn mthp_fallback(host: &Host, _: &Prices) -> Option<Row> {
    let thp = host.thp.as_ref()?;
    let (faults, fallbacks) = thp.mthp_enabled().fold((0, 0), |(faults, fallbacks), size| {
        (faults + size.faults.unwrap_or(0), fallbacks + size.fallbacks.unwrap_or(0))
    });
    fallback_row("mTHP fallbacks since boot", faults, fallbacks, thp)
}

/// transhuge.rst: thp_fault_alloc, thp_fault_fallback.
fn thp_fallback(host: &Host, _: &Prices) -> Option<Row> {
    let count = |name: &str| host.vmstat.get(name).copied().unwrap_or(0);
    let thp = host.thp.as_ref()?;
    fallback_row("THP fallbacks since boot", count("thp_fault_alloc"), count("thp_fault_fallback"), thp)
}

fn fallback_row(setting: &'static str, faults: u64, fallbacks: u64, thp: &Thp) -> Option<Row> {
    let share = fallbacks as f64 / (faults + fallbacks).max(1) as f64;
    if fallbacks < LEAST_FALLBACKS || share < FALLBACK_SHARE {
        return None;
    }
    let value = format!("{fallbacks} of {}", faults + fallbacks);
    let meaning = "faults that wanted a larger page and got smaller ones: it could not be had or charged";
    let defrag = thp.defrag.clone().unwrap_or_default();
    let advice = format!("ask for THP early, before memory fragments (defrag is {defrag})");
    Some(Row::new(setting, value, Grade::Note, meaning).advice(advice).source("transhuge.rst"))
}

/// transhuge.rst: the five words, and compact_stall.
fn defrag(host: &Host, _: &Prices) -> Option<Row> {
    const SETTING: &str = "transparent_hugepage/defrag";
    let thp = host.thp.as_ref()?;
    let word = thp.defrag.clone()?;
    let stalls = Count(host.vmstat.get("compact_stall").copied().unwrap_or(0)).of("stall");
    let row = match word.as_str() {
        "always" => {
            let meaning = format!(
                "a fault that finds no free THP reclaims and compacts memory first ({stalls} since boot)"
            );
            Row::new(SETTING, word, Grade::Act, meaning)
                .advice("echo madvise > /sys/kernel/mm/transparent_hugepage/defrag (root), or defer+madvise")
        }
        "madvise" | "defer+madvise" => {
            let meaning =
                format!("only memory with MADV_HUGEPAGE may wait for compaction ({stalls} since boot)");
            Row::new(SETTING, word, Grade::Good, meaning)
        }
        _ => Row::new(SETTING, word, Grade::Good, "no fault waits for compaction"),
    };
    Some(row.source("transhuge.rst"))
}

/// transhuge.rst: max_ptes_none; madvise(2): MADV_COLLAPSE since 6.1.
fn khugepaged(host: &Host, _: &Prices) -> Option<Row> {
    let thp = host.thp.as_ref().filter(|thp| thp.available())?;
    let max = thp.khugepaged.max_ptes_none?;
    let pages = thp.pmd_bytes? / host.page_bytes.max(1);
    let value = max.to_string();
    let row = if max + 1 >= pages as u64 {
        let meaning = format!(
            "khugepaged may make a THP of a range with one touched page of {pages}: sparse heaps grow later"
        );
        Row::new("khugepaged/max_ptes_none", value, Grade::Note, meaning)
            .advice("lower it where heaps are sparse; MADV_COLLAPSE (6.1) for control by the program")
    } else {
        let meaning = format!("khugepaged leaves ranges with more than {max} untouched pages alone");
        Row::new("khugepaged/max_ptes_none", value, Grade::Good, meaning)
    };
    Some(row.source("transhuge.rst; madvise(2)"))
}

/// hugetlbpage.rst; mmap(2): MAP_HUGETLB since 2.6.32; shmget(2): SHM_HUGETLB since 2.6; NEWS of glibc 2.35: hugetlb=2.
fn hugetlb(host: &Host, _: &Prices) -> Option<Row> {
    let pools: Vec<_> = host.hugetlb.iter().filter(|pool| pool.pages > 0).collect();
    let (first, unused) =
        (pools.first()?, pools.iter().all(|pool| pool.free == pool.pages && pool.reserved == 0));
    let value: Vec<String> = pools
        .iter()
        .map(|pool| format!("{} of {} x {} free", pool.free, pool.pages, Bytes(pool.page_bytes as u64)))
        .collect();
    let meaning =
        "memory set aside: only MAP_HUGETLB, SHM_HUGETLB, hugetlbfs and GLIBC_TUNABLES hugetlb=2 can use it";
    let row =
        Row::new("hugetlb pools", value.join(", "), Grade::Note, meaning).source("hugetlbpage.rst; mmap(2)");
    Some(if unused {
        row.advice(format!(
            "nothing uses it: give it back with nr_hugepages=0, or use it (page size {})",
            Bytes(first.page_bytes as u64)
        ))
    } else {
        row
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::host::{HugetlbPool, Mthp};

    fn host(enabled: &str, defrag: &str) -> Host {
        let thp = Thp {
            enabled: Some(enabled.into()),
            defrag: Some(defrag.into()),
            pmd_bytes: Some(2 << 20),
            ..Thp::default()
        };
        Host { thp: Some(thp), page_bytes: 4096, ..Host::default() }
    }

    #[test]
    fn thp_off_asks_for_action_and_madvise_does_not() {
        let grade = |word| thp(&host(word, "madvise"), &Prices::default()).unwrap().grade;
        assert_eq!(grade("never"), Grade::Act);
        assert_eq!(grade("madvise"), Grade::Good);
        assert_eq!(grade("always"), Grade::Good);
    }

    #[test]
    fn the_directory_of_the_size_decides_and_is_what_has_to_change() {
        let mut host = host("madvise", "madvise");
        let size = Mthp { len_bytes: 2 << 20, enabled: "never".into(), ..Mthp::default() };
        host.thp.as_mut().unwrap().sizes.push(size);
        let row = thp(&host, &Prices::default()).unwrap();
        assert_eq!((row.grade, row.value.as_str()), (Grade::Act, "madvise, but never for 2 MiB"));
        assert!(row.advice.unwrap().contains("hugepages-2048kB/enabled"));
    }

    #[test]
    fn a_reserved_hugetlb_page_is_in_use() {
        let pool = HugetlbPool { page_bytes: 2 << 20, pages: 4, free: 4, ..HugetlbPool::default() };
        let mut host = Host { hugetlb: vec![pool], ..Host::default() };
        assert!(hugetlb(&host, &Prices::default()).unwrap().advice.is_some());
        host.hugetlb[0].reserved = 1;
        assert_eq!(hugetlb(&host, &Prices::default()).unwrap().advice, None);
    }

    #[test]
    fn direct_compaction_asks_for_action() {
        assert_eq!(defrag(&host("always", "always"), &Prices::default()).unwrap().grade, Grade::Act);
        assert_eq!(defrag(&host("always", "defer"), &Prices::default()).unwrap().grade, Grade::Good);
    }

    #[test]
    fn a_few_fallbacks_are_not_mentioned() {
        let mut host = host("madvise", "madvise");
        host.vmstat = [("thp_fault_alloc".into(), 1000), ("thp_fault_fallback".into(), 50)].into();
        assert_eq!(thp_fallback(&host, &Prices::default()), None);
        host.vmstat.insert("thp_fault_fallback".into(), 900);
        assert_eq!(thp_fallback(&host, &Prices::default()).unwrap().value, "900 of 1900");
    }
}
