//! Records of the watched processes, where the rings hold those of all processes of the machine.
//!
//! In: records in the order of time. Out: whether a record is kept.

use faultless_trace::observation::{Record, What};
use rustc_hash::FxHashSet;

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Fork(u32),
    Exec(u32),
    Exit(u32),
    /// The exit of a process that is not watched.
    StrangerExit(u32),
}

/// The watched processes so far.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// `None`: all that have records.
    pids: Option<FxHashSet<u32>>,
}

impl Members {
    /// From now on only these processes and their descendants.
    pub(crate) fn only(&mut self, pids: &[u32]) {
        self.pids = Some(pids.iter().copied().collect());
    }

    /// Whether the record is of a watched process. The exit of another one is noted in `tasks`.
    pub(crate) fn keep(&mut self, record: &Record, tasks: &mut Vec<Task>) -> bool {
        let has = self.has(record);
        let is_end = matches!(record.what, What::Exit) && record.pid == record.tid;
        tasks.extend((is_end && !has).then_some(Task::StrangerExit(record.pid)));
        has
    }

    /// A child is a member from its fork on, and stays one: its last records may come after its exit. That ends when
    /// another process gets its number.
    fn has(&mut self, record: &Record) -> bool {
        let (pid, Some(pids)) = (record.pid, &mut self.pids) else { return true };
        match record.what {
            What::Fork { parent } if parent != pid && pids.contains(&parent) => {
                pids.insert(pid);
            }
            What::Fork { parent } if parent != pid => {
                pids.remove(&pid);
            }
            _ => {}
        }
        pids.contains(&pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_belong_until_their_number_is_used_again() {
        let mut members = Members::default();
        let mut tasks = Vec::new();
        let record = |pid, what| Record { time_ns: 0, pid, tid: pid, what };
        assert!(members.keep(&record(8, What::Exec), &mut tasks), "all");
        members.only(&[7]);
        let mut keep = |pid, what| members.keep(&record(pid, what), &mut tasks);
        assert!(keep(7, What::Exec) && !keep(8, What::Exec));
        assert!(keep(9, What::Fork { parent: 7 }) && keep(10, What::Fork { parent: 9 }));
        assert!(keep(10, What::Exit) && keep(10, What::Name("late".into())));
        assert!(keep(7, What::Fork { parent: 7 }), "a thread");
        assert!(!keep(10, What::Fork { parent: 8 }) && !keep(10, What::Exit));
        assert_eq!(tasks, [Task::StrangerExit(10)]);
    }
}
