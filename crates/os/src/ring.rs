//! The ring buffer that perf events write into, and the records in it.
//!
//! In: an [`Event`] with a ring to map. Out: copies of the bytes that the kernel wrote, and [`records`], a
//! parser that accepts any bytes. It skips unknown records and ends at a truncated one. The layout follows
//! perf_event_open(2) for the sample types that [`crate::perf`] uses.
//!
//! It does not know which event an id belongs to, or what a record means (`prof`).

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as c;

use crate::error::{Error, Result};
use crate::perf::Event;

/// The mapped ring of an event.
#[derive(Debug)]
pub struct Ring {
    control: *mut c::perf_event_mmap_page,
    len_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `pages` pages of data, a power of two, for `event`.
    ///
    /// # Errors
    /// EPERM if `perf_event_mlock_kb` and RLIMIT_MEMLOCK are used up: try fewer pages. ENOMEM.
    pub fn map(event: &Event, pages: usize) -> Result<Self> {
        let page = crate::page::size();
        let len_bytes = page * (pages + 1);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = event.as_fd().as_raw_fd();
        // SAFETY: a new shared mapping at an address of the kernel's choice; no memory of ours is involved.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::last_for("mmap(perf ring", len_bytes));
        }
        Ok(Self { control: base.cast(), len_bytes })
    }

    /// Bytes of data that the ring holds.
    pub fn data_bytes(&self) -> usize {
        self.len_bytes - crate::page::size()
    }

    /// Appends to `out` everything that the kernel has written since the last call, and frees the space.
    ///
    /// Records are complete: the kernel moves its position only past finished ones.
    pub fn drain_into(&mut self, out: &mut Vec<u8>) {
        let head = self.head().load(Ordering::Acquire);
        let tail = self.tail().load(Ordering::Relaxed);
        let size = self.data_bytes();
        let len = (head.wrapping_sub(tail) as usize).min(size);
        let begin = tail as usize % size;
        let first = len.min(size - begin);
        self.copy(begin, first, out);
        self.copy(0, len - first, out);
        self.tail().store(head, Ordering::Release);
    }

    fn copy(&self, begin: usize, len: usize, out: &mut Vec<u8>) {
        out.reserve(len);
        let at = crate::page::size() + begin;
        // SAFETY: `at` is inside the mapping: begin is below the data size, and the data follow the control page.
        let from = unsafe { self.control.cast::<u8>().add(at) };
        // SAFETY: `out` has room for `len` more bytes after its end (reserved above).
        let to = unsafe { out.as_mut_ptr().add(out.len()) };
        // SAFETY: begin + len is at most the data size (caller), the kernel does not write between tail and head, and
        // `out` is our own memory.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        // SAFETY: the `len` bytes after the old end have just been written.
        unsafe { out.set_len(out.len() + len) };
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: the control page is mapped for as long as self and holds data_head at this place, aligned.
        let head = unsafe { &raw mut (*self.control).data_head };
        // SAFETY: valid and aligned as above; the kernel writes it atomically, and we only load.
        unsafe { AtomicU64::from_ptr(head) }
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as for head; the kernel only reads data_tail.
        let tail = unsafe { &raw mut (*self.control).data_tail };
        // SAFETY: valid and aligned as above; written by this thread only.
        unsafe { AtomicU64::from_ptr(tail) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; no reference into it outlives self.
        unsafe { libc::munmap(self.control.cast(), self.len_bytes) };
    }
}

