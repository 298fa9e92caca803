//! The host of a virtual machine backs memory only when it is touched.

use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::profile::{Basis, Weighted};
use crate::tuning::THP_PRICE_RATIO;

/// A first touch so many times dearer than a calibrated one. Guest-cold pages were 4 to 8 times dearer (measured); the
/// kernel's refills of its page lists are 3 times as dear, one fault in 31.
const DEAR: f64 = 4.0;
/// Least share of the first touches that must be so dear.
const PART: f64 = 0.25;
/// Fewest first touches that show it.
const FAULTS: f64 = 1_000.0;
/// The same of huge pages.
const HUGE_FAULTS: f64 = 16.0;

pub(super) const RULE: Rule = Rule {
    id: "cold_guest_memory",
    title: "Memory that the host does not back",
    about: "A guest's page that the host has never backed, or has taken back (balloon, free page reporting, swap of the host), \
            faults twice: in the guest and, unseen, in the host. Such first touches take 4 to 8 times as long. The evidence is the \
            price alone, so another cause in the host is possible.",
    by_hand: "Touch the same amount of memory twice in new processes: the second run is faster.",
    cures: &[
        ["touch the guest's memory once after its start", "that time, and the host's memory", "-"],
        [
            "huge pages in the host; no free page reporting (virtio-balloon)",
            "the host's memory",
            "kernel, mm/free_page_reporting",
        ],
    ],
    find: |scene| claim(scene).into_iter().collect(),
};

fn claim<'a>(scene: &'a Scene<'_>) -> Option<Claim<'a>> {
    let observation = &scene.recording.observation;
    observation.host.hypervisor.as_ref()?;
    let price_ns = scene.price_ns()?;
    let usual_ns = move |fault: &Weighted| match fault.kind {
        Kind::Thp => THP_PRICE_RATIO * price_ns,
        _ => price_ns,
    };
    let is_enough = |is: fn(Kind) -> bool, least: f64| {
        let [dear, all] = dearer(scene, is, usual_ns);
        all >= least && dear >= PART * all
    };
    let is_short = scene.machine("allocstall_") + scene.machine(crate::observation::GROUP_LIMIT) > 0;
    let is_base = is_enough(Kind::is_first_touch, FAULTS);
    let is_huge = is_enough(|kind| kind == Kind::Thp, HUGE_FAULTS) && scene.machine("compact_stall") == 0;
    (!is_short && (is_base || is_huge)).then(|| Claim {
        what: format!(
            "first touches take more than {DEAR:.0} times the usual price: the host of this virtual machine probably backs the memory only now"
        ),
        faults: Faults::Of(Box::new(move |fault: &Weighted| {
            (is_base && fault.kind.is_first_touch() || is_huge && fault.kind == Kind::Thp)
                && fault.cost_ns > DEAR * usual_ns(fault) * fault.faults
        })),
        cures: vec![Proposed::new("touch the guest's memory once before (a warm-up run), or huge pages in the host", [0.5, 0.9])],
        ..Claim::default()
    })
}

/// How many timed faults of such a kind took more than [`DEAR`] times the usual price, and how many there are.
fn dearer(scene: &Scene<'_>, is: fn(Kind) -> bool, usual_ns: impl Fn(&Weighted) -> f64) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for (fault, Basis { reading_ns, .. }) in scene.profile.faults.iter().zip(&scene.profile.basis) {
        let Some(reading_ns) = reading_ns.filter(|_| is(fault.kind)) else { continue };
        sums[0] += if reading_ns > DEAR * usual_ns(fault) { fault.faults } else { 0.0 };
        sums[1] += fault.faults;
    }
    sums
}
