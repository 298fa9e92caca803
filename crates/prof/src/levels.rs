//! The fault counter and resident anonymous memory of a process tree, over time.
//!
//! In: processes as they come and go, and the tree's fault counter. Out: [`Level`]s. Memory that a process
//! held when it exited or called exec stays in the sum. No later process could have reused it, and a falling
//! sum would look like a release. Memory that a forked child shares with its parent is counted once.
//!
//! It does not see a fall and a rise between two readings, or a process's changes after its last
//! reading.

use std::collections::HashMap;

use faultless_os::procfs::{self, Statm};
use faultless_trace::observation::Level;

use crate::tuning as t;

/// The processes of the tree, and the levels so far.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    members: HashMap<u32, Member>,
    /// Bytes that ended processes last held.
    gone_bytes: u64,
    /// The largest fault count read so far from /proc, if /proc is the source of fault counts.
    proc_faults: u64,
    levels: Vec<Level>,
    last: Option<Level>,
    /// The last reading that found a live process: its time, and what all of them held.
    end: Option<(u64, u64)>,
    /// How often every second level has been dropped.
    thinned: u32,
}

#[derive(Debug)]
struct Member {
    statm: Option<Statm>,
    /// Memory shared with its parent at the first reading; `None` before that.
    inherited: Option<u64>,
    /// Its own bytes at the last reading.
    bytes: u64,
    /// How often it was read, and whether it was found to have switched huge pages off.
    readings: u32,
    no_huge_pages: bool,
}

impl Member {
    fn new(pid: u32, inherited: Option<u64>) -> Self {
        Self { statm: Statm::open(pid), inherited, bytes: 0, readings: 0, no_huge_pages: false }
    }
}

impl Levels {
    /// The program itself: nothing inherited.
    pub(crate) fn begin(&mut self, pid: u32) {
        self.members.insert(pid, Member::new(pid, Some(0)));
    }

    /// A process was forked.
    pub(crate) fn fork(&mut self, pid: u32) {
        self.exit(pid);
        self.members.insert(pid, Member::new(pid, None));
    }

    /// A process called exec: its memory starts from zero.
    pub(crate) fn exec(&mut self, pid: u32) {
        if let Some(member) = self.members.get_mut(&pid) {
            self.gone_bytes += std::mem::take(&mut member.bytes);
            member.inherited = Some(0);
            member.readings = 0;
        }
    }

    /// A process ended.
    pub(crate) fn exit(&mut self, pid: u32) {
        if let Some(member) = self.members.remove(&pid) {
            self.gone_bytes += member.bytes;
        }
    }

    /// Finds children by walking /proc, where no event tells of them.
    pub(crate) fn discover(&mut self) {
        let mut known: Vec<u32> = self.members.keys().copied().collect();
        while let Some(pid) = known.pop() {
            for child in procfs::children(pid) {
                if !self.members.contains_key(&child) {
                    self.fork(child);
                    known.push(child);
                }
            }
        }
    }

    /// Processes seen and not known to have ended.
    pub(crate) fn members(&self) -> impl Iterator<Item = u32> {
        self.members.keys().copied()
    }

    /// Faults of the tree from /proc, if no event counts them: of every process, and of the children it
    /// waited for. A child is missing between its end and its parent's wait, so the sum is kept from falling.
    pub(crate) fn faults_by_proc(&mut self) -> u64 {
        let stats = self.members.keys().filter_map(|&pid| procfs::stat(pid));
        self.proc_faults = self.proc_faults.max(stats.map(|stat| stat.faults()).sum());
        self.proc_faults
    }

    /// CPU time of the members and of the children that they waited for, from /proc, ns.
    pub(crate) fn cpu_ns_by_proc(&self) -> u64 {
        self.members.keys().filter_map(|&pid| procfs::stat(pid)).map(|stat| stat.usage().cpu_ns()).sum()
    }

    /// Reads the memory of all members and records a level. Returns whether anything has changed.
    pub(crate) fn read(&mut self, time_ns: u64, faults: u64) -> bool {
        let mut gone = Vec::new();
        let mut live_bytes = 0;
        for (&pid, member) in &mut self.members {
            match member.statm.as_ref().and_then(Statm::anon_bytes) {
                Some(bytes) => {
                    let inherited = *member.inherited.get_or_insert(bytes);
                    member.bytes = bytes.saturating_sub(inherited);
                    live_bytes += member.bytes;
                }
                None => gone.push(pid),
            }
        }
        for pid in gone {
            self.exit(pid);
        }
        // A process that is ending has given its memory back, and tells of none.
        self.end = Some((time_ns, live_bytes)).filter(|_| live_bytes > 0).or(self.end);
        self.push(Level { time_ns, faults, anon_bytes: self.gone_bytes + live_bytes })
    }

