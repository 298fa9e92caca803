//! Copies after a fork.

use super::{Claim, Faults, Proposed, Rule};
use crate::kind::Kind;

pub(super) const RULE: Rule = Rule {
    id: "copy_on_write",
    title: "Copies after a fork",
    about: "After fork(2) parent and child share their pages, and the first write of either copies one. \
            Snapshots (BGSAVE of Redis), servers that fork workers, and collectors or reference counts that \
            write into every object pay it.",
    by_hand: "Private_Dirty in /proc/PID/smaps_rollup of the child; rdb_last_cow_size of Redis.",
    cures: &[
        ["posix_spawn or vfork, if the child runs another program", "nothing", "posix_spawn(3)"],
        [
            "gc.freeze() before the fork, against the collector; not against reference counts",
            "nothing",
            "CPython 3.7, module gc",
        ],
        ["fewer writes while the child lives; no huge pages in the parent", "nothing", "redis.io, latency"],
    ],
    find: |scene| {
        let spawns = crate::program::Spawns::new(&scene.recording.observation);
        let copies = scene.profile.faults.iter().filter(|fault| fault.kind == Kind::CowAfterFork);
        let (mut all, mut spawned) = (0.0, 0.0);
        for fault in copies {
            all += fault.faults;
            spawned += if spawns.cover(fault.pid, fault.time_ns) { fault.faults } else { 0.0 };
        }
        let (what, how) = if 2.0 * spawned > all {
            (
                "copies after a fork whose child runs another program",
                "start programs with posix_spawn or vfork",
            )
        } else {
            (
                "copies after a fork: parent or child writes what both share",
                match scene.has_heap("CPython") {
                    true => {
                        "gc.freeze() before the fork, against the collector; reference counts still write"
                    }
                    false => "write less while a forked child lives",
                },
            )
        };
        let cure = Proposed::new(how, [0.3, 1.0]);
        let claim = Claim {
            what: what.to_owned(),
            faults: Faults::of_kind(Kind::CowAfterFork),
            cures: vec![cure],
            ..Claim::default()
        };
        if all > 0.0 { vec![claim] } else { Vec::new() }
    },
};
