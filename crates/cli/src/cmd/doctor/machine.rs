//! Rows about the kernel, the virtual machine and the processor.

use faultless_os::host::Host;
use faultless_os::page::Order;
use faultless_prof::price::{Outcome, Prices};
use faultless_trace::measurement::{Bytes, Nanos};

use super::row::{Grade, Row, Rule};

pub(super) const RULES: &[Rule] = &[
    hidden_proc,
    hidden_sys,
    virtual_machine,
    reporting,
    init_on_alloc,
    init_on_free,
    vma_locks,
    populate,
    isolation,
    debug_kernel,
];

fn hidden_proc(host: &Host, _: &Prices) -> Option<Row> {
    let meaning = "kernel, memory, limits and settings can't be known: what is missing below is unknown, not absent; stat draws no avoidable curve";
    host.hides_proc().then(|| {
        Row::new("/proc", "hidden", Grade::Note, meaning)
            .advice("mount -t proc proc /proc (root)")
            .source("proc(5)")
    })
}

fn hidden_sys(host: &Host, _: &Prices) -> Option<Row> {
    let meaning = "THP, hugetlb and memory limits can't be known: what is missing below is unknown, not absent; stat can't tell faults of huge pages";
    host.hides_sys().then(|| {
        Row::new("/sys", "hidden", Grade::Note, meaning)
            .advice("mount -t sysfs sys /sys (root)")
            .source("sysfs(5)")
    })
}

/// The hypervisor's behaviour is measured, since it is not documented.
fn virtual_machine(host: &Host, prices: &Prices) -> Option<Row> {
    let name = host.hypervisor.clone()?;
    let meaning = match cold_prices(prices) {
        Ok(prices) => format!("memory that the host does not back yet faults twice: {prices}"),
        Err(reason) => {
            format!("memory that the host does not back yet would fault twice; price: cannot say ({reason})")
        }
    };
    let nested = if host.kernel.parameter("nested_pvm").is_some() { ", nested_pvm" } else { "" };
    Some(
        Row::new("virtual machine", format!("{name}{nested}"), Grade::Note, meaning)
            .advice(
                "keep freed memory instead of returning it; touch the amount needed once before measuring",
            )
            .source("measured here"),
    )
}

/// What touches cost that fault in the host too, beside warm ones; else why that is not known.
fn cold_prices(prices: &Prices) -> Result<String, String> {
    let mut reason = "not measured".to_owned();
    let mut known = Vec::new();
    for (kind, unit) in [("first_touch", "base page"), ("thp_touch", "THP")] {
        let id = format!("{kind}_guest_cold");
        let cold = prices.list.iter().find(|price| price.id == id).map(|price| &price.outcome);
        match (cold, prices.ns(kind)) {
            (Some(Outcome::Measured(cold)), Some(warm)) => known.push(format!(
                "{} per {unit} instead of {} ({:.1}x)",
                Nanos(cold.median),
                Nanos(warm),
                cold.median / warm
            )),
            (Some(Outcome::CannotSay(why)), _) => reason.clone_from(why),
            _ => {}
        }
    }
    if known.is_empty() { Err(reason) } else { Ok(known.join(", ")) }
}

/// VIRTIO_BALLOON_F_REPORTING (5.7) is bit 5 of the balloon's features (include/uapi/linux/virtio_balloon.h).
/// mm/page_reporting.c walks the free lists from `page_reporting_order` (5.14) upwards.
fn reporting(host: &Host, _: &Prices) -> Option<Row> {
    let balloon = host.balloon.filter(|balloon| balloon.free_page_reporting)?;
    let value = match balloon.reporting_order {
        Some(order) => format!("on, blocks of {} and more", Bytes(Order(order).len_bytes() as u64)),
        None => "on".into(),
    };
    let meaning = "free memory of this guest is given back to the host: its next touch faults here and there";
    Some(
        Row::new("free page reporting", value, Grade::Note, meaning)
            .advice("keep freed memory in the program (`faultless run`); retaining is worth more than on bare metal")
            .source("include/uapi/linux/virtio_balloon.h; mm/page_reporting.c"),
    )
}

/// Whether a boot-time switch is on, from the parameter or else the kernel's configuration. `None` if neither
/// says.
fn switched_on(host: &Host, parameter: &str, option: &str) -> Option<bool> {
    match host.kernel.parameter(parameter) {
        Some(value) => Some(matches!(value, "1" | "on" | "y" | "Y")),
        None => host.kernel.option(option),
    }
}

