//! Who gave memory back, and which faults took it again.
//!
//! In: the calls and the weighted faults of a recording, in the order of time. Out: [`Given`]: callers that gave
//! memory back, and for each fault the caller that had given its page back before.
//!
//! A fault on an address that a call gave back took that page again. A fault elsewhere took memory that the process
//! had given back and still lacked: of what was given back last, first. How much a call gave back is estimated by
//! the faults recorded on its range before, so memory that nobody touched counts nothing.
//!
//! It does not judge (the files of mechanisms do).

use std::collections::{BTreeMap, HashMap};

use super::owner::Owner;
use crate::observation::{Call, Host, Record, What};
use crate::profile::{Profile, Weighted};
use crate::recording::Recording;
use crate::sites::{Label, Naming};

const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;
const MADV_REMOVE: u64 = 9;
const MADV_DONTNEED_LOCKED: u64 = 24;
const MAP_FIXED: u64 = 0x10;

/// A caller that gave memory back in one way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Giver {
    pub(crate) call: Call,
    pub(crate) owner: Owner,
    /// The program's function that led to it.
    pub(crate) site: String,
    pub(crate) place: Option<String>,
    /// One of its stacks.
    pub(crate) stack: Option<u32>,
    pub(crate) calls: u64,
    /// CPU time in the calls, ns; of those whose end was seen.
    pub(crate) ns: u64,
    /// Bytes of the ranges, and of them those that were resident.
    pub(crate) bytes: f64,
    pub(crate) resident_bytes: f64,
    /// The longest range, bytes.
    pub(crate) longest_bytes: u64,
    /// What lay unused at most before it was taken again, bytes: the price of keeping it.
    pub(crate) kept_bytes: f64,
    waiting_bytes: f64,
}

/// The givers, and what was taken again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given {
    pub(crate) givers: Vec<Giver>,
    /// For each fault of the profile: the giver of its page.
    pub(crate) causes: Vec<Option<u32>>,
    /// Whether calls were recorded at all.
    pub(crate) is_known: bool,
}

/// The memory of a process.
#[derive(Clone, Debug, Default)]
struct Space {
    /// Resident bytes by the address of the fault that brought them.
    resident: BTreeMap<u64, f64>,
    /// Ranges that were given back: begin -> end, giver.
    given: BTreeMap<u64, (u64, u32)>,
    /// Memory given back and not taken again: giver, bytes, and whether others may have it; the last one on top.
    waiting: Vec<(u32, f64, bool)>,
    /// End of the brk heap; 0 if not known.
    top: u64,
}

impl Space {
    /// `is_shared`: an allocator hands it out again, wherever.
    fn give(&mut self, begin: u64, end: u64, giver: u32, is_shared: bool) -> f64 {
        let gone: Vec<u64> = self.resident.range(begin..end).map(|(&addr, _)| addr).collect();
        let bytes = gone.iter().filter_map(|addr| self.resident.remove(addr)).sum();
        self.cover(begin, end);
        self.given.insert(begin, (end, giver));
        if bytes > 0.0 {
            self.waiting.push((giver, bytes, is_shared));
        }
        bytes
    }

    /// mremap(2) moves pages with their contents.
    fn move_pages(&mut self, from: u64, len_bytes: u64, to: u64) {
        let moved: Vec<u64> =
            self.resident.range(from..from.saturating_add(len_bytes)).map(|(&addr, _)| addr).collect();
        for addr in moved.into_iter().filter(|_| to != from && to < i64::MAX as u64) {
            let bytes = self.resident.remove(&addr).unwrap_or_default();
            self.resident.insert(to.saturating_add(addr - from), bytes);
        }
    }

    /// Removes what was known of a range.
    fn cover(&mut self, begin: u64, end: u64) {
        let before = self.given.range(..begin).next_back().map(|(&from, &held)| (from, held));
        if let Some((from, (to, giver))) = before.filter(|(_, (to, _))| *to > begin) {
            self.given.insert(from, (begin, giver));
            if to > end {
                self.given.insert(end, (to, giver));
            }
        }
        let inside: Vec<u64> = self.given.range(begin..end).map(|(&from, _)| from).collect();
        for from in inside {
            if let Some((to, giver)) = self.given.remove(&from).filter(|(to, _)| *to > end) {
                self.given.insert(end, (to, giver));
            }
        }
    }

    /// The giver of the memory that a fault takes.
    fn take(&mut self, addr: u64, bytes: f64) -> Option<u32> {
        *self.resident.entry(addr).or_default() += bytes;
        let here = self.given.range(..=addr).next_back();
        let here = here.filter(|(_, (end, _))| addr < *end).map(|(_, (_, giver))| *giver);
        let at = match here {
            Some(giver) => self.waiting.iter().rposition(|(of, ..)| *of == giver),
            // Less than half of it would be there: the fault is new memory.
            None => self.waiting.iter().rposition(|(_, left, is_shared)| *is_shared && 2.0 * *left >= bytes),
        };
        let Some(at) = at else { return here };
        let (giver, left, _) = self.waiting[at];
        match left - bytes {
            left if left > 0.0 => self.waiting[at].1 = left,
            _ => _ = self.waiting.remove(at),
        }
        Some(giver)
    }
}

