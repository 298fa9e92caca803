//! Who gave memory back, and which faults took it again; who mapped, advised and populated what faults.
//!
//! In: the calls and the weighted faults of a recording, in the order of time. Out: [`Given`]: callers that gave
//! memory back, and for each fault the caller that had given its page back before; likewise callers that mapped it,
//! that asked for huge pages there, and that populated it.
//!
//! A fault on an address that a call gave back took that page again. A fault elsewhere took memory that the process
//! had given back and still lacked: of what was given back last, first. How much a call gave back is estimated by
//! the faults recorded on its range before, so memory that nobody touched counts nothing.
//!
//! It does not judge (the files of mechanisms do).

use std::collections::{BTreeMap, HashMap};

use super::Scene;
use super::owner::{Marked, Owner};
use super::ranges::Ranges;
use crate::observation::{Call, Host, What};
use crate::profile::{Profile, Weighted};
use crate::recording::Recording;
use crate::sites::{Label, Naming};

/// Advice of madvise(2).
pub(super) const MADV_RANDOM: u64 = 1;
pub(super) const MADV_DONTNEED: u64 = 4;
pub(super) const MADV_FREE: u64 = 8;
pub(super) const MADV_REMOVE: u64 = 9;
pub(super) const MADV_HUGEPAGE: u64 = 14;
pub(super) const MADV_NOHUGEPAGE: u64 = 15;
pub(super) const MADV_PAGEOUT: u64 = 21;
pub(super) const MADV_POPULATE_READ: u64 = 22;
pub(super) const MADV_POPULATE_WRITE: u64 = 23;
pub(super) const MADV_DONTNEED_LOCKED: u64 = 24;
const MAP_PRIVATE: u64 = 0x2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_LOCKED: u64 = 0x2000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_NONBLOCK: u64 = 0x1_0000;
const PROT_WRITE: u64 = 2;
/// From this length on jemalloc purges a block at once, bytes (its `oversize_threshold`).
pub(super) const OVERSIZE_BYTES: u64 = 8 << 20;
/// Addresses that glibc maps without access for an arena: twice HEAP_MAX_SIZE, or once where it knows an aligned place.
const ARENA_BYTES: [u64; 2] = [128 << 20, 64 << 20];
/// A step of a growing buffer is this much longer than the one before.
const STEP: std::ops::Range<f64> = 1.2..2.6;
/// Parts in which populated memory counts as resident, bytes at least.
const PART_BYTES: u64 = 64 << 10;

/// A caller that changed the address space in one way: gave memory back, mapped it, advised it, or populated it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Caller {
    pub(crate) call: Call,
    pub(crate) owner: Owner,
    /// The program's function that led to it.
    pub(crate) site: String,
    pub(crate) place: Option<String>,
    /// One of its stacks.
    pub(crate) stack: Option<u32>,
    size: Size,
    pub(crate) calls: u64,
    /// CPU time in the calls, ns; of those whose end was seen.
    pub(crate) ns: u64,
    /// When it called last, ns.
    pub(crate) last_ns: u64,
    /// Calls whose range was a [`STEP`] longer than that of the call before, while a longer one was mapped already.
    pub(crate) steps: u64,
    /// Bytes of the ranges, and of them those that were resident; of populated ones those that were given back again.
    pub(crate) bytes: f64,
    pub(crate) resident_bytes: f64,
    /// The longest range, and the last one, bytes.
    pub(crate) longest_bytes: u64,
    last_bytes: u64,
    is_step: bool,
    /// What lay unused at most before it was taken again, bytes: the price of keeping it.
    pub(crate) kept_bytes: f64,
    waiting_bytes: f64,
}

/// Kinds of ranges that are callers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Size {
    Usual,
    /// An allocator's, of at least [`OVERSIZE_BYTES`].
    Oversize,
    /// The addresses of an arena of glibc.
    Arena,
}

/// What became of memory that was to be populated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fate {
    /// The kernel populated it.
    Populated,
    /// It could not be accessed then (PROT_NONE), so nothing was populated.
    NoAccess,
    /// It could only be read then, so each page was the zero page.
    ReadOnly,
    /// MAP_NONBLOCK beside MAP_POPULATE: nothing is populated.
    NonBlocking,
    /// madvise gave it back.
    GivenBack,
    /// The kernel answered with an error.
    Failed,
}

