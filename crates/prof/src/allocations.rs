//! The reading side of the journal: what interposed programs write of their allocations, and a follower of system calls
//! -> records.
//!
//! In: a [`Journal`](faultless_os::journal), and a function that turns a copied stack into a number. Out:
//! `What::Alloc`, `What::Free` and `What::Move` in the order of time, and how many are missing. They use the
//! clock of the perf records. A stack is unwound by the mappings known at that moment, so read perf's rings
//! first.
//!
//! It does not know which blocks are alive (`trace::profile`). A free can come without its
//! allocation: the block was slightly shorter than those recorded, or belongs to the parent of a forked
//! child.

use std::ffi::OsString;
use std::path::Path;

use faultless_os::counters::now_ns;
use faultless_os::follow::Follower;
use faultless_os::journal::{Caller, End, Entry, Kind, Next, QueueId, Reader};
use faultless_os::syscall;
use faultless_trace::observation::{Call, Record, What};

use crate::tuning;
use crate::unwind::UserStack;

/// The environment variable that names the journal to the interposer.
const VARIABLE: &str = "FAULTLESS_RECORD";

/// The allocations of the programs that write into one journal.
#[derive(Debug)]
pub(crate) struct Allocations {
    reader: Reader,
    /// Blocks of at least this length are written; `None`: none are, only calls.
    from_bytes: Option<u64>,
    stack: Vec<u8>,
    /// For each queue, the position of an unfinished entry, and since when it is known.
    unfinished: [Option<(u64, u64)>; 2],
    unreadable: u64,
    /// Faults by which programs made their mappings of the journal resident.
    populated_faults: u64,
}

/// A record, and when its call began.
struct Taken {
    record: Record,
    begin_ns: u64,
}

impl Allocations {
    /// A new journal for blocks of at least `from_bytes`, and for calls.
    ///
    /// # Errors
    /// There is no memory or no descriptor for it.
    pub(crate) fn create(from_bytes: Option<u64>) -> faultless_os::Result<Self> {
        let reader = Reader::create()?;
        Ok(Self {
            reader,
            from_bytes,
            stack: Vec::new(),
            unfinished: [None; 2],
            unreadable: 0,
            populated_faults: 0,
        })
    }

    /// The environment variable that a program needs, beside the interposer in `LD_PRELOAD`; `None` if blocks are not
    /// recorded.
    pub(crate) fn variable(&self) -> Option<(OsString, OsString)> {
        Some((VARIABLE.into(), format!("{}:{}", self.reader.path(), self.from_bytes?).into()))
    }

    /// Follows a held child into this journal.
    ///
    /// # Errors
    /// As [`Follower::start`].
    pub(crate) fn follow(&self, pid: i32) -> faultless_os::Result<Follower> {
        Follower::start(pid, self.reader.journal())
    }

