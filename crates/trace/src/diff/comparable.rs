//! Whether recordings can be compared: refusals with the remedy, and warnings, a sentence each.

use super::{By, Run, Settings};
use crate::measurement::Count;
use crate::recording::Header;
use crate::tuning::LOST_SHARE;

/// Refuses what counts different things.
pub(super) fn check(before: &[Run], after: &[Run], settings: &Settings) -> Result<(), String> {
    check_sides(before, after)?;
    let of_user = |run: &&Run| run.recording.header.settings.user_only;
    let [users, others] = [before, after].map(|runs| runs.iter().filter(of_user).count());
    if !settings.user_only && users + others > 0 && users + others < before.len() + after.len() {
        let word = |users: usize, runs: &[Run]| match users {
            0 => "counts the kernel's faults",
            n if n == runs.len() => "counts those of user mode only",
            _ => "counts the kernel's faults in some recordings only",
        };
        return Err(format!(
            "before {}, after {}: record both the same way, both as root or both as a user; or give --user-only, which \
             compares the faults of user mode",
            word(users, before),
            word(others, after)
        ));
    }
    for (which, runs) in [("before", before), ("after", after)] {
        let has = |run: &Run| run.recording.header.settings.alloc_from_bytes.is_some();
        if settings.by == By::Alloc && !runs.iter().all(has) {
            return Err(format!(
                "{which} holds no allocations; record it with --alloc, or group by function"
            ));
        }
    }
    Ok(())
}

/// Refuses a side without recordings.
pub(super) fn check_sides(before: &[Run], after: &[Run]) -> Result<(), String> {
    if before.is_empty() || after.is_empty() {
        let which = if before.is_empty() { "before" } else { "after" };
        return Err(format!("there is no recording {which}; name at least one"));
    }
    Ok(())
}

/// Differences that make the figures less comparable. `of_kernels`: two kernels may be what is compared.
pub(super) fn warnings(before: &[Run], after: &[Run], of_kernels: bool) -> Vec<String> {
    let named = |which: &'static str| move |(at, run)| (format!("{which} {}", at + 1), run);
    let before = before.iter().enumerate().map(named("before"));
    let runs: Vec<(String, &Run)> = before.chain(after.iter().enumerate().map(named("after"))).collect();
    let facts = FACTS[usize::from(of_kernels)..].iter();
    let mut warnings: Vec<String> = facts
        .filter_map(|(name, fact)| {
            differs(name, runs.iter().map(|(_, run)| fact(&run.recording.header)).collect())
        })
        .collect();
    let first = runs[0].1.recording.footer.as_ref().map(|footer| footer.exit);
    for (name, run) in &runs {
        let faults = run.profile.faults.len() as u64;
        let lost: u64 = run.recording.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.lost));
        if lost as f64 > LOST_SHARE * (faults as f64 + lost as f64) {
            let (faults, lost) = (Count(faults).of("recorded fault"), Count(lost).of("record"));
            warnings.push(format!("recording {name} has {faults} and lost {lost}"));
        }
        match &run.recording.footer {
            None => warnings.push(format!("recording {name} has no end: it was cut off")),
            Some(footer) if Some(footer.exit) != first => {
                warnings.push(format!("the program of recording {name} ended with {}", footer.exit));
            }
            Some(_) => {}
        }
    }
    warnings
}

type Fact = fn(&Header) -> String;

/// What should be the same in all recordings; the kernel first. The period of samples is drawn anew for each
/// recording, and intervals know it.
const FACTS: [(&str, Fact); 8] = [
    ("kernel", |h| h.host.kernel.clone()),
    ("processor", |h| h.host.cpu.clone()),
    ("hypervisor", |h| h.host.hypervisor.clone().unwrap_or_else(|| "none".to_owned())),
    ("transparent huge pages", |h| h.host.thp.clone()),
    ("sizes of mTHP in bytes", |h| format!("{:?}", h.host.mthp_bytes)),
    ("base page in bytes", |h| h.host.page_bytes.to_string()),
    ("every fault recorded", |h| if h.settings.every_fault { "yes" } else { "no" }.to_owned()),
    ("bytes from which allocations are recorded", |h| {
        h.settings.alloc_from_bytes.map_or("none".to_owned(), |bytes| bytes.to_string())
    }),
];

/// Values that are not all the same.
fn differs(name: &str, mut values: Vec<String>) -> Option<String> {
    values.dedup();
    (values.len() > 1).then(|| format!("not the same in all recordings: {name} ({})", values.join(", then ")))
}
