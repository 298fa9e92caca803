//! How soon a woken thread gets a processor, and which processor a new thread gets.
//!
//! In: a wish. Out: a request to the scheduler. An old kernel or missing rights may ignore a part of it.
//!
//! A thread with short time slices runs sooner and for shorter periods, with the same share. A thread with
//! high priority gets a larger share.
//!
//! A new thread may stay on its starter's processor although another one is idle. On Linux 6.18 in a guest
//! with two processors, 51 of 60 new threads did, for the whole millisecond of work (measured by hand). A
//! thread that moves at once, while its starter yields, runs beside it after 100 us.
//!
//! References: sched_setattr(2), sched_setaffinity(2); "sched/eevdf: Use sched_attr::sched_runtime to set request/slice suggestion", Linux 6.12.

use std::marker::PhantomData;

use crate::call::call;

/// Length of a time slice, ns: the shortest that the kernel grants.
const SLICE_NS: u64 = 100_000;

/// Niceness of a high-priority thread, which gives it ten times the share of an ordinary one.
const HIGH_PRIORITY_NICE: i32 = -10;

/// The calling thread's request to the scheduler; dropping it ends the request, on the same thread.
#[derive(Debug)]
pub struct ShortSlices {
    before: Option<libc::sched_attr>,
    /// Makes it `!Send`: the request is the calling thread's.
    _here: PhantomData<*const ()>,
}

impl ShortSlices {
    /// Requests short time slices for the calling thread. It then runs soon after it wakes up, even if all
    /// processors are busy (Linux 6.12). `high_priority` also raises its share (root, or RLIMIT_NICE).
    /// Threads and processes that it starts meanwhile inherit this. Changes nothing under policies other than
    /// SCHED_OTHER.
    pub fn request(high_priority: bool) -> Self {
        let before = get().filter(|found| found.sched_policy == libc::SCHED_OTHER as u32);
        if let Some(before) = before {
            let short = libc::sched_attr { sched_runtime: SLICE_NS, ..before };
            let ahead = libc::sched_attr { sched_nice: HIGH_PRIORITY_NICE.min(before.sched_nice), ..short };
            if !high_priority || !set(&ahead) {
                set(&short);
            }
        }
        Self { before, _here: PhantomData }
    }
}

impl Drop for ShortSlices {
    fn drop(&mut self) {
        self.before.iter().for_each(|before| {
            set(before);
        });
    }
}

/// The processor that the calling thread is on.
pub fn here() -> Option<usize> {
    // SAFETY: no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// If the calling thread is on this processor and may run elsewhere, moves it to any other, which the kernel
/// chooses. Afterwards it may run where it might before, but not on processors that come online later.
pub fn leave(processor: usize) {
    if here() != Some(processor) {
        return;
    }
    let Some(all) = allowed() else { return };
    let mut others = all;
    // SAFETY: the kernel runs this thread there, and a set with room for all of its processors was filled in.
    unsafe { libc::CPU_CLR(processor, &mut others) };
    // The kernel refuses an empty set.
    if allow(&others) {
        allow(&all);
    }
}

/// The processors that the calling thread may run on. `None` if there are more than 1024.
pub(crate) fn allowed() -> Option<libc::cpu_set_t> {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most so many bytes into `set`.
    let found = unsafe { call!(libc::SYS_sched_getaffinity, 0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    (found > 0).then_some(set)
}

fn allow(set: &libc::cpu_set_t) -> bool {
    // SAFETY: the kernel reads so many bytes of `set`.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) == 0 }
}

/// What holds for the calling thread.
fn get() -> Option<libc::sched_attr> {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most `size` bytes into `attributes`.
    let found = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    attributes.size = size as u32;
    (found == 0).then_some(attributes)
}

/// Whether the kernel took the wish.
fn set(wish: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads `size` bytes of its argument; a refusal leaves everything as it is.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *wish, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_short_and_then_as_before_while_policy_and_niceness_stay() {
        std::thread::spawn(|| {
            let Some(before) = get() else { return };
            let turns = ShortSlices::request(false);
            let during = get().unwrap();
            assert_eq!((during.sched_policy, during.sched_nice), (before.sched_policy, before.sched_nice));
            // Older kernels report 0, or their common slice.
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
            let mut version = release.split('.').map_while(|part| part.parse::<u32>().ok());
            if before.sched_policy == libc::SCHED_OTHER as u32
                && (version.next(), version.next()) >= (Some(6), Some(12))
            {
                assert_eq!(during.sched_runtime, SLICE_NS);
            }
            drop(turns);
            let after = get().unwrap();
            assert_eq!((after.sched_runtime, after.sched_nice), (before.sched_runtime, before.sched_nice));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_leaves_a_processor_and_may_come_back() {
        std::thread::spawn(|| {
            let Some(before) = allowed() else { return };
            // SAFETY: it only counts the set's bits.
            let processors = unsafe { libc::CPU_COUNT(&before) };
            let moves = |_: &u32| {
                let from = here().unwrap();
                leave(from);
                here() != Some(from)
            };
            // A busy machine may have moved it back at once.
            let moved = (0..20).filter(moves).count();
            assert_eq!(moved > 0, processors > 1, "{moved} of 20 on {processors}");
            // SAFETY: two whole sets.
            assert!(unsafe { libc::CPU_EQUAL(&before, &allowed().unwrap()) });
        })
        .join()
        .unwrap();
    }
}
