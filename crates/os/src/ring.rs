//! The ring buffer that perf events write into, and the records in it.
//!
//! In: an [`Event`] to map the ring of. Out: copies of the bytes that the kernel wrote, and [`records`], a parser that
//! takes any bytes at all: what it does not understand it skips, what is cut off ends it. The layout is that of
//! perf_event_open(2) for the sample types that [`crate::perf`] asks for.
//!
//! What it does not do: know which event an id belongs to, or what a record means (`prof`).

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
    /// EPERM when `perf_event_mlock_kb` and RLIMIT_MEMLOCK are used up: try fewer pages. ENOMEM.
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

    /// Appends everything that the kernel has written since the last call to `out` and gives the room back.
    ///
    /// Records are whole: the kernel moves its position only past finished ones.
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
    /// `pid` replaced its program.
    Exec(Task),
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

impl Sample<'_> {
    /// RSI and RDI of the user's program, where they were sampled.
    pub fn string_registers(&self) -> Option<(u64, u64)> {
        let abi = word(self.rest, 0)?;
        if abi == 0 { None } else { Some((word(self.rest, 8)?, word(self.rest, 16)?)) }
    }

    /// Addresses of the call chain, leaf first, without the context markers.
    pub fn chain(&self) -> impl Iterator<Item = u64> + '_ {
        let markers = c::PERF_CONTEXT_MAX as i64 as u64;
        let len = word(self.rest, 0).unwrap_or(0).min(1 << 16) as usize;
        (1..=len).map_while(|index| word(self.rest, index * 8)).filter(move |&ip| ip < markers)
    }
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

/// `PERF_RECORD_FORK`, `_EXIT` and the exec form of `_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Parent process; the process itself for a new thread, and for exec.
    pub parent: u32,
    /// When.
    pub time_ns: u64,
}

/// The records in `bytes`, one after another; ends at the first that is cut off or has an impossible length.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    std::iter::from_fn(move || {
        let head = word(bytes, 0)?;
        let size = (head >> 48) as usize;
        if size < 8 {
            return None;
        }
        let record = bytes.get(..size)?;
        bytes = &bytes[size..];
        Some(parse(head as u32, (head >> 32) as u16, &record[8..]).unwrap_or(Raw::Other))
    })
}

/// `body` is the record after its 8-byte header. Others than samples end with pid, tid, time and id: 24 bytes.
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
        c::PERF_RECORD_COMM if u32::from(misc) & c::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            Some(Raw::Exec(task(half(body, 0)?, 4)?))
        }
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
            &[77, 0x1000, pair(5, 6), 99, 0xabc0, 2, 11, 12],
        );
        let Some(Raw::Sample(sample)) = records(&bytes).next() else { panic!("no sample") };
        assert_eq!((sample.id, sample.ip, sample.pid, sample.tid), (77, 0x1000, 5, 6));
        assert_eq!((sample.time_ns, sample.addr, sample.kernel), (99, 0xabc0, false));
        assert_eq!(sample.string_registers(), Some((11, 12)));
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
                    let _ = (sample.string_registers(), sample.chain().count());
                }
            }
            bytes.truncate(cut);
            let _ = records(&bytes).count();
        }
    }
}