    fn push(&mut self, level: Level) -> bool {
        let last = self.last.unwrap_or_default();
        let changed = (level.faults, level.anon_bytes) != (last.faults, last.anon_bytes);
        if changed || self.last.is_none() {
            self.last = Some(level);
            self.levels.push(level);
        }
        if self.levels.len() >= t::LEVELS_MAX {
            let mut index = 0;
            self.levels.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.thinned += 1;
        }
        changed
    }

    /// What the members held at the last reading, without those that ended.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.members.values().map(|member| member.bytes).sum()
    }

    /// What the members held before they ended, if that was read in the last part of the time from `begin_ns` to
    /// `end_ns`: a short program may not have been read for most of its time.
    pub(crate) fn end_bytes(&self, begin_ns: u64, end_ns: u64) -> Option<u64> {
        let late_ns = end_ns.saturating_sub(end_ns.saturating_sub(begin_ns) / t::END_SHARE);
        self.end.filter(|&(time_ns, _)| time_ns >= late_ns).map(|(_, bytes)| bytes)
    }

    /// The members that were found since the last call to have switched huge pages off. A program does so at its start, or
    /// when it has read its settings: asked after 1, 2, 4 ... readings.
    pub(crate) fn without_huge_pages(&mut self) -> Vec<u32> {
        let mut found = Vec::new();
        for (&pid, member) in &mut self.members {
            member.readings += 1;
            let is_asked = member.readings.is_power_of_two() && !member.no_huge_pages;
            if is_asked && procfs::has_huge_pages(pid) == Some(false) {
                member.no_huge_pages = true;
                found.push(pid);
            }
        }
        found
    }

    /// How often every second level has been dropped.
    pub(crate) fn thinned(&self) -> u32 {
        self.thinned
    }

    /// Those since the last call.
    pub(crate) fn take(&mut self) -> Vec<Level> {
        std::mem::take(&mut self.levels)
    }

    /// The levels.
    pub(crate) fn finish(self) -> Vec<Level> {
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn member(bytes: u64) -> Member {
        Member { statm: None, bytes, ..Member::new(0, Some(0)) }
    }

    #[test]
    fn memory_of_an_ended_process_is_no_release() {
        let mut levels = Levels::default();
        levels.push(Level { time_ns: 1, faults: 256, anon_bytes: MIB });
        levels.members.insert(7, member(MIB));
        levels.exit(7);
        levels.read(2, 256);
        assert_eq!(levels.levels.last().unwrap().anon_bytes, MIB);
    }

    #[test]
    fn what_a_process_touched_after_its_last_reading_is_in_no_level() {
        let mut levels = Levels::default();
        levels.members.insert(7, member(MIB));
        levels.push(Level { time_ns: 1, faults: 256, anon_bytes: MIB });
        levels.exit(7);
        levels.read(2, 5000);
        assert_eq!(*levels.levels.last().unwrap(), Level { time_ns: 2, faults: 5000, anon_bytes: MIB });
    }

    #[test]
    fn what_was_held_at_the_end_is_that_of_the_last_reading_with_a_live_process() {
        let mut levels = Levels::default();
        levels.read(1, 0);
        assert_eq!(levels.end_bytes(0, 1), None);
        levels.members.insert(7, member(MIB));
        levels.exit(7);
        levels.begin(std::process::id());
        levels.read(100, 0);
        let held = levels.held_bytes();
        levels.exit(std::process::id());
        levels.read(104, 0);
        assert!(held > 0);
        assert_eq!([105, 200].map(|end_ns| levels.end_bytes(0, end_ns)), [Some(held), None], "too long ago");
    }

    #[test]
    fn faults_of_a_child_that_came_and_went_between_two_readings_are_counted() {
        let mut levels = Levels::default();
        levels.begin(std::process::id());
        let before = levels.faults_by_proc();
        std::process::Command::new("/bin/sh").args(["-c", ":"]).status().unwrap();
        assert!(levels.faults_by_proc() > before + 20, "a shell takes hundreds of faults");
    }

    #[test]
    fn a_reading_that_changes_nothing_is_not_kept() {
        let mut levels = Levels::default();
        levels.begin(std::process::id());
        levels.push(Level { time_ns: 1, faults: 5, anon_bytes: MIB });
        assert!(!levels.push(Level { time_ns: 2, faults: 5, anon_bytes: MIB }));
        assert_eq!(levels.levels.len(), 1);
    }

    #[test]
    fn the_list_is_thinned_before_it_grows_without_end() {
        let mut levels = Levels::default();
        for index in 0..t::LEVELS_MAX as u64 + 10 {
            levels.push(Level { time_ns: index, faults: index, anon_bytes: 0 });
        }
        assert!(levels.levels.len() < t::LEVELS_MAX * 3 / 4);
        assert!(levels.levels.is_sorted_by_key(|level| level.time_ns));
    }
}
