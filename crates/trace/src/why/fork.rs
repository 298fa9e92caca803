//! A fork copies the page tables of a large process, and the child's end tears them down.

use super::{Claim, Proposed, Rule};
use crate::measurement::Nanos;
use crate::observation::{Call, What};

pub(super) const RULE: Rule = Rule {
    id: "fork_page_tables",
    title: "A fork of a large process",
    about: "fork(2) copies the page tables of all resident private memory, and the process is frozen \
            meanwhile. The child tears the copy down in its exec or exit. A table has 8 bytes for 4 KiB of \
            base pages, and for 2 MiB of a huge page.",
    by_hand: "`strace -f -T -e trace=clone,fork PROGRAM`; latest_fork_usec of Redis.",
    cures: &[
        ["posix_spawn or vfork, if the child runs another program", "nothing", "posix_spawn(3)"],
        ["huge pages in the parent", "a copied huge page costs more", "kernel, admin-guide/mm/transhuge"],
        ["a small process that forks for the large one", "that process", "-"],
    ],
    find: |scene| {
        let records = &scene.recording.observation.records;
        let forks = records.iter().filter(|record| record.begins_process()).count() as u64;
        let is_fork = |call: Call, args: &[u64; 4]| {
            // clone with a memory of its own; the flags of clone3 are not seen.
            const CLONE_VM: u64 = 0x100;
            call == Call::Clone && args[0] & CLONE_VM == 0
        };
        let (mut ns, mut longest, mut stack) = (0.0, 0, None);
        for record in records {
            if let What::Call { call, args, ns: Some(took), off_ns, stack: of, .. } = &record.what
                && is_fork(*call, args)
            {
                ns += took.saturating_sub(*off_ns) as f64;
                if *took > longest {
                    (longest, stack) = (*took, *of);
                }
            }
        }
        if forks == 0 || ns == 0.0 {
            return Vec::new();
        }
        vec![Claim {
            what: format!(
                "forks copy the page tables: {} each, {} at most",
                Nanos(ns / forks as f64),
                Nanos(longest as f64)
            ),
            calls: (forks, ns),
            caller: stack.map(|stack| format!("fork <- {}", scene.naming.site(Some(stack), "").0)),
            cures: vec![Proposed::new("posix_spawn or vfork, if the child runs another program", [0.5, 1.0])],
            ..Claim::default()
        }]
    },
};
