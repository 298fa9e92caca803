//! The control group of each process.
//!
//! In: processes, round by round. Out: paths, one text for all processes of a group. Not every process is asked in
//! every round: see [`t::REREAD_ROUNDS`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use faultless_os::cgroups::{Groups, ROOT};

use crate::tuning as t;

/// Where a process was last seen.
#[derive(Debug)]
struct Member {
    /// With the process id it identifies a process.
    began: u64,
    path: Arc<str>,
    rounds: u32,
    /// The last round in which it ran.
    round: u32,
}

/// All processes seen in the last round.
#[derive(Debug)]
pub(crate) struct Members {
    groups: Groups,
    members: HashMap<u32, Member>,
    paths: HashSet<Arc<str>>,
    round: u32,
}

impl Members {
    /// None yet.
    pub(crate) fn new(groups: Groups) -> Self {
        Self { groups, members: HashMap::new(), paths: HashSet::new(), round: 0 }
    }

    /// The control group of a process that runs in this round. One that is gone by now, and was never asked, counts for
    /// the root.
    pub(crate) fn path(&mut self, pid: u32, began: u64) -> Arc<str> {
        let round = self.round;
        let known = self.members.get_mut(&pid).filter(|member| member.began == began);
        if let Some(member) = known {
            member.rounds += 1;
            member.round = round;
            let is_due = member.rounds < 2 || (member.rounds + pid).is_multiple_of(t::REREAD_ROUNDS);
            if !is_due {
                return member.path.clone();
            }
        }
        let read = self.groups.of_process(pid);
        if let Some(member) = self.members.get_mut(&pid).filter(|member| member.began == began) {
            if let Some(read) = read {
                member.path = shared(&mut self.paths, read);
            }
            return member.path.clone();
        }
        let path = shared(&mut self.paths, read.unwrap_or_else(|| ROOT.into()));
        self.members.insert(pid, Member { began, path: path.clone(), rounds: 0, round });
        path
    }

    /// The control group of a process of the last round.
    pub(crate) fn last(&self, pid: u32) -> Option<&Arc<str>> {
        self.members.get(&pid).map(|member| &member.path)
    }

    /// Ends a round: who did not run in it is forgotten.
    pub(crate) fn end_round(&mut self) {
        let round = self.round;
        self.members.retain(|_, member| member.round == round);
        self.paths.retain(|path| Arc::strong_count(path) > 1);
        self.round += 1;
    }

    /// The hierarchies.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }
}

fn shared(paths: &mut HashSet<Arc<str>>, path: String) -> Arc<str> {
    if let Some(known) = paths.get(path.as_str()) {
        return known.clone();
    }
    let path: Arc<str> = path.into();
    paths.insert(path.clone());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_group_and_a_number_used_again_is_asked_anew() {
        let mut members = Members::new(Groups::find());
        let own = std::process::id();
        let path = members.path(own, 7);
        assert_eq!(path, members.groups().of_process(own).unwrap().into());
        members.end_round();
        assert!(Arc::ptr_eq(&path, &members.path(own, 7)));
        members.members.get_mut(&own).unwrap().path = "/before".into();
        assert_ne!(&*members.path(own, 8), "/before", "another process with this number");
        members.end_round();
        members.end_round();
        assert!(members.members.is_empty(), "gone");
    }

    #[test]
    fn a_process_that_is_gone_before_it_was_asked_counts_for_the_root() {
        assert_eq!(&*Members::new(Groups::find()).path(u32::MAX, 1), ROOT);
    }
}
