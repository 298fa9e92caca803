//! Another thread or process fills the pages.

use std::collections::HashSet;

use super::{Claim, Faults, Proposed, Rule};
use crate::kind::Kind;
use crate::observation::{Call, What};

/// A fault that waits less than this was not filled by another thread, ns: two thread switches take as long.
const WAIT_NS: f64 = 5_000.0;

pub(super) const RULE: Rule = Rule {
    id: "userfaultfd",
    title: "Pages are filled by another thread (userfaultfd)",
    about: "Memory that is registered with userfaultfd(2) is filled by a thread of the program or of another one: live migration \
            and snapshots of virtual machines, post-copy restores, some collectors. Each fault sleeps until the page is there, and counts as a \
            major one.",
    by_hand: "the flag `um` in VmFlags of /proc/PID/smaps; `strace -f -e trace=userfaultfd,ioctl PROGRAM`",
    cures: &[
        [
            "fill more than a page at a time (UFFDIO_COPY of a range), and ahead of the faults",
            "memory that is not needed yet",
            "userfaultfd(2)",
        ],
        [
            "more threads that fill; UFFDIO_COPY with UFFDIO_COPY_MODE_DONTWAKE and one wake for several",
            "-",
            "ioctl_userfaultfd(2)",
        ],
    ],
    find: |scene| {
        let is_user = |what: &What| matches!(what, What::Call { call: Call::Userfaultfd, result, .. } if result.is_none_or(|fd| fd >= 0));
        let records = scene.recording.observation.records.iter();
        let users: HashSet<u32> =
            records.filter(|record| is_user(&record.what)).map(|record| record.pid).collect();
        if users.is_empty() {
            return Vec::new();
        }
        vec![Claim {
            what: "faults sleep until another thread has filled the page (userfaultfd)".to_owned(),
            faults: Faults::Of(Box::new(move |fault| {
                users.contains(&fault.pid)
                    && !scene.is_in_file(fault)
                    && (fault.kind == Kind::Major || fault.wait_ns > WAIT_NS * fault.faults)
            })),
            is_blocked: true,
            cures: vec![Proposed::new(
                "fill more than a page at a time, and ahead of the faults",
                [0.3, 1.0],
            )],
            ..Claim::default()
        }]
    },
};
