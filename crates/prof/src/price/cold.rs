//! Guest-cold memory: pages that the hypervisor has not backed yet fault twice, once in the host.
//!
//! In: the machine's facts, and later the prices of warm touches. Out: the prices of cold touches of base pages and of
//! THP, or why there is none.
//!
//! A guest cannot ask which pages are cold, and every measurement warms what it touches. So fresh memory is touched
//! before anything else, and its times are kept. Once warm prices are known, they tell which of them were cold. If
//! none was, there is no answer: others may have touched this memory before.

use faultless_os::counters::{self, process_cpu_ns};
use faultless_os::host::Host;
use faultless_os::touch::{Region, time_groups, time_write};
use faultless_os::{map, page};
use faultless_trace::measurement::{Bytes, Summary, median, summary};

use super::bench::fresh_aligned;
use super::{Outcome, Price, Prices};

/// Limit on the fresh memory, half of it in base pages and half in THP. The kernel hands out last what the host took
/// back, and base pages from broken blocks first, which the host leaves alone.
const FRESH_BYTES: usize = 1 << 30;
/// Below this, the answer would rest on a few groups.
const LEAST_BYTES: usize = 64 << 20;
/// Bytes of base pages that are timed together, because hosts often back this much at once.
pub const GROUP_BYTES: usize = 2 << 20;
/// A touch is cold if it costs this many times a warm one. Measured hosts cost 2.5 to 50 times.
pub const COLD_TIMES: f64 = 2.0;
/// Below this share of cold groups, noise would explain them.
const LEAST_SHARE: f64 = 0.1;
/// The median of cold touches is at least this many times the least of them that may be. A tail of warm touches, as
/// another program's load makes one, ends near it.
const TAIL_TIMES: f64 = 1.2;
/// Cold touches of each kind that are enough.
const ENOUGH: usize = 16;
/// Touching stops after this time, ns.
const BUDGET_NS: u64 = 2_500_000_000;

/// What touches of fresh memory took, ns of CPU time per page of its kind.
#[derive(Default)]
pub(super) struct Fresh {
    /// Of each group of base pages.
    base: Vec<f64>,
    /// Of each THP.
    thp: Vec<f64>,
}

/// Touches fresh memory, base pages and THP in turns.
pub(super) fn touch(host: &Host) -> Result<Fresh, String> {
    if host.hypervisor.is_none() {
        return Err("no hypervisor shows itself, so no host backs this memory lazily".into());
    }
    let room = room_bytes(host).min(FRESH_BYTES);
    if room < LEAST_BYTES {
        return Err(format!("too little free memory ({} may be used for it)", Bytes(room as u64)));
    }
    // All is held until the end, so that no page comes twice.
    let mut base = fresh_aligned(room / 2, GROUP_BYTES)?;
    let thp_bytes = host.thp.as_ref().filter(|thp| thp.available()).and_then(|thp| thp.pmd_bytes);
    let mut thp = thp_bytes.and_then(|bytes| Region::thp(room / 2, bytes).ok());
    let mut thp = thp.iter_mut().flat_map(|thp| thp.bytes_mut().chunks_exact_mut(thp_bytes.unwrap_or(1)));
    let begin_ns = counters::now_ns();
    let mut fresh = Fresh::default();
    for group in base.bytes_mut().chunks_exact_mut(GROUP_BYTES) {
        let is_enough = [&fresh.base, &fresh.thp].into_iter().all(|touches| shows_both(touches));
        if is_enough || counters::now_ns() - begin_ns > BUDGET_NS {
            break;
        }
        fresh.base.extend(time_groups(group, GROUP_BYTES));
        fresh.thp.extend(thp.next().and_then(time_thp));
    }
    Ok(fresh)
}

/// Whether some touches are clearly slower than the fastest: before any warm price is known, that stands for it.
fn shows_both(touches: &[f64]) -> bool {
    let fastest = touches.iter().copied().fold(f64::MAX, f64::min);
    touches.iter().filter(|ns| **ns > 2.0 * COLD_TIMES * fastest).count() >= ENOUGH
}

/// CPU time of the touch of a THP; `None` if the kernel fell back to smaller pages.
fn time_thp(page: &mut [u8]) -> Option<f64> {
    let begin_ns = process_cpu_ns();
    time_write(&mut page[0], 1);
    let ns = process_cpu_ns() - begin_ns;
    (map::resident_bytes(page.as_ptr().addr(), page.len()) == page.len()).then_some(ns as f64)
}

/// The prices of guest-cold first touches, where `warm` has those of warm ones.
pub(super) fn prices(host: &Host, fresh: &Result<Fresh, String>, warm: &Prices) -> Vec<Price> {
    let price = |kind: &str, what: String, page_bytes: usize, touches: fn(&Fresh) -> &[f64]| Price {
        id: format!("{kind}_guest_cold"),
        what: format!("first touch of {what} that the host has not backed"),
        page_bytes: page_bytes as u64,
        resolution_ns: 0.0,
        outcome: match measured(fresh, touches, page_bytes, warm.ns(kind)) {
            Ok(summary) => Outcome::Measured(summary),
            Err(reason) => Outcome::CannotSay(reason),
        },
    };
    let mut prices = vec![price("first_touch", "a base page".into(), page::size(), |fresh| &fresh.base)];
    if let Some(bytes) = host.thp.as_ref().and_then(|thp| thp.pmd_bytes) {
        prices
            .push(price("thp_touch", format!("a THP of {}", Bytes(bytes as u64)), bytes, |fresh| &fresh.thp));
    }
    prices
}