/// The givers, and what was taken again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given {
    pub(crate) givers: Vec<Caller>,
    /// For each fault of the profile: the giver of its page.
    pub(crate) causes: Vec<Option<u32>>,
    /// What these faults took, bytes.
    pub(crate) taken_bytes: f64,
    /// Those that mapped memory, and who mapped that of each fault.
    pub(crate) makers: Vec<Caller>,
    pub(crate) made_by: Vec<Option<u32>>,
    /// Those that asked for huge pages, and who did where each fault is.
    pub(crate) advisers: Vec<Caller>,
    pub(crate) advised_by: Vec<Option<u32>>,
    /// Those that populated memory, who did where each fault is, and what became of it.
    pub(crate) populaters: Vec<Caller>,
    pub(crate) populated: Vec<Option<(u32, Fate)>>,
    /// Whether calls were recorded at all.
    pub(crate) is_known: bool,
}

/// What all calls gave back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Giving {
    /// CPU time in them, ns.
    pub(crate) ns: f64,
    pub(crate) given_bytes_per_s: f64,
    /// What faults took again.
    pub(crate) taken_bytes_per_s: f64,
}

/// The memory of a process.
#[derive(Clone, Debug, Default)]
struct Space {
    /// Resident bytes by the address of the fault that brought them.
    resident: BTreeMap<u64, f64>,
    /// Who gave ranges back, mapped them, asked for huge pages there, and populated them.
    given: Ranges<u32>,
    made: Ranges<u32>,
    advised: Ranges<u32>,
    populated: Ranges<(u32, Fate)>,
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
        self.given.put(begin, end, giver);
        if bytes > 0.0 {
            self.waiting.push((giver, bytes, is_shared));
        }
        bytes
    }

    fn is_resident(&self, (begin, end): (u64, u64)) -> bool {
        self.resident.range(begin..end).next().is_some()
    }

    /// The mapping is gone.
    fn unmap(&mut self, begin: u64, end: u64) {
        self.made.cut(begin, end);
        self.advised.cut(begin, end);
        self.populated.cut(begin, end);
    }

    /// The kernel populated a range.
    fn populate(&mut self, begin: u64, end: u64) {
        let part = ((end - begin) / 1024).max(PART_BYTES);
        let mut at = begin;
        while at < end {
            let next = at.saturating_add(part).min(end);
            self.resident.insert(at, (next - at) as f64);
            at = next;
        }
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

    /// The giver of the memory that a fault takes.
    fn take(&mut self, addr: u64, bytes: f64) -> Option<u32> {
        *self.resident.entry(addr).or_default() += bytes;
        let here = self.given.at(addr);
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

/// Callers of one kind, and their numbers.
#[derive(Default)]
struct Callers {
    list: Vec<Caller>,
    numbers: HashMap<(Call, Owner, String, Size), u32>,
}

impl Callers {
    /// Counts a call on a range of this length, and returns the number of its caller.
    fn called(&mut self, seen: &Seen<'_>, owner: Owner, (site, place): Label, len_bytes: u64) -> u32 {
        let size = match owner {
            Owner::Allocator(..) if len_bytes >= OVERSIZE_BYTES => Size::Oversize,
            Owner::Malloc
                if seen.call == Call::Mmap && seen.args[2] == 0 && ARENA_BYTES.contains(&len_bytes) =>
            {
                Size::Arena
            }
            _ => Size::Usual,
        };
        let number = *self.numbers.entry((seen.call, owner, site.clone(), size)).or_insert_with(|| {
            self.list.push(Caller { size, ..Caller::new(seen, owner, (site, place)) });
            self.list.len() as u32 - 1
        });
        self.get(number).called(seen, len_bytes);
        number
    }

    fn get(&mut self, number: u32) -> &mut Caller {
        &mut self.list[number as usize]
    }
}

/// The replay of a recording.
struct Replay<'a> {
    naming: &'a Naming<'a>,
    marked: Marked<'a>,
    spaces: HashMap<u32, Space>,
    owners: HashMap<Option<u32>, (Owner, Label)>,
    givers: Callers,
    makers: Callers,
    advisers: Callers,
    populaters: Callers,
    found: Given,
}

/// A call that was seen.
struct Seen<'a> {
    time_ns: u64,
    pid: u32,
    call: Call,
    args: &'a [u64; 4],
    result: Option<i64>,
    /// CPU time, ns.
    ns: u64,
    stack: Option<u32>,
}