/// One record of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// An event fired.
    Sample(Sample<'a>),
    /// A mapping appeared.
    Map(MapRecord),
    /// A task came to be.
    Fork(Task),
    /// A thread ended.
    Exit(Task),
    /// A thread was named.
    Name(Name<'a>),
    /// A thread got a processor or gave it up.
    Switch(Switch),
    /// The ring was full: this many records are missing before `time_ns`.
    Lost {
        /// How many.
        lost: u64,
        /// When the loss was written down.
        time_ns: u64,
    },
    /// Anything else.
    Other,
}

impl Raw<'_> {
    /// When it was written; `None` if unknown.
    pub fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Sample(sample) => Some(sample.time_ns),
            Self::Map(map) => Some(map.time_ns),
            Self::Fork(task) | Self::Exit(task) => Some(task.time_ns),
            Self::Name(name) => Some(name.task.time_ns),
            Self::Switch(switch) => Some(switch.time_ns),
            Self::Lost { time_ns, .. } => Some(*time_ns),
            Self::Other => None,
        }
    }
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Id of the event.
    pub id: u64,
    /// Instruction.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub time_ns: u64,
    /// Data address.
    pub addr: u64,
    /// Whether the processor was in kernel mode.
    pub kernel: bool,
    /// Registers or call chain, by the event's output.
    pub rest: &'a [u8],
}

impl<'a> Sample<'a> {
    /// RSI and RDI of the user's program, if they were sampled.
    pub fn string_registers(&self) -> Option<(u64, u64)> {
        let abi = word(self.rest, 0)?;
        if abi == 0 { None } else { Some((word(self.rest, 8)?, word(self.rest, 16)?)) }
    }

    /// Size of the page mapped at the address, 0 for none. Only for events that record it.
    pub fn mapped_bytes(&self) -> Option<u64> {
        word(self.rest, self.rest.len().checked_sub(8)?)
    }

    /// The fields of a tracepoint. Only for events that have them.
    pub fn fields(&self) -> Option<&'a [u8]> {
        let len = half(self.rest, 0)? as usize;
        self.rest.get(4..4_usize.checked_add(len)?)
    }

    /// The user's instruction behind them, of a 64-bit program.
    pub fn user_ip(&self) -> Option<u64> {
        let registers = self.rest.get(4 + self.fields()?.len()..)?;
        if word(registers, 0)? == u64::from(c::PERF_SAMPLE_REGS_ABI_64) { word(registers, 8) } else { None }
    }

    /// Addresses of the call chain, leaf first, without the context markers.
    pub fn chain(&self) -> impl Iterator<Item = u64> + '_ {
        self.marked_chain().filter(|&ip| ip < CONTEXT_MAX)
    }

    fn marked_chain(&self) -> impl Iterator<Item = u64> + '_ {
        let len = word(self.rest, 0).unwrap_or(0).min(1 << 16) as usize;
        (1..=len).map_while(|index| word(self.rest, index * 8))
    }

    /// The copied user registers and stack. Only for events that record them.
    pub fn stack(&self) -> Option<StackCopy<'a>> {
        let chain = word(self.rest, 0)?.checked_add(1)?.checked_mul(8)?;
        StackCopy::parse(self.rest.get(usize::try_from(chain).ok()?..)?)
    }

    /// The copied user registers and stack behind the fields of a tracepoint. Only for events that record them.
    pub fn stack_of_fields(&self) -> Option<StackCopy<'a>> {
        StackCopy::parse(self.rest.get(4 + self.fields()?.len()..)?)
    }

    /// Splits the call chain into its kernel and user part, each leaf first, and appends them.
    pub fn split_chain(&self, kernel: &mut Vec<u64>, user: &mut Vec<u64>) {
        let mut in_kernel = self.kernel;
        for ip in self.marked_chain() {
            match ip {
                CONTEXT_KERNEL => in_kernel = true,
                CONTEXT_USER => in_kernel = false,
                CONTEXT_MAX.. => {}
                _ if in_kernel => kernel.push(ip),
                _ => user.push(ip),
            }
        }
    }
}

/// From this number on, an entry of a call chain is a marker.
const CONTEXT_MAX: u64 = c::PERF_CONTEXT_MAX as i64 as u64;
const CONTEXT_KERNEL: u64 = c::PERF_CONTEXT_KERNEL as i64 as u64;
const CONTEXT_USER: u64 = c::PERF_CONTEXT_USER as i64 as u64;

