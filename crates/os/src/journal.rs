//! A journal in memory. Programs write their allocations and frees into it, with a copy of the caller's
//! stack, and one recorder reads it.
//!
//! In: entries from any thread of any process that knows the journal's path. Out: the same entries, in order
//! for each thread. There are two queues of slots: 4096 long ones with a stack, 8192 short ones without, 9.4
//! MiB together. They lie in an unnamed file (memfd), which is gone with its last user, and which nobody can
//! truncate under a program (F_SEAL_SHRINK).
//!
//! A writer's first entry with a stack makes the whole journal resident in its process. That takes about 150
//! faults and adds 9.4 MiB of shared memory to its RSS. The recorder causes them, not the program. After that
//! nothing here faults.
//!
//! It does not wait, lock or allocate while it writes, or know what the entries mean (`prof`).
//!
//! References: memfd_create(2), fcntl(2).

mod queue;

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::ptr::NonNull;

use crate::advise::{self, Advice};
use crate::counters::{Who, now_ns, rusage};
use crate::error::{Error, Result};
use crate::map;
use queue::{LINE_BYTES, OWNED_BYTES, Queue, Slot};

/// Bytes of stack that an entry holds at most.
pub const STACK_BYTES: usize = 2048;

const SHORT_SLOTS: u64 = 1 << 13;
const SHORT_BYTES: usize = LINE_BYTES;
const LONG_SLOTS: u64 = 1 << 12;
const LONG_BYTES: usize = (OWNED_BYTES + size_of::<Long>()).next_multiple_of(LINE_BYTES);
/// Where the long queue begins.
const LONG_AT: usize = Queue::bytes(SHORT_SLOTS, SHORT_BYTES);
/// Length of a journal before rounding to whole pages.
const BYTES: usize = LONG_AT + Queue::bytes(LONG_SLOTS, LONG_BYTES);

const _: () = assert!(OWNED_BYTES + size_of::<Entry>() <= SHORT_BYTES);

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// What.
    pub kind: Kind,
    /// Time, CLOCK_MONOTONIC in ns: before a free, after an allocation.
    pub time_ns: u64,
    /// When the call began, for [`Kind::MOVED`].
    pub begin_ns: u64,
    /// First address.
    pub addr: u64,
    /// Length asked for, bytes. Faults, for [`Kind::POPULATED`].
    pub len_bytes: u64,
    /// First address before, for [`Kind::MOVED`].
    pub from: u64,
}

/// The kind of an entry. A number, since it is read from memory that others write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Kind(u64);

impl Kind {
    /// The block was allocated.
    pub const BORN: Self = Self(1);
    /// The block is about to be freed.
    pub const DIED: Self = Self(2);
    /// The block changed its length, and perhaps its address.
    pub const MOVED: Self = Self(3);
    /// The writer's mapping of the journal became resident.
    pub const POPULATED: Self = Self(4);
    /// From here on: a system call, by its number.
    const CALLED: u64 = 1 << 32;

    /// The thread made this system call. The first four arguments are in `addr`, `len_bytes`, `from` and `begin_ns`.
    pub fn called(number: i64) -> Self {
        Self(Self::CALLED + u64::from(number as u32))
    }

    /// The number of that call.
    pub fn call(self) -> Option<i64> {
        self.0.checked_sub(Self::CALLED).map(|number| number as i64)
    }
}

/// Who writes an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

impl Writer {
    fn word(self) -> u64 {
        u64::from(self.pid) << 32 | u64::from(self.tid)
    }

    fn from_word(word: u64) -> Self {
        Self { pid: (word >> 32) as u32, tid: word as u32 }
    }
}

/// A caller's registers when its call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// Address inside the calling instruction.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub bp: u64,
    /// Link register, on aarch64.
    pub lr: u64,
}

/// The end of a system call, where it was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct End {
    /// What the call returned.
    pub result: i64,
    /// How long it took, ns; 0: nobody waited for its end.
    pub ns: u64,
    /// CPU time of it, ns.
    pub cpu_ns: u64,
}

/// The caller of a long entry.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Its registers.
    pub registers: Registers,
    /// A copy of its stack, from the stack pointer up.
    pub stack: &'a [u8],
    /// The end of its call.
    pub end: End,
}

/// Payload of a long slot. A short slot holds an `Entry`.
#[repr(C)]
struct Long {
    entry: Entry,
    registers: Registers,
    end: End,
    stack_bytes: u64,
    stack: [u8; STACK_BYTES],
}

/// The mapped journal.
#[derive(Debug)]
pub struct Journal {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping is shared by design; everything in it is reached through queues.
unsafe impl Send for Journal {}
// SAFETY: as above.
unsafe impl Sync for Journal {}

impl Journal {
    /// Maps the journal at a path.
    ///
    /// # Errors
    /// As open(2) or mmap(2); EINVAL: not a journal of this version.
    pub fn open(path: &CStr) -> Result<Self> {
        // SAFETY: a C string, and no other memory.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOCTTY) };
        if fd < 0 {
            return Err(Error::last("open(journal"));
        }
        let journal = Self::map(fd);
        // SAFETY: opened above, not shared.
        unsafe { libc::close(fd) };
        journal
    }