impl Given {
    pub(crate) fn new(recording: &Recording, profile: &Profile, naming: &Naming<'_>) -> Self {
        let host = &recording.observation.host;
        let found = Self { causes: vec![None; profile.faults.len()], ..Self::default() };
        let mut replay = Replay {
            naming,
            marked: Marked::new(recording),
            spaces: HashMap::new(),
            owners: HashMap::new(),
            givers: Callers::default(),
            makers: Callers::default(),
            advisers: Callers::default(),
            populaters: Callers::default(),
            found,
        };
        let all = profile.faults.len();
        (replay.found.made_by, replay.found.advised_by) = (vec![None; all], vec![None; all]);
        replay.found.populated = vec![None; all];
        let mut faults = profile.faults.iter().enumerate().peekable();
        let mut records: Vec<_> = recording.observation.records.iter().collect();
        records.sort_by_key(|record| record.time_ns);
        for record in records {
            while let Some((index, fault)) = faults.next_if(|(_, fault)| fault.time_ns <= record.time_ns) {
                replay.fault(index, fault, host);
            }
            match &record.what {
                What::Fork { parent } if *parent != record.pid => {
                    let space = replay.spaces.get(parent).cloned().unwrap_or_default();
                    replay.spaces.insert(record.pid, Space { waiting: Vec::new(), ..space });
                }
                What::Exec => _ = replay.spaces.remove(&record.pid),
                What::Exit if record.pid == record.tid => _ = replay.spaces.remove(&record.pid),
                What::Call { call, args, result, ns, off_ns, stack } => {
                    let ns = ns.map_or(0, |ns| ns.saturating_sub(*off_ns));
                    let (time_ns, pid) = (record.time_ns, record.pid);
                    replay.call(&Seen {
                        time_ns,
                        pid,
                        call: *call,
                        args,
                        result: *result,
                        ns,
                        stack: *stack,
                    });
                }
                _ => {}
            }
        }
        for (index, fault) in faults {
            replay.fault(index, fault, host);
        }
        let Replay { givers, makers, advisers, populaters, mut found, .. } = replay;
        (found.givers, found.makers) = (givers.list, makers.list);
        (found.advisers, found.populaters) = (advisers.list, populaters.list);
        found
    }
}

impl Scene<'_> {
    /// What all calls gave back; `None` if calls were not recorded.
    pub(super) fn giving(&self) -> Option<Giving> {
        let sum = |of: fn(&Caller) -> f64| self.given.givers.iter().map(of).sum::<f64>();
        self.given.is_known.then(|| Giving {
            ns: sum(|giver| giver.ns as f64),
            given_bytes_per_s: self.per_s(sum(|giver| giver.resident_bytes)),
            taken_bytes_per_s: self.per_s(self.given.taken_bytes),
        })
    }
}