/// The user's side of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackCopy<'a> {
    /// `None` for a thread without user state: a kernel thread, or one at its end.
    pub registers: Option<Registers>,
    /// Memory from the stack pointer on.
    pub dump: &'a [u8],
}

impl<'a> StackCopy<'a> {
    fn parse(after: &'a [u8]) -> Option<Self> {
        let (registers, after) = match word(after, 0)? {
            0 => (None, after.get(8..)?),
            _ => (Some(Registers::parse(after.get(8..)?)?), after.get(8 + 8 * Registers::COUNT..)?),
        };
        let size = usize::try_from(word(after, 0)?).ok()?;
        let dump = match size {
            0 => &[][..],
            _ => {
                let filled = usize::try_from(word(after, 8_usize.checked_add(size)?)?).ok()?;
                after.get(8..8 + size.min(filled))?
            }
        };
        Some(Self { registers, dump })
    }
}

/// What unwinding and decoding need of the user's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Instruction.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub bp: u64,
    /// Return address register of aarch64, else 0.
    pub lr: u64,
    /// RSI and RDI of x86-64, else 0.
    pub string: (u64, u64),
}

impl Registers {
    /// Registers that are sampled.
    const COUNT: usize = if cfg!(target_arch = "x86_64") { 5 } else { 4 };

    /// In the order of their numbers: RSI, RDI, RBP, RSP, RIP; or FP, LR, SP, PC.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let at = |index: usize| word(bytes, index * 8);
        if cfg!(target_arch = "x86_64") {
            Some(Self { string: (at(0)?, at(1)?), bp: at(2)?, sp: at(3)?, ip: at(4)?, lr: 0 })
        } else {
            Some(Self { bp: at(0)?, lr: at(1)?, sp: at(2)?, ip: at(3)?, string: (0, 0) })
        }
    }
}

/// `PERF_RECORD_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// Who; its own parent.
    pub task: Task,
    /// The process has replaced its program.
    pub exec: bool,
    /// The name, at most 15 bytes.
    pub name: &'a [u8],
}

/// `PERF_RECORD_SWITCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub time_ns: u64,
    /// It gave the processor up.
    pub out: bool,
    /// It was still able to run.
    pub preempted: bool,
}

/// `PERF_RECORD_MMAP2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRecord {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub time_ns: u64,
    /// First address.
    pub begin: u64,
    /// Length.
    pub len_bytes: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// File name or a name like `//anon`.
    pub name: String,
}

/// `PERF_RECORD_FORK`, `_EXIT`, and the task of `_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Parent process; the process itself for a new thread, and for a name.
    pub parent: u32,
    /// When.
    pub time_ns: u64,
}

/// The records in `bytes`, one after another; ends at the first that is truncated or has an impossible
/// length.
pub fn records(bytes: &[u8]) -> Records<'_> {
    Records { rest: bytes }
}

/// See [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let head = word(self.rest, 0)?;
        let size = (head >> 48) as usize;
        if size < 8 {
            return None;
        }
        let (record, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(parse(head as u32, (head >> 32) as u16, &record[8..]).unwrap_or(Raw::Other))
    }
}