/// kernel-parameters.txt. Commit 5708d96da20b (6.13): before it, the allocator cleared THP and mTHP of
/// anonymous memory, and the fault cleared them again, on all architectures. Instruction counts on 6.1 and
/// 6.12 agreed.
fn init_on_alloc(host: &Host, _: &Prices) -> Option<Row> {
    const SETTING: &str = "init_on_alloc";
    let row = match (
        switched_on(host, SETTING, "CONFIG_INIT_ON_ALLOC_DEFAULT_ON")?,
        host.kernel.at_least(6, 13)?,
    ) {
        (false, _) => Row::new(SETTING, "off", Grade::Good, "pages are cleared once"),
        (true, true) => {
            Row::new(SETTING, "on", Grade::Good, "anonymous memory is still cleared once since 6.13")
        }
        (true, false) => {
            Row::new(SETTING, "on", Grade::Act, "before 6.13 each THP and mTHP is cleared twice")
                .advice("boot with init_on_alloc=0 where policy allows, or a kernel >= 6.13")
        }
    };
    Some(row.source("kernel-parameters.txt; commit 5708d96da20b"))
}

/// kernel-parameters.txt (5.3). post_alloc_hook() of mm/page_alloc.c does not clear pages again that were
/// cleared when freed. user_alloc_needs_zeroing() (6.13, and its predecessors) still clears THP in the fault.
fn init_on_free(host: &Host, _: &Prices) -> Option<Row> {
    let on = switched_on(host, "init_on_free", "CONFIG_INIT_ON_FREE_DEFAULT_ON")?;
    on.then(|| {
        let meaning =
            "pages are cleared when freed: faults of base pages are shorter, munmap and exit longer";
        Row::new("init_on_free", "on", Grade::Note, meaning).source("kernel-parameters.txt; mm/page_alloc.c")
    })
}

/// Documentation/mm/process_addrs.rst. Since 6.4 for anonymous memory on x86-64 and aarch64 (commit
/// 0bff0aaea03e; LWN, "Stabilizing per-VMA locking").
fn vma_locks(host: &Host, _: &Prices) -> Option<Row> {
    const SETTING: &str = "per-VMA locks";
    let since = host.kernel.at_least(6, 4)?;
    let on = since && host.kernel.option("CONFIG_PER_VMA_LOCK") != Some(false);
    let row = if on {
        Row::new(SETTING, "yes", Grade::Good, "a fault does not wait for changes to other mappings")
    } else {
        let meaning = "faults of all threads share one lock with mmap, munmap and mprotect";
        Row::new(SETTING, "no", Grade::Note, meaning)
            .advice("kernel >= 6.4; until then avoid mmap and munmap in threaded phases (`faultless run`)")
    };
    Some(row.source("Documentation/mm/process_addrs.rst"))
}

/// madvise(2): since 5.14.
fn populate(host: &Host, prices: &Prices) -> Option<Row> {
    const SETTING: &str = "MADV_POPULATE_WRITE";
    host.kernel.release?;
    let row = match &host.probes.populate_write {
        Ok(()) => {
            let ratio = prices.ns("populate_write").zip(prices.ns("first_touch")).map(|(a, b)| a / b);
            let ratio =
                ratio.map(|ratio| format!(" ({ratio:.2}x the time of touching here)")).unwrap_or_default();
            let meaning =
                format!("prefaulting moves the cost to another time or thread, it does not remove it{ratio}");
            Row::new(SETTING, "works", Grade::Good, meaning)
        }
        Err(error) => {
            Row::new(SETTING, "no", Grade::Note, format!("memory cannot be prefaulted in place ({error})"))
                .advice("kernel >= 5.14; until then touch each page")
        }
    };
    Some(row.source("madvise(2); measured here"))
}

/// Documentation/arch/x86/pti.rst: entry and exit write the page table register.
fn isolation(host: &Host, _: &Prices) -> Option<Row> {
    let meltdown = host.vulnerabilities.get("meltdown").filter(|text| text.contains("PTI"))?;
    let meaning = "each entry to the kernel, so each fault, also switches page tables";
    Some(
        Row::new("page table isolation", meltdown.clone(), Grade::Note, meaning)
            .advice("leave it on; fewer faults (THP, reuse) pay more here")
            .source("Documentation/arch/x86/pti.rst"),
    )
}

