//! Guest-cold memory: pages that the hypervisor has not backed yet fault twice, once in the host.
//!
//! In: the machine's facts and the price of a warm touch. Out: the price of a cold touch, or why there is
//! none.
//!
//! A guest cannot ask which pages are cold. So this code holds the warm pages, touches fresh memory beyond
//! them, and checks whether 2 MiB groups of it cost clearly more. If none does, there is no answer: others
//! may have touched this memory before.

use faultless_os::counters;
use faultless_os::host::Host;
use faultless_os::page;
use faultless_os::touch::time_groups;
use faultless_trace::measurement::{Bytes, Summary, summary};

use super::bench::fresh_aligned;
use super::{Outcome, Price};

/// Touched first and not counted: memory that earlier measurements gave back, which the kernel hands out
/// first.
const WARM_BYTES: usize = 96 << 20;
/// Limit on the fresh memory touched beyond that.
const FRESH_BYTES: usize = 256 << 20;
/// Below this, the answer would rest on a few groups.
const LEAST_BYTES: usize = 32 << 20;
/// Bytes of base pages that are timed together, because hosts often back this much at once.
pub const GROUP_BYTES: usize = 2 << 20;
/// A group is cold if its touches cost this many times a warm one. Measured hosts cost 2.5 to 8 times.
pub const COLD_TIMES: f64 = 2.0;
/// Below this share of cold groups, noise would explain them.
const LEAST_SHARE: f64 = 0.1;
/// Touching stops after this time, ns.
const BUDGET_NS: u64 = 2_500_000_000;

/// The price of a guest-cold first touch, per base page.
pub(super) fn price(host: &Host, warm_ns: Option<f64>) -> Price {
    Price {
        id: "first_touch_guest_cold".into(),
        what: "first touch of a base page that the host has not backed".into(),
        page_bytes: page::size() as u64,
        resolution_ns: 0.0,
        outcome: match measure(host, warm_ns) {
            Ok(summary) => Outcome::Measured(summary),
            Err(reason) => Outcome::CannotSay(reason),
        },
    }
}

fn measure(host: &Host, warm_ns: Option<f64>) -> Result<Summary, String> {
    if host.hypervisor.is_none() {
        return Err("no hypervisor shows itself, so no host backs this memory lazily".into());
    }
    let warm_ns = warm_ns.ok_or("a warm first touch could not be measured")?;
    let room = room_bytes(host).min(WARM_BYTES + FRESH_BYTES);
    if room < WARM_BYTES + LEAST_BYTES {
        return Err(format!("too little free memory ({} may be used for it)", Bytes(room as u64)));
    }
    let groups = touch_groups(room)?;
    if groups.is_empty() {
        return Err("ran out of time before fresh memory was reached".into());
    }
    summary(&cold_groups(&groups, warm_ns)?).ok_or_else(|| "nothing measured".into())
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

/// CPU time per page of each group beyond the warm part. The memory is held until the end, so that no page
/// comes twice.
fn touch_groups(room: usize) -> Result<Vec<f64>, String> {
    let mut region = fresh_aligned(room, GROUP_BYTES)?;
    let begin_ns = counters::now_ns();
    let groups = region.bytes_mut().chunks_exact_mut(GROUP_BYTES);
    let in_time = groups.take_while(|_| counters::now_ns() - begin_ns <= BUDGET_NS);
    Ok(in_time.flat_map(|group| time_groups(group, GROUP_BYTES)).skip(WARM_BYTES / GROUP_BYTES).collect())
}

/// The times of [groups](time_groups) that are cold; why not, if there are none, or so few that noise would explain them.
fn cold_groups(groups: &[f64], warm_ns: f64) -> Result<Vec<f64>, String> {
    let cold: Vec<f64> = groups.iter().copied().filter(|ns| *ns > COLD_TIMES * warm_ns).collect();
    if cold.is_empty() || (cold.len() as f64) < LEAST_SHARE * groups.len() as f64 {
        let fresh = Bytes((groups.len() * GROUP_BYTES) as u64);
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
        assert_eq!(cold_groups(&groups, 1000.0).unwrap(), [5000.0, 6000.0, 5500.0]);
    }

    #[test]
    fn warm_memory_gives_no_figure() {
        let mut groups = [1000.0; 50];
        assert!(cold_groups(&groups, 1000.0).unwrap_err().contains("100 MiB of fresh memory"));
        groups[7] = 5000.0;
        assert!(cold_groups(&groups, 1000.0).is_err(), "one slow group is noise");
        assert!(cold_groups(&[], 1000.0).is_err());
    }

    #[test]
    fn bare_metal_cannot_say() {
        let price = price(&Host::default(), Some(1000.0));
        assert!(matches!(price.outcome, Outcome::CannotSay(reason) if reason.contains("no hypervisor")));
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