/// `body` is the record after its 8-byte header. Records other than samples end with pid, tid, time and id:
/// 24 bytes.
fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Raw<'_>> {
    let trailer = body.len().checked_sub(24);
    let time_ns = || word(body, trailer? + 8);
    let task = |parent: u32, tid_at: usize| {
        Some(Task { pid: half(body, 0)?, tid: half(body, tid_at)?, parent, time_ns: time_ns()? })
    };
    match kind {
        c::PERF_RECORD_SAMPLE => Some(Raw::Sample(Sample {
            id: word(body, 0)?,
            ip: word(body, 8)?,
            pid: half(body, 16)?,
            tid: half(body, 20)?,
            time_ns: word(body, 24)?,
            addr: word(body, 32)?,
            kernel: u32::from(misc) & c::PERF_RECORD_MISC_CPUMODE_MASK == c::PERF_RECORD_MISC_KERNEL,
            rest: body.get(40..)?,
        })),
        c::PERF_RECORD_MMAP2 => Some(Raw::Map(map_record(body, trailer?)?)),
        c::PERF_RECORD_FORK => Some(Raw::Fork(task(half(body, 4)?, 8)?)),
        c::PERF_RECORD_EXIT => Some(Raw::Exit(task(half(body, 4)?, 8)?)),
        c::PERF_RECORD_COMM => Some(Raw::Name(Name {
            task: task(half(body, 0)?, 4)?,
            exec: u32::from(misc) & c::PERF_RECORD_MISC_COMM_EXEC != 0,
            name: body.get(8..trailer?)?.split(|&byte| byte == 0).next()?,
        })),
        c::PERF_RECORD_SWITCH => Some(Raw::Switch(Switch {
            pid: half(body, trailer?)?,
            tid: half(body, trailer? + 4)?,
            time_ns: time_ns()?,
            out: u32::from(misc) & c::PERF_RECORD_MISC_SWITCH_OUT != 0,
            preempted: u32::from(misc) & c::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0,
        })),
        c::PERF_RECORD_LOST => Some(Raw::Lost { lost: word(body, 8)?, time_ns: time_ns()? }),
        _ => Some(Raw::Other),
    }
}