/// kernel-parameters.txt: page_poison is off unless requested; debug_pagealloc has a build option that turns
/// it on. Documentation/dev-tools/kasan.rst.
fn debug_kernel(host: &Host, _: &Prices) -> Option<Row> {
    let on = |parameter, option| switched_on(host, parameter, option) == Some(true);
    let found: Vec<&str> = [
        ("page_poison", on("page_poison", "")),
        ("debug_pagealloc", on("debug_pagealloc", "CONFIG_DEBUG_PAGEALLOC_ENABLE_DEFAULT")),
        ("KASAN", host.kernel.option("CONFIG_KASAN") == Some(true)),
    ]
    .into_iter()
    .filter_map(|(name, on)| on.then_some(name))
    .collect();
    if found.is_empty() {
        return None;
    }
    let meaning = "the kernel checks memory at each allocation, and faults pay for it";
    Some(
        Row::new("debug kernel", found.join(", "), Grade::Act, meaning)
            .advice("do not draw conclusions about other machines from figures of this one")
            .source("kernel-parameters.txt; kasan.rst"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::host::{Balloon, Kernel, Release};
    use faultless_prof::price::Price;
    use faultless_trace::measurement::Summary;

    fn kernel(release: &str, cmdline: &str) -> Host {
        let kernel =
            Kernel { release: Release::parse(release), cmdline: Some(cmdline.into()), ..Kernel::default() };
        Host { kernel, ..Host::default() }
    }

    #[test]
    fn double_clearing_is_reported_only_before_the_fix() {
        let grade = |release| {
            init_on_alloc(&kernel(release, "quiet init_on_alloc=1"), &Prices::default()).map(|row| row.grade)
        };
        assert_eq!(grade("6.1.0"), Some(Grade::Act));
        assert_eq!(grade("6.13.0"), Some(Grade::Good));
        assert_eq!(init_on_alloc(&kernel("6.1.0", "quiet"), &Prices::default()), None, "unknown is not off");
    }

    #[test]
    fn reporting_is_what_the_device_says_not_the_boot_parameter() {
        let mut host = kernel("6.18.0", "page_reporting.page_reporting_order=11");
        assert_eq!(reporting(&host, &Prices::default()), None);
        host.balloon = Some(Balloon { free_page_reporting: true, reporting_order: Some(0) });
        let value = reporting(&host, &Prices::default()).unwrap().value;
        assert_eq!(value, format!("on, blocks of {} and more", Bytes(faultless_os::page::size() as u64)));
    }

    #[test]
    fn memory_that_the_host_took_back_has_a_price_for_each_size_of_page_or_a_reason() {
        let price = |id: &str, outcome| Price {
            id: id.into(),
            what: String::new(),
            page_bytes: 1,
            resolution_ns: 0.0,
            outcome,
        };
        let measured = |median| Outcome::Measured(Summary { median, mad: 0.0, min: median, n: 3 });
        let meaning = |cold: [Outcome; 2]| {
            let [base, thp] = cold;
            let list = vec![
                price("first_touch", measured(1_000.0)),
                price("thp_touch", measured(200_000.0)),
                price("first_touch_guest_cold", base),
                price("thp_touch_guest_cold", thp),
            ];
            let host = Host { hypervisor: Some("KVM".into()), ..Host::default() };
            virtual_machine(&host, &Prices { list, page_bytes: 4096 }).unwrap().meaning
        };
        let both = meaning([measured(11_000.0), measured(5_000_000.0)]);
        assert!(both.contains("11.0 us per base page instead of 1.00 us (11.0x)"), "{both}");
        assert!(both.contains("5.00 ms per THP instead of 200 us (25.0x)"), "{both}");
        let none = meaning([1, 2].map(|_| Outcome::CannotSay("the host had backed it".into())));
        assert!(none.ends_with("cannot say (the host had backed it)"), "{none}");
    }

    #[test]
    fn old_kernels_have_no_vma_locks() {
        assert_eq!(vma_locks(&kernel("6.1.0", ""), &Prices::default()).unwrap().value, "no");
        assert_eq!(vma_locks(&kernel("6.4.0", ""), &Prices::default()).unwrap().value, "yes");
    }

    #[test]
    fn only_real_isolation_is_mentioned() {
        let mut host = kernel("6.1.0", "");
        host.vulnerabilities = [("meltdown".into(), "Not affected".into())].into();
        assert_eq!(isolation(&host, &Prices::default()), None);
        host.vulnerabilities = [("meltdown".into(), "Mitigation: PTI".into())].into();
        assert!(isolation(&host, &Prices::default()).is_some());
    }
}