impl Replay<'_> {
    fn call(&mut self, seen: &Seen<'_>) {
        self.found.is_known = true;
        let &Seen { call, args, result, stack, .. } = seen;
        let has_failed = result.is_some_and(|result| (-4095..0).contains(&result));
        if has_failed && populates(call, args).is_none() {
            return;
        }
        let (owner, label) = self
            .owners
            .entry(stack)
            .or_insert_with(|| (self.marked.owner(stack), self.naming.site(stack, "")))
            .clone();
        let mut space = std::mem::take(self.spaces.entry(seen.pid).or_default());
        if has_failed {
            self.populate(&mut space, seen, (owner, label), Fate::Failed);
        } else {
            if let (Call::Mremap, Some(to)) = (call, result) {
                space.move_pages(args[0], args[1].min(args[2]), to as u64);
            }
            let (given, made) = ranges(&mut space, call, args, result);
            // A mapping over addresses without memory gives none back: a runtime commits what it uncommitted.
            let is_given = |range: &(u64, u64)| call != Call::Mmap || space.is_resident(*range);
            if let Some((begin, end)) = given.filter(is_given) {
                self.give(&mut space, seen, (owner.or_python(end - begin), label.clone()), (begin, end));
            }
            if let Some((begin, end)) = made {
                let owner = owner.or_python(end - begin);
                let number = self.makers.called(seen, owner, label.clone(), end - begin);
                space.unmap(begin, end);
                space.made.put(begin, end, number);
            }
            self.advise(&mut space, seen, (owner, label.clone()));
            if let Some(fate) = populates(call, args) {
                self.populate(&mut space, seen, (owner, label), fate);
            }
        }
        self.spaces.insert(seen.pid, space);
    }

    fn give(
        &mut self,
        space: &mut Space,
        seen: &Seen<'_>,
        (owner, label): (Owner, Label),
        (begin, end): (u64, u64),
    ) {
        let number = self.givers.called(seen, owner, label, end - begin);
        let is_shared = !matches!(owner, Owner::Program | Owner::Loader | Owner::Thread);
        let resident = space.give(begin, end, number, is_shared);
        self.givers.get(number).gave(resident);
        let giver = self.givers.get(number);
        let is_next = |len: u64| STEP.contains(&(len as f64 / (end - begin) as f64));
        giver.steps += u64::from(giver.is_step && space.made.lengths().any(is_next));
        let is_advice = seen.call == Call::Madvise;
        for (bytes, (number, fate)) in space.populated.cut(begin, end) {
            self.populaters.get(number).resident_bytes += bytes as f64;
            if is_advice && fate == Fate::Populated {
                space.populated.put(begin, end, (number, Fate::GivenBack));
            }
        }
        if !is_advice {
            space.unmap(begin, end);
        }
    }

    fn advise(&mut self, space: &mut Space, seen: &Seen<'_>, (owner, label): (Owner, Label)) {
        let (begin, end) = (seen.args[0], seen.args[0].saturating_add(seen.args[1]));
        match (seen.call, seen.args[2]) {
            (Call::Madvise, MADV_HUGEPAGE) if begin < end => {
                let number = self.advisers.called(seen, owner, label, end - begin);
                space.advised.put(begin, end, number);
            }
            (Call::Madvise, MADV_NOHUGEPAGE) if begin < end => _ = space.advised.cut(begin, end),
            _ => {}
        }
    }

    fn populate(&mut self, space: &mut Space, seen: &Seen<'_>, (owner, label): (Owner, Label), fate: Fate) {
        let at = match (seen.call, seen.result) {
            (Call::Mmap, Some(at)) if fate != Fate::Failed => at as u64,
            _ => seen.args[0],
        };
        let Some(end) = at.checked_add(seen.args[1]).filter(|end| *end > at) else { return };
        let number = self.populaters.called(seen, owner, label, end - at);
        space.populated.put(at, end, (number, fate));
        if fate == Fate::Populated {
            space.populate(at, end);
        }
    }

    fn fault(&mut self, index: usize, fault: &Weighted, host: &Host) {
        let space = self.spaces.entry(fault.pid).or_default();
        self.found.made_by[index] = space.made.at(fault.addr);
        self.found.advised_by[index] = space.advised.at(fault.addr);
        self.found.populated[index] = space.populated.at(fault.addr);
        let Some(bytes) = host.bytes_made_resident(fault.kind).map(|bytes| bytes * fault.faults) else {
            return;
        };
        let Some(giver) = space.take(fault.addr, bytes) else { return };
        self.found.causes[index] = Some(giver);
        self.found.taken_bytes += bytes;
        let giver = self.givers.get(giver);
        giver.waiting_bytes = (giver.waiting_bytes - bytes).max(0.0);
    }
}

impl Caller {
    /// Whether its ranges are an allocator's, and longer than it keeps.
    pub(super) fn is_oversize(&self) -> bool {
        self.size == Size::Oversize
    }

