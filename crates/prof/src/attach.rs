//! A running process to attach to: whether it can be watched, and its state at that time.
//!
//! In: a process id. Out: its threads, words, names and mappings, or a [`Failure`] that says which right is missing.
//!
//! It does not open events (`session`).

use faultless_os::procfs::{self, Stat};
use faultless_trace::observation::{Map, Record, What};

use crate::request::Failure;

/// A process as it was when we attached.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) pid: u32,
    pub(crate) stat: Stat,
    /// Its command line; its name where it has none.
    pub(crate) command: Vec<String>,
    pub(crate) tids: Vec<i32>,
}

impl Attached {
    /// Looks at `pid`.
    pub(crate) fn find(pid: u32) -> Result<Self, Failure> {
        let stat = procfs::stat(pid).ok_or(Failure::NoProcess(pid))?;
        if stat.of_kernel {
            return Err(Failure::KernelThread(pid));
        }
        let tids: Vec<i32> = procfs::threads(pid).into_iter().map(|tid| tid as i32).collect();
        // A process that has ended stays in /proc until its parent waits for it.
        if tids.is_empty() || stat.has_ended() {
            return Err(Failure::NoProcess(pid));
        }
        let own_user = procfs::owner(std::process::id());
        if procfs::mappings(pid).is_none() {
            let other = procfs::owner(pid).filter(|&user| own_user != Some(user));
            return Err(Failure::NoRight(pid, other));
        }
        let command = procfs::command(pid).filter(|words| !words.is_empty());
        let command = command.or_else(|| Some(vec![procfs::name(pid, pid)?])).unwrap_or_default();
        Ok(Self { pid, stat, command, tids })
    }

    /// Its mappings and the names of its threads, as records with this time.
    pub(crate) fn records(&self, time_ns: u64) -> impl Iterator<Item = Record> {
        let pid = self.pid;
        let record = move |tid, what| Record { time_ns, pid, tid, what };
        let maps = procfs::mappings(pid).unwrap_or_default().into_iter().map(move |map| {
            let name = if map.name.is_empty() { "//anon".to_owned() } else { map.name };
            let (begin, len_bytes, file_offset) = (map.begin, map.len_bytes, map.file_offset);
            let map = Map { begin, len_bytes, prot: map.prot, flags: map.flags, name, file_offset };
            record(pid, What::Map(map))
        });
        let names = self
            .tids
            .iter()
            .filter_map(move |&tid| Some(record(tid as u32, What::Name(procfs::name(pid, tid as u32)?))));
        maps.chain(names)
    }
}