impl Given {
    pub(crate) fn new(recording: &Recording, profile: &Profile, naming: &Naming<'_>) -> Self {
        let host = &recording.observation.host;
        let mut found = Self { causes: vec![None; profile.faults.len()], ..Self::default() };
        let mut spaces: HashMap<u32, Space> = HashMap::new();
        let mut numbers: HashMap<(Call, Owner, String), u32> = HashMap::new();
        let mut stacks: HashMap<Option<u32>, (Owner, Label)> = HashMap::new();
        let loads = |record: &Record| matches!(&record.what, What::Map(map) if map.name.contains("/ld-"));
        let is_static = !recording.observation.records.iter().any(loads);
        let mut faults = profile.faults.iter().enumerate().peekable();
        let mut records: Vec<_> = recording.observation.records.iter().collect();
        records.sort_by_key(|record| record.time_ns);
        for record in records {
            while let Some((index, fault)) = faults.next_if(|(_, fault)| fault.time_ns <= record.time_ns) {
                found.fault(spaces.entry(fault.pid).or_default(), index, fault, host);
            }
            match &record.what {
                What::Fork { parent } if *parent != record.pid => {
                    let space = spaces.get(parent).cloned().unwrap_or_default();
                    spaces.insert(record.pid, Space { waiting: Vec::new(), ..space });
                }
                What::Exec => _ = spaces.remove(&record.pid),
                What::Exit if record.pid == record.tid => _ = spaces.remove(&record.pid),
                What::Call { call, args, result, ns, off_ns, stack } => {
                    found.is_known = true;
                    let space = spaces.entry(record.pid).or_default();
                    let range = range(space, *call, args, *result);
                    if let (Call::Mremap, Some(to)) = (call, result) {
                        space.move_pages(args[0], args[1].min(args[2]), *to as u64);
                    }
                    let Some((begin, end)) = range else { continue };
                    let (owner, (site, place)) = stacks
                        .entry(*stack)
                        .or_insert_with(|| {
                            (Owner::of(&recording.stacks, *stack, is_static), naming.site(*stack, ""))
                        })
                        .clone();
                    let owner = owner.or_python(end - begin);
                    let number = *numbers.entry((*call, owner, site.clone())).or_insert_with(|| {
                        found.givers.push(Giver::new(*call, owner, (site, place), *stack));
                        found.givers.len() as u32 - 1
                    });
                    let is_shared = !matches!(owner, Owner::Program | Owner::Loader | Owner::Thread);
                    let resident = space.give(begin, end, number, is_shared);
                    let ns = ns.map_or(0, |ns| ns.saturating_sub(*off_ns));
                    found.givers[number as usize].gave(end - begin, resident, ns);
                }
                _ => {}
            }
        }
        for (index, fault) in faults {
            found.fault(spaces.entry(fault.pid).or_default(), index, fault, host);
        }
        found
    }

    fn fault(&mut self, space: &mut Space, index: usize, fault: &Weighted, host: &Host) {
        let Some(bytes) = host.bytes_made_resident(fault.kind).map(|bytes| bytes * fault.faults) else {
            return;
        };
        let Some(giver) = space.take(fault.addr, bytes) else { return };
        self.causes[index] = Some(giver);
        let giver = &mut self.givers[giver as usize];
        giver.waiting_bytes = (giver.waiting_bytes - bytes).max(0.0);
    }
}

impl Giver {
    fn new(call: Call, owner: Owner, (site, place): Label, stack: Option<u32>) -> Self {
        Self {
            call,
            owner,
            site,
            place,
            stack,
            calls: 0,
            ns: 0,
            bytes: 0.0,
            resident_bytes: 0.0,
            longest_bytes: 0,
            kept_bytes: 0.0,
            waiting_bytes: 0.0,
        }
    }

    fn gave(&mut self, len_bytes: u64, resident_bytes: f64, ns: u64) {
        self.calls += 1;
        self.ns = self.ns.saturating_add(ns);
        self.bytes += len_bytes as f64;
        self.resident_bytes += resident_bytes;
        self.longest_bytes = self.longest_bytes.max(len_bytes);
        self.waiting_bytes += resident_bytes;
        self.kept_bytes = self.kept_bytes.max(self.waiting_bytes);
    }
}

/// The range that a call gives back; `None` if it gives nothing back.
fn range(space: &mut Space, call: Call, args: &[u64; 4], result: Option<i64>) -> Option<(u64, u64)> {
    let (begin, len) = (args[0], args[1]);
    if result.is_some_and(|result| (-4095..0).contains(&result)) {
        return None;
    }
    let range = match call {
        Call::Munmap => (begin, len),
        Call::Madvise if [MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTNEED_LOCKED].contains(&args[2]) => {
            (begin, len)
        }
        Call::Mmap if args[3] & MAP_FIXED != 0 => (begin, len),
        Call::Mremap if args[2] < len => (begin + args[2], len - args[2]),
        Call::Brk => {
            // Without a result it is what was asked for; brk(0) only asks where the top is.
            let top = result.map(|top| top as u64).or((begin != 0).then_some(begin))?;
            let before = std::mem::replace(&mut space.top, top);
            (top, before.checked_sub(top)?)
        }
        _ => return None,
    };
    let end = range.0.checked_add(range.1)?;
    (end > range.0).then_some((range.0, end))
}
