//! The name and the number of the process, for the report.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{next, pool};

/// Bytes of a thread's name with its terminator, prctl(2).
pub(super) const BYTES: usize = 16;

/// The name when the process confined itself: a sandbox may forbid prctl(2) later.
static KEPT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// The name of the process. Writes it into `name`.
pub(super) fn of_process(name: &mut [u8; BYTES]) -> &[u8] {
    if pool::is_confined() {
        let kept = KEPT.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes());
        name.iter_mut().zip(kept).for_each(|(to, byte)| *to = byte);
    } else {
        ask(name);
    }
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    name.split_at_checked(len).map_or(&name[..], |(name, _)| name)
}

/// The number of the process. A passive interposer has not kept it.
pub(super) fn number() -> u32 {
    match pool::process() {
        0 => faultless_os::call::process_id(),
        kept => kept,
    }
}

/// Keeps the name for later.
pub(super) fn keep() {
    let mut name = [0; BYTES];
    ask(&mut name);
    let (words, _) = name.as_chunks();
    KEPT.iter().zip(words).for_each(|(to, word)| to.store(u64::from_ne_bytes(*word), Relaxed));
}

fn ask(name: &mut [u8; BYTES]) {
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { next::system_call(libc::SYS_prctl, [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize]) };
}