    fn map(fd: RawFd) -> Result<Self> {
        let len_bytes = crate::page::round_up(BYTES);
        let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the pointer is valid for one stat.
        if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
            return Err(Error::last("fstat(journal"));
        }
        // SAFETY: all-zero is a valid stat, and the kernel has filled it in.
        let is_journal = unsafe { stat.assume_init() }.st_size == len_bytes as i64
            // SAFETY: F_GET_SEALS takes no memory.
            && unsafe { libc::fcntl(fd, libc::F_GET_SEALS) } & libc::F_SEAL_SHRINK != 0;
        if !is_journal {
            return Err(Error::new("open(journal", libc::EINVAL));
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choice; no memory of ours is involved.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, rights, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::last_for("mmap(journal", len_bytes));
        }
        NonNull::new(base.cast())
            .map(|base| Self { base, len_bytes })
            .ok_or(Error::new("mmap(journal", libc::ENOMEM))
    }

    /// Makes the mapping resident in a writer's process, which then needs no new memory, and writes how many faults
    /// that took: they are not the program's. Before Linux 5.14 the pages fault one by one, later.
    pub fn join(&self, writer: Writer) {
        let faults = || rusage(Who::Thread).map_or(0, |usage| usage.minor_faults);
        let before = faults();
        self.populate(Advice::PopulateRead);
        let (time_ns, len_bytes) = (now_ns(), faults() - before);
        let kind = Kind::POPULATED;
        self.write(writer, Entry { kind, time_ns, begin_ns: time_ns, addr: 0, len_bytes, from: 0 });
    }

    fn populate(&self, advice: Advice) {
        // SAFETY: our own mapping; the advice changes no content. A refusal costs faults later.
        let _ = unsafe { advise::advise(self.base.as_ptr().addr(), self.len_bytes, advice) };
    }

    fn short(&self) -> Queue {
        // SAFETY: the file was zero and is as long as both queues, and is only used through them.
        unsafe { Queue::new(self.base.as_ptr(), SHORT_SLOTS, SHORT_BYTES) }
    }

    fn long(&self) -> Queue {
        // SAFETY: inside the mapping, see `short`.
        let base = unsafe { self.base.as_ptr().add(LONG_AT) };
        // SAFETY: as in `short`.
        unsafe { Queue::new(base, LONG_SLOTS, LONG_BYTES) }
    }

    /// Writes an entry, or counts it as lost.
    pub fn write(&self, writer: Writer, entry: Entry) {
        let Some(claim) = self.short().claim(writer.word()) else { return };
        // SAFETY: the claimed slot has room for an entry (asserted above), aligned to 8, and is ours until it is published.
        unsafe { claim.payload().cast::<Entry>().write(entry) };
        claim.publish();
    }

    /// Writes an entry with its caller, or counts it as lost.
    ///
    /// # Safety
    /// `stack_bytes` bytes from the caller's stack pointer on must be readable.
    pub unsafe fn write_with_stack(
        &self,
        writer: Writer,
        entry: Entry,
        caller: Registers,
        stack_bytes: usize,
    ) {
        let stack = (caller.sp as *const u8, stack_bytes);
        // SAFETY: the caller says that so much is readable.
        unsafe { self.write_long(writer, entry, caller, End::default(), stack) };
    }

    /// The same for a caller in another process, whose stack has been copied.
    pub fn write_with_copy(&self, writer: Writer, entry: Entry, caller: Caller<'_>) {
        let stack = (caller.stack.as_ptr(), caller.stack.len());
        // SAFETY: a slice is readable.
        unsafe { self.write_long(writer, entry, caller.registers, caller.end, stack) };
    }

    /// # Safety
    /// `stack_bytes` bytes from `stack` on must be readable.
    unsafe fn write_long(
        &self,
        writer: Writer,
        entry: Entry,
        caller: Registers,
        end: End,
        (stack, stack_bytes): (*const u8, usize),
    ) {
        let Some(claim) = self.long().claim(writer.word()) else { return };
        let stack_bytes = stack_bytes.min(STACK_BYTES);
        let long = claim.payload().cast::<Long>();
        // SAFETY: the claimed slot has room for a `Long`, aligned to 8, and is ours until it is published.
        unsafe { (&raw mut (*long).entry).write(entry) };
        // SAFETY: as above.
        unsafe { (&raw mut (*long).registers).write(caller) };
        // SAFETY: as above.
        unsafe { (&raw mut (*long).end).write(end) };
        // SAFETY: as above.
        unsafe { (&raw mut (*long).stack_bytes).write(stack_bytes as u64) };
        // SAFETY: as above.
        let to = unsafe { &raw mut (*long).stack }.cast::<u8>();
        // SAFETY: the caller says that so much is readable; the slot has STACK_BYTES.
        unsafe { std::ptr::copy_nonoverlapping(stack, to, stack_bytes) };
        claim.publish();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no longer used.
        let _ = unsafe { map::release(self.base.as_ptr().addr(), self.len_bytes) };
    }
}

