//! Whether recordings can be compared: refusals, and warnings a sentence each.

use super::{By, Run, Settings};
use crate::measurement::Count;
use crate::recording::{Header, Recording};
use crate::tuning::{DIFF_KERNEL_SAMPLES, DIFF_LOST};

/// Why recordings can't be compared, and the remedy; one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Refuses what counts different things.
pub(super) fn check(before: &[Run], after: &[Run], settings: &Settings) -> Result<(), Refusal> {
    check_sides(before, after)?;
    let of_user = |run: &&Run| run.recording.header.settings.user_only;
    let users = before.iter().chain(after).filter(of_user).count();
    if users > 0 && users < before.len() + after.len() && !settings.user_only {
        let word = |runs: &[Run]| match runs.iter().filter(of_user).count() {
            0 => "counts the kernel's faults",
            n if n == runs.len() => "counts those of user mode only",
            _ => "counts the kernel's faults in some recordings only",
        };
        return Err(Refusal(format!(
            "before {}, after {}: record both the same way, both as root or both as a user; or give --user-only, which \
             compares the faults of user mode",
            word(before),
            word(after)
        )));
    }
    for (which, runs) in [("before", before), ("after", after)] {
        let has = |run: &Run| run.recording.header.settings.alloc_from_bytes.is_some();
        if settings.by == By::Alloc && !runs.iter().all(has) {
            return Err(Refusal(format!(
                "{which} holds no allocations; record it with --alloc, or group by function"
            )));
        }
    }
    Ok(())
}

/// Refuses a side without recordings.
pub(super) fn check_sides(before: &[Run], after: &[Run]) -> Result<(), Refusal> {
    if before.is_empty() || after.is_empty() {
        let which = if before.is_empty() { "before" } else { "after" };
        return Err(Refusal(format!("there is no recording {which}; name at least one")));
    }
    Ok(())
}

impl Refusal {
    /// A recording without enough samples of the kernel in the fault path.
    pub(super) fn few_kernel_samples(recording: &str, samples: u64) -> Self {
        let remedy = "record as root, longer or with a higher --frequency";
        Self(format!(
            "recording {recording} has {} of the kernel in page faults, {DIFF_KERNEL_SAMPLES} are needed; {remedy}",
            Count(samples).of("sample")
        ))
    }
}

/// Differences that make the figures less comparable.
pub(super) fn warnings(before: &[Run], after: &[Run]) -> Vec<String> {
    differences(before, after, &facts())
}

/// The same if two kernels may be what is compared.
pub(super) fn warnings_of_kernels(before: &[Run], after: &[Run]) -> Vec<String> {
    differences(before, after, &facts()[1..])
}

fn differences(before: &[Run], after: &[Run], facts: &[(&str, Fact)]) -> Vec<String> {
    let runs: Vec<(&str, &Recording)> = before
        .iter()
        .map(|run| ("before", &run.recording))
        .chain(after.iter().map(|run| ("after", &run.recording)))
        .collect();
    let mut warnings: Vec<String> = facts
        .iter()
        .filter_map(|(name, fact)| differs(name, runs.iter().map(|(_, run)| fact(&run.header)).collect()))
        .collect();
    for (index, (which, run)) in runs.iter().enumerate() {
        let name = match *which {
            "before" => format!("{which} {}", index + 1),
            _ => format!("{which} {}", index + 1 - before.len()),
        };
        let faults = before.iter().chain(after).nth(index).map_or(0, |run| run.profile.faults.len()) as u64;
        let lost: u64 = run.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.lost));
        if lost as f64 > DIFF_LOST * (faults as f64 + lost as f64) {
            warnings.push(format!(
                "recording {name} has {} and lost {}",
                Count(faults).of("recorded fault"),
                Count(lost).of("record")
            ));
        }
        match &run.footer {
            None => warnings.push(format!("recording {name} has no end: it was cut off")),
            Some(footer) if Some(footer.exit) != runs[0].1.footer.as_ref().map(|first| first.exit) => {
                warnings.push(format!("the program of recording {name} ended with {}", footer.exit));
            }
            Some(_) => {}
        }
    }
    warnings
}

type Fact = fn(&Header) -> String;

/// What should be the same in all recordings; the kernel first.
fn facts() -> [(&'static str, Fact); 9] {
    let settings: [(&'static str, Fact); 3] = [
        ("every fault recorded", |h| if h.settings.every_fault { "yes" } else { "no" }.to_owned()),
        ("bytes of stack per sample", |h| h.settings.stack_bytes.to_string()),
        ("bytes from which allocations are recorded", |h| {
            h.settings.alloc_from_bytes.map_or("none".to_owned(), |bytes| bytes.to_string())
        }),
    ];
    // The period of samples is drawn anew for each recording, and intervals know it.
    let [every, stack, alloc] = settings;
    [
        ("kernel", |h| h.host.kernel.clone()),
        ("processor", |h| h.host.cpu.clone()),
        ("hypervisor", |h| h.host.hypervisor.clone().unwrap_or_else(|| "none".to_owned())),
        ("transparent huge pages", |h| h.host.thp.clone()),
        ("sizes of mTHP in bytes", |h| format!("{:?}", h.host.mthp_bytes)),
        ("base page in bytes", |h| h.host.page_bytes.to_string()),
        every,
        stack,
        alloc,
    ]
}

/// Values that are not all the same.
fn differs(name: &str, mut values: Vec<String>) -> Option<String> {
    values.dedup();
    (values.len() > 1).then(|| format!("not the same in all recordings: {name} ({})", values.join(", then ")))
}
