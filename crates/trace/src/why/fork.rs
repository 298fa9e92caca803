//! A fork copies the page tables of a large process, and the child's end tears them down.

use std::collections::{HashMap, HashSet};

use super::{Claim, Proposed, Rule, Scene};
use crate::measurement::Nanos;
use crate::observation::{Call, Record, What};

/// A fork of a small process takes less, ns: it makes a process, and has hardly any page table to copy.
const LARGE_NS: f64 = 400_000.0;

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
    find: |scene| claim(scene).into_iter().collect(),
};

fn claim(scene: &Scene<'_>) -> Option<Claim<'static>> {
    let children = Children::new(scene);
    let forks: Vec<(f64, Option<u32>)> =
        scene.recording.observation.records.iter().filter_map(|record| children.fork(record)).collect();
    let sum_ns: f64 = forks.iter().map(|(ns, _)| ns).sum();
    let (longest_ns, stack) = forks.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let mean_ns = sum_ns / forks.len() as f64;
    if mean_ns < LARGE_NS {
        return None;
    }
    let down = scene.sampled(&[&["exit_mmap"]], |sample| children.is_copy(sample));
    let torn = match down.ns {
        0.0 => String::new(),
        ns => format!("; {} to tear the copies down", Nanos(ns)),
    };
    let how = match children.run_others(scene) {
        true => "posix_spawn or vfork, where the child runs another program",
        false => {
            "fork less often: workers that serve several pieces of work, fewer snapshots, or a smaller process that forks"
        }
    };
    Some(Claim {
        what: format!(
            "forks copy the page tables, and the process is frozen meanwhile: {} each, {} at most{torn}",
            Nanos(mean_ns),
            Nanos(*longest_ns)
        ),
        calls: (forks.len() as u64, sum_ns + down.ns),
        caller: stack.map(|stack| scene.called(Call::Clone, Some(stack))),
        cures: vec![Proposed::new(how, [0.5, 1.0])],
        ..Claim::default()
    })
}

/// Processes that were forked in the run.
#[derive(Default)]
struct Children {
    /// Of each parent: when, and the child.
    begun: HashMap<u32, Vec<(u64, u32)>>,
    /// When each process first gave its memory up, in exec or exit. Before that a forked one has its parent's.
    freed: HashMap<u32, u64>,
    all: HashSet<u32>,
}

impl Children {
    fn new(scene: &Scene<'_>) -> Self {
        let mut found = Self::default();
        for record in &scene.recording.observation.records {
            match record.what {
                What::Fork { parent } if record.begins_process() => {
                    found.begun.entry(parent).or_default().push((record.time_ns, record.pid));
                    found.all.insert(record.pid);
                }
                What::Exec | What::Exit if record.pid == record.tid && found.all.contains(&record.pid) => {
                    found.freed.entry(record.pid).or_insert(record.time_ns);
                }
                _ => {}
            }
        }
        found
    }

    /// CPU time and stack of a call that made a process with a memory of its own. A child of vfork or posix_spawn has its
    /// parent's: such a call ends after the child's exec or exit.
    fn fork(&self, record: &Record) -> Option<(f64, Option<u32>)> {
        let What::Call { call: Call::Clone, ns: Some(ns), off_ns, stack, .. } = record.what else {
            return None;
        };
        let span = record.time_ns..=record.time_ns.saturating_add(ns);
        let (_, child) = self.begun.get(&record.pid)?.iter().find(|(time_ns, _)| span.contains(time_ns))?;
        let has_own = !self.freed.get(child).is_some_and(|freed_ns| span.contains(freed_ns));
        has_own.then(|| (ns.saturating_sub(off_ns) as f64, stack))
    }

    /// Whether one of them runs another program.
    fn run_others(&self, scene: &Scene<'_>) -> bool {
        let mut records = scene.recording.observation.records.iter();
        records.any(|record| matches!(record.what, What::Exec) && self.all.contains(&record.pid))
    }

    /// Whether a sample is of a forked process that still has its parent's memory.
    fn is_copy(&self, sample: &Record) -> bool {
        self.all.contains(&sample.pid)
            && self.freed.get(&sample.pid).is_none_or(|freed_ns| sample.time_ns <= *freed_ns)
    }
}
