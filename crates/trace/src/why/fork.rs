//! A fork copies the page tables of a large process, and the child's end tears them down.

use super::{Claim, Proposed, Rule, Scene};
use crate::measurement::Nanos;
use crate::observation::{Call, What};

pub(super) const RULE: Rule = Rule {
    id: "fork_page_tables",
    about: "fork(2) copies the page tables of all resident private memory: some 30 us per MiB of base pages, a hundredth of \
            that with huge pages; the child's exec or exit tears them down, and the caller is frozen meanwhile. posix_spawn and \
            vfork copy nothing. By hand: `strace -f -T -e clone,fork`.",
    find: |scene: &Scene<'_>| {
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
        let naming = crate::sites::Naming::new(scene.recording, scene.profile);
        vec![Claim {
            what: format!("forks copy the page tables: {} each, {} at most", Nanos(ns / forks as f64), Nanos(longest as f64)),
            calls: (forks, ns),
            caller: stack.map(|stack| format!("fork <- {}", naming.site(Some(stack), "").0)),
            cures: vec![Proposed {
                how: "posix_spawn or vfork, if the child runs another program".to_owned(),
                saves: [0.5, 1.0],
                keeps_bytes: None,
                note: None,
            }],
            ..Claim::default()
        }]
    },
};
