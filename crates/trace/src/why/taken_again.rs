//! Memory is taken again, and who gave it back was not recorded.

use super::{Claim, Faults, Proposed, Rule, Scene, malloc_settings};
use crate::measurement::Percent;
use crate::program::Memory;
use crate::tuning::{CURVE_OFF, PATTERN_SHARE};

pub(super) const RULE: Rule = Rule {
    id: "taken_again",
    title: "Memory is taken again",
    about: "A recording without system calls does not tell who gives memory back: one of perf, of a running \
            process without `--calls`, or with `--no-calls`. Pages that fault again within their mapping, the blocks \
            of `record --alloc`, and the readings of resident memory show that it was given back.",
    by_hand: "`strace -f -k -e trace=munmap,madvise,brk PROGRAM` shows who gives it back.",
    cures: &[
        [
            "keep what is freed: the settings of the allocator, or faultless run -- PROGRAM",
            "as much memory",
            "-",
        ],
        ["MADV_FREE instead of MADV_DONTNEED", "resident until the kernel wants it", "madvise(2), Linux 4.5"],
    ],
    find: |scene| match scene.given.is_known {
        true => Vec::new(),
        false => [inside(scene)].into_iter().chain(in_blocks(scene).or_else(|| by_curve(scene))).collect(),
    },
};

/// Pages that fault again while their mapping stays.
fn inside<'a>(scene: &Scene<'_>) -> Claim<'a> {
    Claim {
        what: "pages come back that were given back while their mapping stayed".to_owned(),
        faults: Faults::These(scene.profile.basis.iter().map(|basis| basis.again >= PATTERN_SHARE).collect()),
        cures: keep(scene, [0.0, 1.0]),
        ..Claim::default()
    }
}

/// Faults on memory that the process had had in earlier blocks; `None` if no blocks were recorded.
fn in_blocks<'a>(scene: &Scene<'_>) -> Option<Claim<'a>> {
    let flags = scene.grouping.refaulted();
    let ((these, again), (_, all)) = (scene.faults_of(|index, _| flags[index]), scene.faults_of(|_, _| true));
    // No more than the readings of memory say.
    let most = scene.run.most_avoidable.map_or(1.0, |most| (most + CURVE_OFF) * all / again.max(1.0));
    (!scene.profile.blocks.blocks.is_empty()).then(|| Claim {
        what: "memory that the process had in earlier blocks is taken again".to_owned(),
        faults: Faults::These(these),
        cures: keep(scene, [0.85_f64.min(most), most.min(1.0)]),
        ..Claim::default()
    })
}

/// By the readings of resident memory, which do not tell the faults that could be avoided from the others.
fn by_curve<'a>(scene: &Scene<'_>) -> Option<Claim<'a>> {
    let knee = scene.run.knee.filter(|knee| knee.low >= PATTERN_SHARE)?;
    let (these, first) = scene.faults_of(|_, fault| fault.kind.is_first_touch());
    let share = first / scene.faults_of(|_, _| true).1;
    let what = format!("{} of all faults would not have been, had freed memory been kept", Percent(knee.low));
    Some(Claim {
        what,
        faults: Faults::These(these),
        cures: keep(scene, [0.0, (knee.high / share).min(1.0)]),
        ..Claim::default()
    })
}

/// How to keep what is freed: shares that it saves. Nothing at least, where the program itself may have given it back.
fn keep(scene: &Scene<'_>, saves: [f64; 2]) -> Vec<Proposed> {
    let kept = scene.run.knee.map_or(f64::INFINITY, |knee| knee.keep_bytes as f64);
    let set = |name, value: String| Proposed::set(name, value, kept).saving(saves);
    let text = |how: &str| Proposed::keeps(how, kept).saving(saves);
    match scene.run.memory {
        Memory::Malloc => vec![
            set("GLIBC_TUNABLES", malloc_settings(scene.largest_block())),
            text("faultless run -- CMD, for blocks from 64 KiB on"),
        ],
        Memory::Go => vec![set("GODEBUG", "madvdontneed=0".to_owned())],
        Memory::Library(_) | Memory::Own => vec![text("a longer decay in the allocator's settings")],
        _ => vec![text("keep freed memory in the program itself")],
    }
}