fn map_record(body: &[u8], trailer: usize) -> Option<MapRecord> {
    let name = body.get(64..trailer)?;
    let name = name.split(|&byte| byte == 0).next()?;
    Some(MapRecord {
        pid: half(body, 0)?,
        tid: half(body, 4)?,
        time_ns: word(body, trailer + 8)?,
        begin: word(body, 8)?,
        len_bytes: word(body, 16)?,
        file_offset: word(body, 24)?,
        prot: half(body, 56)?,
        flags: half(body, 60)?,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = 8 + words.len() as u64 * 8;
        let head = u64::from(kind) | u64::from(misc) << 32 | size << 48;
        std::iter::once(&head).chain(words).flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[test]
    fn reads_a_fault_with_its_registers() {
        let bytes = record(
            c::PERF_RECORD_SAMPLE,
            c::PERF_RECORD_MISC_USER as u16,
            &[77, 0x1000, pair(5, 6), 99, 0xabc0, 2, 11, 12, 4096],
        );
        let Some(Raw::Sample(sample)) = records(&bytes).next() else { panic!("no sample") };
        assert_eq!((sample.id, sample.ip, sample.pid, sample.tid), (77, 0x1000, 5, 6));
        assert_eq!((sample.time_ns, sample.addr, sample.kernel), (99, 0xabc0, false));
        assert_eq!(sample.string_registers(), Some((11, 12)));
        assert_eq!(sample.mapped_bytes(), Some(4096));
    }

    #[test]
    fn reads_tasks_maps_and_losses_and_steps_over_what_it_does_not_know() {
        let name = u64::from_ne_bytes(*b"//anon\0\0");
        let mut bytes = record(9999, 0, &[1, 2, 3]);
        bytes.extend(record(c::PERF_RECORD_FORK, 0, &[pair(8, 7), pair(9, 7), 5, 0, 50, 1]));
        bytes.extend(record(
            c::PERF_RECORD_MMAP2,
            0,
            &[pair(8, 9), 0x10000, 0x2000, 0, 0, 0, 0, pair(3, 2), name, 0, 60, 1],
        ));
        bytes.extend(record(c::PERF_RECORD_LOST, 0, &[1, 42, 0, 70, 1]));
        let all: Vec<_> = records(&bytes).collect();
        assert_eq!(all[0], Raw::Other);
        assert_eq!(all[1], Raw::Fork(Task { pid: 8, tid: 9, parent: 7, time_ns: 50 }));
        let Raw::Map(map) = &all[2] else { panic!("{:?}", all[2]) };
        assert_eq!((map.begin, map.len_bytes, map.prot, map.name.as_str()), (0x10000, 0x2000, 3, "//anon"));
        assert_eq!(all[3], Raw::Lost { lost: 42, time_ns: 70 });
    }

    #[test]
    fn the_users_instruction_comes_behind_a_tracepoints_fields() {
        let head = [77, 0x1000, pair(5, 6), 99, 0];
        let read = |abi| {
            let words: Vec<u64> = head.into_iter().chain([pair(12, 7), pair(8, 9), abi, 0x2000]).collect();
            let bytes = record(c::PERF_RECORD_SAMPLE, 1, &words);
            let Some(Raw::Sample(sample)) = records(&bytes).next() else { panic!("no sample") };
            (sample.fields().map(<[u8]>::len), sample.user_ip())
        };
        assert_eq!(read(2), (Some(12), Some(0x2000)));
        assert_eq!(read(1), (Some(12), None), "a 32-bit program");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_copied_stack_comes_behind_chain_and_registers() {
        let (kernel, user) = (CONTEXT_KERNEL, CONTEXT_USER);
        let head = [77, 0x1000, pair(5, 6), 99, 0xabc0];
        let chain = [4, kernel, 0xffff_8000_0000_1000, user, 0x1000];
        let rest = [2, 1, 2, 3, 4, 5, 16, 0x11, 0x22, 8];
        let words: Vec<u64> = head.into_iter().chain(chain).chain(rest).collect();
        let bytes = record(c::PERF_RECORD_SAMPLE, 2, &words);
        let Some(Raw::Sample(sample)) = records(&bytes).next() else { panic!("no sample") };
        let stack = sample.stack().unwrap();
        let registers = Registers { string: (1, 2), bp: 3, sp: 4, ip: 5, lr: 0 };
        assert_eq!(stack, StackCopy { registers: Some(registers), dump: &0x11_u64.to_ne_bytes() });
        let (mut in_kernel, mut in_user) = (Vec::new(), Vec::new());
        sample.split_chain(&mut in_kernel, &mut in_user);
        assert_eq!((in_kernel, in_user), (vec![0xffff_8000_0000_1000], vec![0x1000]));
    }

    #[test]
    fn names_and_switches_are_read() {
        let name = u64::from_ne_bytes(*b"worker\0\0");
        let mut bytes = record(c::PERF_RECORD_COMM, 0, &[pair(5, 6), name, pair(5, 6), 40, 1]);
        let out = c::PERF_RECORD_MISC_SWITCH_OUT | c::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
        bytes.extend(record(c::PERF_RECORD_SWITCH, out as u16, &[pair(5, 6), 50, 1]));
        let all: Vec<_> = records(&bytes).collect();
        let Raw::Name(found) = all[0] else { panic!("{:?}", all[0]) };
        assert_eq!((found.name, found.exec, found.task.tid), (&b"worker"[..], false, 6));
        let switch = Switch { pid: 5, tid: 6, time_ns: 50, out: true, preempted: true };
        assert_eq!(all[1], Raw::Switch(switch));
    }

    #[test]
    fn call_chain_drops_context_markers_and_survives_a_length_that_lies() {
        let words = [1, 2, 3, 4, 0, 900, (-128_i64) as u64, 0xffff_8000_0000_1000];
        let bytes = record(c::PERF_RECORD_SAMPLE, 1, &words);
        let Some(Raw::Sample(sample)) = records(&bytes).next() else { panic!("no sample") };
        assert_eq!(sample.chain().collect::<Vec<_>>(), [0xffff_8000_0000_1000]);
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            prop_assert!(records(&bytes).count() <= bytes.len() / 8);
        }

        #[test]
        fn any_body_of_any_kind_is_taken(
            kind in 0_u32..16, misc in any::<u16>(), words in prop::collection::vec(any::<u64>(), 0..40), cut in 0_usize..400,
        ) {
            let mut bytes = record(kind, misc, &words);
            for raw in records(&bytes) {
                if let Raw::Sample(sample) = raw {
                    let _ = (sample.string_registers(), sample.chain().count(), sample.stack());
                }
            }
            bytes.truncate(cut);
            let _ = records(&bytes).count();
        }
    }
}