    /// All entries written so far, by time. A program that writes as fast as we read gets some more read. An
    /// unfinished entry blocks those behind it until its writer is gone, or for a second.
    pub(crate) fn take(
        &mut self,
        pid_of: impl Fn(u32) -> u32,
        mut unwinder: impl FnMut(u32, &UserStack<'_>) -> Option<u32>,
    ) -> Vec<Record> {
        let mut taken = Vec::new();
        for queue in [QueueId::Long, QueueId::Short] {
            for _ in 0..tuning::JOURNAL_POLL_ENTRIES {
                match self.reader.next(queue, &mut self.stack) {
                    Next::Nothing => break,
                    Next::Unfinished { pid, position } => {
                        if !is_abandoned(&mut self.unfinished[queue as usize], pid, position, now_ns()) {
                            break;
                        }
                        self.reader.give_up(queue);
                    }
                    Next::Entry(_, entry, _) if entry.kind == Kind::POPULATED => {
                        self.populated_faults += entry.len_bytes;
                    }
                    Next::Entry(writer, entry, caller) => {
                        let tid = writer.tid;
                        let pid = if entry.kind.call().is_some() { pid_of(tid) } else { writer.pid };
                        let end = caller.map(|caller| caller.end).unwrap_or_default();
                        let stack = caller.and_then(|caller| unwinder(pid, &user_stack(caller)));
                        match what(&entry, end, stack) {
                            Some(what) => {
                                let record = Record { time_ns: entry.time_ns, pid, tid, what };
                                taken.push(Taken { record, begin_ns: entry.begin_ns });
                            }
                            None => self.unreadable += 1,
                        }
                    }
                }
            }
        }
        in_order(taken)
    }

    /// The programs' faults that are the recorder's, so far.
    pub(crate) fn populated_faults(&self) -> u64 {
        self.populated_faults
    }

    /// How many allocations, frees and moves are missing: the journal was full, or their writer died before
    /// it finished.
    pub(crate) fn lost(&self) -> u64 {
        self.reader.lost() + self.unreadable
    }
}

fn user_stack(caller: Caller<'_>) -> UserStack<'_> {
    let (at, dump) = (caller.registers, caller.stack);
    UserStack { ip: at.ip, sp: at.sp, bp: at.bp, lr: at.lr, dump, ..UserStack::default() }
}

fn what(entry: &Entry, end: End, stack: Option<u32>) -> Option<What> {
    let &Entry { addr, len_bytes, from, begin_ns, .. } = entry;
    if let Some(number) = entry.kind.call() {
        let call = Call::of(syscall::name(number)?)?;
        let args = [addr, len_bytes, from, begin_ns];
        let (result, ns) = (end.ns > 0).then_some((end.result, end.ns)).unzip();
        return Some(What::Call { call, args, result, ns, off_ns: end.ns.saturating_sub(end.cpu_ns), stack });
    }
    match entry.kind {
        Kind::BORN => Some(What::Alloc { addr, len_bytes, stack }),
        Kind::DIED => Some(What::Free { addr }),
        Kind::MOVED => Some(What::Move { from, addr, len_bytes, stack }),
        _ => None,
    }
}

/// Whether the writer of the entry at `position` will never finish it.
fn is_abandoned(since: &mut Option<(u64, u64)>, pid: u32, position: u64, now_ns: u64) -> bool {
    let begin_ns = match *since {
        Some((at, begin_ns)) if at == position => begin_ns,
        _ => {
            *since = Some((position, now_ns));
            now_ns
        }
    };
    let age_ns = now_ns.saturating_sub(begin_ns);
    match pid {
        0 => age_ns > tuning::JOURNAL_NAMELESS_NS,
        pid => age_ns > tuning::JOURNAL_UNFINISHED_NS || !Path::new(&format!("/proc/{pid}")).exists(),
    }
}

/// The records by time. A move is recorded when it is over. If another thread got the old address meanwhile,
/// the move becomes a free and an allocation.
fn in_order(mut taken: Vec<Taken>) -> Vec<Record> {
    taken.sort_by_key(|taken| taken.record.time_ns);
    let mut split = Vec::new();
    for (at, Taken { record, begin_ns }) in taken.iter().enumerate() {
        let What::Move { from, addr, .. } = record.what else { continue };
        let during = taken[..at].iter().rev().take_while(|other| other.record.time_ns >= *begin_ns);
        let is_taken = |other: &Taken| {
            let given = match other.record.what {
                What::Alloc { addr, .. } | What::Move { addr, .. } => Some(addr),
                _ => None,
            };
            other.record.pid == record.pid && given == Some(from)
        };
        if from != addr && during.into_iter().any(is_taken) {
            split.push(at);
        }
    }
    for &at in &split {
        let Taken { record, begin_ns } = &mut taken[at];
        let What::Move { from, addr, len_bytes, stack } = record.what else { continue };
        let death = Record { time_ns: *begin_ns, what: What::Free { addr: from }, ..record.clone() };
        record.what = What::Alloc { addr, len_bytes, stack };
        taken.push(Taken { begin_ns: death.time_ns, record: death });
    }
    if !split.is_empty() {
        taken.sort_by_key(|taken| taken.record.time_ns);
    }
    taken.into_iter().map(|taken| taken.record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(begin_ns: u64, time_ns: u64, what: What) -> Taken {
        Taken { record: Record { time_ns, pid: 1, tid: 1, what }, begin_ns }
    }

    fn told(records: &[Record]) -> Vec<(u64, What)> {
        records.iter().map(|record| (record.time_ns, record.what.clone())).collect()
    }

    #[test]
    fn a_move_ends_the_block_at_its_old_place_before_another_begins_there() {
        let moved = What::Move { from: 16, addr: 64, len_bytes: 9, stack: Some(3) };
        let born = What::Alloc { addr: 16, len_bytes: 5, stack: None };
        let records = in_order(vec![taken(10, 20, moved), taken(15, 15, born.clone())]);
        let rest = What::Alloc { addr: 64, len_bytes: 9, stack: Some(3) };
        assert_eq!(told(&records), [(10, What::Free { addr: 16 }), (15, born), (20, rest)]);
    }

    #[test]
    fn a_move_stays_a_move_where_the_old_place_was_had_before_or_after() {
        let moved = What::Move { from: 16, addr: 64, len_bytes: 9, stack: None };
        let born = What::Alloc { addr: 16, len_bytes: 5, stack: None };
        let all = vec![taken(30, 30, born.clone()), taken(10, 20, moved.clone()), taken(5, 5, born.clone())];
        assert_eq!(told(&in_order(all)), [(5, born.clone()), (20, moved), (30, born)]);
    }

    #[test]
    fn a_writer_is_given_up_when_it_is_gone_or_takes_too_long() {
        let mut since = None;
        let own = std::process::id();
        assert!(!is_abandoned(&mut since, own, 7, 0));
        assert!(!is_abandoned(&mut since, own, 7, tuning::JOURNAL_UNFINISHED_NS));
        assert!(is_abandoned(&mut since, own, 7, tuning::JOURNAL_UNFINISHED_NS + 1));
        assert!(!is_abandoned(&mut since, own, 8, tuning::JOURNAL_UNFINISHED_NS + 1), "another position");
        assert!(is_abandoned(&mut since, u32::MAX >> 1, 9, 0), "no such process");
        assert!(!is_abandoned(&mut since, 0, 10, 0));
        assert!(is_abandoned(&mut since, 0, 10, tuning::JOURNAL_NAMELESS_NS + 1));
    }

    #[test]
    fn a_program_finds_the_journal_and_the_length() {
        assert_eq!(Allocations::create(None).unwrap().variable(), None);
        let (name, journal) = Allocations::create(Some(65536)).unwrap().variable().unwrap();
        assert_eq!(name, "FAULTLESS_RECORD");
        assert!(journal.to_str().unwrap().ends_with(":65536"));
    }
}