    /// Whether it maps the addresses of arenas.
    pub(super) fn is_arena(&self) -> bool {
        self.size == Size::Arena
    }

    /// Whether what it maps is a heap of malloc: its blocks come and go, and the memory stays.
    pub(super) fn is_heap(&self) -> bool {
        self.owner == Owner::Malloc && (self.call == Call::Brk || self.is_arena())
    }

    fn new(seen: &Seen<'_>, owner: Owner, (site, place): Label) -> Self {
        Self {
            call: seen.call,
            owner,
            site,
            place,
            stack: seen.stack,
            size: Size::Usual,
            calls: 0,
            ns: 0,
            last_ns: 0,
            steps: 0,
            bytes: 0.0,
            resident_bytes: 0.0,
            longest_bytes: 0,
            last_bytes: 0,
            is_step: false,
            kept_bytes: 0.0,
            waiting_bytes: 0.0,
        }
    }

    fn called(&mut self, seen: &Seen<'_>, len_bytes: u64) {
        self.calls += 1;
        self.ns = self.ns.saturating_add(seen.ns);
        self.last_ns = seen.time_ns;
        self.bytes += len_bytes as f64;
        self.longest_bytes = self.longest_bytes.max(len_bytes);
        let before = std::mem::replace(&mut self.last_bytes, len_bytes);
        self.is_step = before > 0 && STEP.contains(&(len_bytes as f64 / before as f64));
    }

    fn gave(&mut self, resident_bytes: f64) {
        self.resident_bytes += resident_bytes;
        self.waiting_bytes += resident_bytes;
        self.kept_bytes = self.kept_bytes.max(self.waiting_bytes);
    }
}

/// What a call that populates does, if the kernel grants it.
fn populates(call: Call, args: &[u64; 4]) -> Option<Fate> {
    let [.., flags] = *args;
    match call {
        Call::Madvise if args[2] == MADV_POPULATE_WRITE => Some(Fate::Populated),
        Call::Madvise if args[2] == MADV_POPULATE_READ => Some(Fate::ReadOnly),
        Call::Mmap if flags & (MAP_POPULATE | MAP_LOCKED) == 0 => None,
        Call::Mmap if args[2] & 7 == 0 => Some(Fate::NoAccess),
        Call::Mmap if flags & MAP_NONBLOCK != 0 => Some(Fate::NonBlocking),
        Call::Mmap if args[2] & PROT_WRITE == 0 && flags & MAP_PRIVATE != 0 && flags & MAP_ANONYMOUS != 0 => {
            Some(Fate::ReadOnly)
        }
        Call::Mmap => Some(Fate::Populated),
        _ => None,
    }
}

type Range = Option<(u64, u64)>;

/// The range that a call gives back, and the one that it maps, if any.
fn ranges(space: &mut Space, call: Call, args: &[u64; 4], result: Option<i64>) -> (Range, Range) {
    let (begin, len) = (args[0], args[1]);
    let (given, made) = match call {
        Call::Munmap => (Some((begin, len)), None),
        Call::Madvise if [MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTNEED_LOCKED].contains(&args[2]) => {
            (Some((begin, len)), None)
        }
        Call::Mmap => {
            let given = (args[3] & MAP_FIXED != 0).then_some((begin, len));
            (given, result.map(|at| (at as u64, len)))
        }
        Call::Mremap => {
            let given = (args[2] < len).then(|| (begin.saturating_add(args[2]), len - args[2]));
            (given, result.map(|at| (at as u64, args[2])))
        }
        Call::Brk => {
            // Without a result it is what was asked for; brk(0) only asks where the top is.
            let Some(top) = result.map(|top| top as u64).or((begin != 0).then_some(begin)) else {
                return (None, None);
            };
            let before = std::mem::replace(&mut space.top, top);
            let grown = top.checked_sub(before).filter(|_| before > 0);
            (before.checked_sub(top).map(|len| (top, len)), grown.map(|len| (before, len)))
        }
        _ => (None, None),
    };
    let whole = |range: Range| {
        let (begin, len) = range?;
        let end = begin.checked_add(len)?;
        (end > begin).then_some((begin, end))
    };
    (whole(given), whole(made))
}