/// The reading side, which also owns the file.
#[derive(Debug)]
pub struct Reader {
    journal: Journal,
    file: File,
    short_at: u64,
    long_at: u64,
    given_up: u64,
}

/// What [`Reader::next`] found.
#[derive(Debug)]
pub enum Next<'a> {
    /// Everything written so far has been read.
    Nothing,
    /// The next entry is still being written, by this process if it is known. [`Reader::give_up`] skips it.
    Unfinished {
        /// Process, or 0.
        pid: u32,
        /// The entry's position in the queue.
        position: u64,
    },
    /// An entry, which is now removed from the journal.
    Entry(Writer, Entry, Option<Caller<'a>>),
}

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueId {
    /// Entries with a stack.
    Long,
    /// Entries without.
    Short,
}

impl Reader {
    /// A new journal, fully resident.
    ///
    /// # Errors
    /// EMFILE, ENOMEM, ENOSYS before Linux 3.17.
    pub fn create() -> Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a C string, and no other memory.
        let fd = unsafe { libc::memfd_create(c"faultless journal".as_ptr(), flags) };
        if fd < 0 {
            return Err(Error::last("memfd_create"));
        }
        // SAFETY: just opened, and owned by no other value.
        let file = unsafe { File::from_raw_fd(fd) };
        let len_bytes = crate::page::round_up(BYTES);
        // SAFETY: no memory is involved. Unlike ftruncate it reserves the pages, which a writer can then not lack.
        if unsafe { libc::fallocate(fd, 0, 0, len_bytes as i64) } != 0 {
            return Err(Error::last_for("fallocate(journal", len_bytes));
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: F_ADD_SEALS takes an integer.
        if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } != 0 {
            return Err(Error::last("fcntl(F_ADD_SEALS"));
        }
        let journal = Journal::map(fd)?;
        journal.populate(Advice::PopulateWrite);
        Ok(Self { journal, file, short_at: 0, long_at: 0, given_up: 0 })
    }

    /// The journal, for a writer that this process forks.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The path under which this process's descendants find it while this value lives: `/proc/PID/fd/N`.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// The next entry of one queue. The stack is valid until the next call.
    pub fn next<'a>(&mut self, which: QueueId, stack: &'a mut Vec<u8>) -> Next<'a> {
        let (queue, at) = match which {
            QueueId::Long => (self.journal.long(), self.long_at),
            QueueId::Short => (self.journal.short(), self.short_at),
        };
        let payload = match queue.peek(at) {
            Slot::Nothing => return Next::Nothing,
            Slot::Claimed(owner) => {
                return Next::Unfinished { pid: Writer::from_word(owner).pid, position: at };
            }
            Slot::Full(payload) => payload,
        };
        let writer = Writer::from_word(queue.owner(at));
        // SAFETY: a published slot holds an entry of its writer, and any bits are an entry.
        let entry = unsafe { payload.cast::<Entry>().read() };
        let caller = (which == QueueId::Long).then(|| {
            let long = payload.cast::<Long>();
            // SAFETY: as above, of a long slot.
            let registers = unsafe { (&raw const (*long).registers).read() };
            // SAFETY: as above.
            let end = unsafe { (&raw const (*long).end).read() };
            // SAFETY: as above.
            let len = unsafe { (&raw const (*long).stack_bytes).read() } as usize;
            // SAFETY: as above.
            let from = unsafe { &raw const (*long).stack }.cast::<u8>();
            stack.resize(len.min(STACK_BYTES), 0);
            // SAFETY: at most as many bytes as the slot has, into memory of ours.
            unsafe { std::ptr::copy_nonoverlapping(from, stack.as_mut_ptr(), stack.len()) };
            Caller { registers, stack: stack.as_slice(), end }
        });
        queue.free(at);
        self.advance(which);
        Next::Entry(writer, entry, caller)
    }

    fn advance(&mut self, which: QueueId) {
        match which {
            QueueId::Long => self.long_at += 1,
            QueueId::Short => self.short_at += 1,
        }
    }

    /// Skips the unfinished entry, which counts as lost.
    pub fn give_up(&mut self, which: QueueId) {
        match which {
            QueueId::Long => self.journal.long().free(self.long_at),
            QueueId::Short => self.journal.short().free(self.short_at),
        }
        self.advance(which);
        self.given_up += 1;
    }

    /// Entries that found no room, and those given up, so far.
    pub fn lost(&self) -> u64 {
        self.journal.short().lost() + self.journal.long().lost() + self.given_up
    }
}