fn measured(
    fresh: &Result<Fresh, String>,
    touches: fn(&Fresh) -> &[f64],
    page_bytes: usize,
    warm_ns: Option<f64>,
) -> Result<Summary, String> {
    let touches = touches(fresh.as_ref()?);
    let warm_ns = warm_ns.ok_or("a warm one could not be measured")?;
    if touches.is_empty() {
        return Err("the kernel gave no fresh page of this kind".into());
    }
    summary(&cold(touches, page_bytes.max(GROUP_BYTES), warm_ns)?).ok_or_else(|| "nothing measured".into())
}

/// An eighth of the available memory, a quarter of the cgroup's rest.
fn room_bytes(host: &Host) -> usize {
    let available = host.memory.available_bytes.unwrap_or(0) / 8;
    let left = host.cgroup.as_ref().and_then(|cgroup| {
        let limit = cgroup.limit_bytes()?;
        Some(limit.saturating_sub(cgroup.current_bytes.unwrap_or(limit)) / 4)
    });
    let limits = host.limits.address_space_bytes.map(|bytes| bytes / 4);
    let room = [Some(available), left, limits].into_iter().flatten().min().unwrap_or(0);
    usize::try_from(room).unwrap_or(usize::MAX)
}

/// The times that are cold; why not, if there are none, or noise would explain them.
fn cold(touches: &[f64], touch_bytes: usize, warm_ns: f64) -> Result<Vec<f64>, String> {
    let cold_from = COLD_TIMES * warm_ns;
    let cold: Vec<f64> = touches.iter().copied().filter(|ns| *ns > cold_from).collect();
    let is_mode = median(&cold).is_some_and(|ns| ns > TAIL_TIMES * cold_from);
    if !is_mode || (cold.len() as f64) < LEAST_SHARE * touches.len() as f64 {
        let fresh = Bytes((touches.len() * touch_bytes) as u64);
        return Err(format!("{fresh} of fresh memory cost no more than warm memory: the host had backed it"));
    }
    Ok(cold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_cost_clearly_more_are_cold() {
        let groups = [1000.0, 1100.0, 5000.0, 6000.0, 5500.0];
        assert_eq!(cold(&groups, GROUP_BYTES, 1000.0).unwrap(), [5000.0, 6000.0, 5500.0]);
    }

    #[test]
    fn warm_memory_gives_no_figure() {
        let mut groups = [1000.0; 50];
        assert!(cold(&groups, GROUP_BYTES, 1000.0).unwrap_err().contains("100 MiB of fresh memory"));
        groups[7] = 5000.0;
        assert!(cold(&groups, GROUP_BYTES, 1000.0).is_err(), "one slow group is noise");
        assert!(cold(&[], GROUP_BYTES, 1000.0).is_err());
        groups[..10].fill(2_300.0);
        assert!(cold(&groups, GROUP_BYTES, 1000.0).is_err(), "a tail is no mode");
    }

    /// A machine with THP on request, whose warm touches have these prices.
    fn warm(base: f64, thp: f64) -> (Host, Prices) {
        let setting = faultless_os::host::Thp {
            enabled: Some("madvise".into()),
            pmd_bytes: Some(2 << 20),
            ..Default::default()
        };
        let price = |id: &str, median| Price {
            id: id.into(),
            what: String::new(),
            page_bytes: 1,
            resolution_ns: 0.0,
            outcome: Outcome::Measured(Summary { median, mad: 0.0, min: median, n: 1 }),
        };
        let list = vec![price("first_touch", base), price("thp_touch", thp)];
        (Host { thp: Some(setting), ..Host::default() }, Prices { list, page_bytes: 4096 })
    }

    #[test]
    fn touching_ends_with_enough_of_both_modes() {
        let of = |slow| [vec![200_000.0; 3], vec![5e6; slow]].concat();
        assert_eq!([15, 16].map(|slow| shows_both(&of(slow))), [false, true]);
        assert!(!shows_both(&[5e6; 100]), "which mode that is shows later");
    }

    #[test]
    fn base_pages_and_thp_have_a_cold_price_each() {
        let (host, warm) = warm(1_000.0, 200_000.0);
        let fresh = Ok(Fresh { base: vec![900.0, 11_000.0], thp: vec![190_000.0, 5e6, 210_000.0, 7e6] });
        let found = prices(&host, &fresh, &warm);
        let ns: Vec<_> = found.iter().map(|price| (price.id.as_str(), price.ns())).collect();
        assert_eq!(ns, [("first_touch_guest_cold", Some(11_000.0)), ("thp_touch_guest_cold", Some(6e6))]);
    }

    #[test]
    fn bare_metal_cannot_say() {
        let (host, warm) = warm(1_000.0, 200_000.0);
        for price in prices(&host, &touch(&host), &warm) {
            assert!(matches!(price.outcome, Outcome::CannotSay(reason) if reason.contains("no hypervisor")));
        }
    }

    #[test]
    fn a_full_cgroup_leaves_no_room() {
        let mut host = Host { hypervisor: Some("KVM".into()), ..Host::default() };
        host.memory.available_bytes = Some(64 << 30);
        host.cgroup = Some(faultless_os::host::Cgroup {
            max_bytes: Some(1 << 30),
            current_bytes: Some(1 << 30),
            ..Default::default()
        });
        assert_eq!(room_bytes(&host), 0);
    }
}
