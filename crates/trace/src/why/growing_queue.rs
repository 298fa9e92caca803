//! Blocks pile up between those who make them and those who free them.

use super::{Claim, Faults, Proposed, Rule};
use crate::sites::{BlockLives, Group, NO_STACK, SiteRow};
use crate::tuning::{PATTERN_SHARE, QUEUE_BLOCKS, QUEUE_BYTES, QUEUE_GROWTH};

pub(super) const RULE: Rule = Rule {
    id: "growing_queue",
    title: "A queue grows",
    about: "Blocks are made faster than they are freed, so each is new memory, however well freed ones are kept. \
            It needs `record --alloc`.",
    by_hand: "Resident memory rises for the whole run, and falls when the work ends.",
    cures: &[["bound the queue that blocks wait in", "those who make them wait", "-"]],
    find: |scene| {
        let owners = scene.grouping.sites(Group::Alloc, &crate::profile::Selection::default());
        let growing = |row: &SiteRow| {
            let most =
                row.lives.as_ref().filter(|_| row.refault.unwrap_or(0.0) < PATTERN_SHARE).and_then(saved)?;
            let is_its = |block: u32| {
                let stack = scene.profile.blocks.blocks[block as usize].stack;
                scene.naming.site(stack, NO_STACK) == (row.label.clone(), row.place.clone())
            };
            let faults = scene.profile.faults.iter();
            Some(Claim {
                what: format!("blocks of {} pile up, and are freed in the end", row.label),
                faults: Faults::These(faults.map(|fault| fault.block.is_some_and(is_its)).collect()),
                cures: vec![Proposed::new(
                    "bound the queue that they wait in, so that blocks are used again",
                    [0.0, most],
                )],
                ..Claim::default()
            })
        };
        owners.rows.iter().filter_map(growing).collect()
    },
};

/// The share of their faults that a bound saves at most; `None` if they do not pile up.
fn saved(lives: &BlockLives) -> Option<f64> {
    let (early, late) = (lives.live_early.max(1) as f64, lives.live_late.max(1) as f64);
    let is_large = lives.live_late >= QUEUE_BLOCKS && lives.peak_bytes >= QUEUE_BYTES;
    let passes_through = 2 * lives.never_freed < lives.blocks;
    (late >= QUEUE_GROWTH * early && is_large && passes_through).then(|| 1.0 - early / late)
}
