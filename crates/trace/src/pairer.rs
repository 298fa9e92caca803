//! Entry and end of a fault -> a pair, with what its thread waited in between.
//!
//! In: entries, ends and switches of threads, each thread's in the order of time. Out: the entry that an end belongs
//! to. A thread is in one fault at a time, so that is its last one, if the addresses agree.
//!
//! Weakness: lost records can produce a wrong pair. That takes a lost end, a lost entry, and the same address
//! again right after, as in a read of the zero page followed by a write. Such a pair is too long.
//!
//! It does not correct a time, or know what a record means.

use std::collections::HashMap;

/// The threads, and the fault that each is in.
#[derive(Clone, Debug)]
pub struct Pairer<T> {
    threads: HashMap<u32, Thread<T>>,
}

#[derive(Clone, Debug)]
struct Thread<T> {
    entry: Option<Entry<T>>,
    /// Since its last entry or end.
    off_cpu: OffCpu,
}

/// The entry of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<T> {
    /// When.
    pub time_ns: u64,
    /// The address that faulted.
    pub addr: u64,
    /// What the caller wants to know at the end.
    pub with: T,
}

/// How long a thread had no processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// It was able to run.
    pub preempted_ns: u64,
    /// It waited: for a disk, for a lock, for a handler of userfaultfd. And then until it ran again.
    pub blocked_ns: u64,
    /// The last of these waits.
    pub last_ns: u64,
    /// When it gave up its processor, if it has none, and whether it was able to run.
    left: Option<(u64, bool)>,
}

impl OffCpu {
    /// In all.
    pub fn ns(&self) -> u64 {
        self.preempted_ns + self.blocked_ns
    }
}

impl<T> Default for Pairer<T> {
    fn default() -> Self {
        Self { threads: HashMap::new() }
    }
}

impl<T> Default for Thread<T> {
    fn default() -> Self {
        Self { entry: None, off_cpu: OffCpu::default() }
    }
}

impl<T> Pairer<T> {
    /// The thread enters a fault. Returns the last one if that has not ended.
    pub fn enter(&mut self, tid: u32, time_ns: u64, addr: u64, with: T) -> Option<Entry<T>> {
        let entry = Some(Entry { time_ns, addr, with });
        self.threads.insert(tid, Thread { entry, off_cpu: OffCpu::default() })?.entry
    }

    /// The thread gives up its processor (`out`), able to run if `preempted`, or gets one.
    pub fn switch(&mut self, tid: u32, time_ns: u64, out: bool, preempted: bool) {
        let off_cpu = &mut self.threads.entry(tid).or_default().off_cpu;
        if let Some((left_ns, preempted)) = off_cpu.left.take() {
            let ns = time_ns.saturating_sub(left_ns);
            if preempted {
                off_cpu.preempted_ns += ns;
            } else {
                (off_cpu.blocked_ns, off_cpu.last_ns) = (off_cpu.blocked_ns + ns, ns);
            }
        }
        off_cpu.left = out.then_some((time_ns, preempted));
    }

    /// A fault at `addr` ends. `None`, and nothing changes, if the thread is in no such fault.
    pub fn end(&mut self, tid: u32, addr: u64) -> Option<(Entry<T>, OffCpu)> {
        let entry = self.threads.get(&tid)?.entry.as_ref();
        if entry.is_none_or(|entry| entry.addr != addr) {
            return None;
        }
        let (entry, off_cpu) = self.take(tid);
        Some((entry?, off_cpu))
    }

    /// A fault ends, which may be another than the one that was entered last: that, and the waits since then, or since
    /// the last end.
    pub fn take(&mut self, tid: u32) -> (Option<Entry<T>>, OffCpu) {
        self.threads.remove(&tid).map(|thread| (thread.entry, thread.off_cpu)).unwrap_or_default()
    }

    /// The faults that have not ended.
    pub fn into_open(self) -> impl Iterator<Item = Entry<T>> {
        self.threads.into_values().filter_map(|thread| thread.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_belongs_to_the_last_entry_of_its_thread_if_the_addresses_agree() {
        let mut pairer = Pairer::default();
        assert_eq!(pairer.enter(1, 10, 0x5000, 'a'), None);
        assert_eq!(pairer.enter(2, 11, 0x5000, 'b'), None);
        let lost = pairer.enter(1, 20, 0x6000, 'c');
        assert_eq!(lost.map(|entry| (entry.time_ns, entry.with)), Some((10, 'a')));
        assert_eq!(pairer.end(1, 0x7000), None);
        assert_eq!(pairer.end(1, 0x6000).map(|(entry, _)| entry.with), Some('c'));
        assert_eq!(pairer.end(1, 0x6000), None, "it has ended");
        assert_eq!(pairer.take(2).0.map(|entry| entry.with), Some('b'));
        assert_eq!(pairer.into_open().count(), 0);
    }

    #[test]
    fn preemption_and_waits_inside_a_fault_are_told_apart() {
        let mut pairer = Pairer::default();
        pairer.switch(1, 5, true, true);
        pairer.switch(1, 8, false, false);
        pairer.enter(1, 10, 0x5000, ());
        for (time_ns, out, preempted) in
            [(20, true, true), (50, false, false), (60, true, false), (80, false, false)]
        {
            pairer.switch(1, time_ns, out, preempted);
        }
        let (_, off_cpu) = pairer.end(1, 0x5000).unwrap();
        assert_eq!((off_cpu.preempted_ns, off_cpu.blocked_ns, off_cpu.last_ns), (30, 20, 20));
        pairer.switch(1, 110, true, false);
        pairer.switch(1, 150, false, false);
        assert_eq!(pairer.take(1).1.last_ns, 40, "of a fault whose end alone is recorded");
    }
}
