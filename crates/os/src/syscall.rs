//! What brought a thread into the kernel: a system call or a fault.
//!
//! In: the code before the place where the thread will go on. Out: a name. Only the calls that may wait for the lock
//! of the address space have one of their own.
//!
//! It does not read code. It sees no call of a 32-bit program, and no number that was loaded far before its call.

/// Bytes of code that [`entry`] looks at: a load of the call's number, and the call.
pub const CODE_BYTES: usize = if cfg!(target_arch = "x86_64") { 7 } else { 8 };

/// The entry that is no call.
pub const FAULT: &str = "faults";
/// A call of which no more is known.
const OTHER: &str = "other calls";

/// Calls that change, read or copy mappings.
const CALLS: &[(libc::c_long, &str)] = &[
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_mremap, "mremap"),
    (libc::SYS_brk, "brk"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_pkey_mprotect, "pkey_mprotect"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_process_madvise, "process_madvise"),
    (libc::SYS_mincore, "mincore"),
    (libc::SYS_mlock, "mlock"),
    (libc::SYS_mlock2, "mlock2"),
    (libc::SYS_munlock, "munlock"),
    (libc::SYS_msync, "msync"),
    (libc::SYS_mbind, "mbind"),
    (libc::SYS_shmat, "shmat"),
    (libc::SYS_shmdt, "shmdt"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_fork, "fork"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_vfork, "vfork"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_exit_group, "exit_group"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_read, "read"),
];

/// The system call that ends the code, or [`FAULT`].
pub fn entry(code: &[u8; CODE_BYTES]) -> &'static str {
    let number = if cfg!(target_arch = "x86_64") { x86_64(code) } else { aarch64(code) };
    number.map_or(FAULT, |number| number.and_then(name).unwrap_or(OTHER))
}

/// The name of such a call.
pub fn name(number: libc::c_long) -> Option<&'static str> {
    CALLS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// The number of the call of that name.
pub fn number(name: &str) -> Option<libc::c_long> {
    CALLS.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}

/// `mov $NUMBER, %eax; syscall`, or another `syscall` or `int $0x80`; `None` for anything else.
fn x86_64(code: &[u8]) -> Option<Option<libc::c_long>> {
    match *code {
        [0xb8, a, b, c, d, 0x0f, 0x05] => Some(Some(u32::from_le_bytes([a, b, c, d]).into())),
        [.., 0x0f, 0x05] | [.., 0xcd, 0x80] => Some(None),
        _ => None,
    }
}

/// `mov x8, #NUMBER; svc #0`, or another `svc`; `None` for anything else.
fn aarch64(code: &[u8]) -> Option<Option<libc::c_long>> {
    const MOV_X8: u32 = 0xd280_0008;
    let word = |at: usize| Some(u32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?));
    let (load, call) = (word(0)?, word(4)?);
    let is_load = load & !(0xffff << 5) == MOV_X8;
    (call == 0xd400_0001).then(|| is_load.then(|| (load >> 5 & 0xffff).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_from_a_fault_by_the_code_before() {
        assert_eq!(x86_64(&[0xb8, 0x1b, 0, 0, 0, 0x0f, 0x05]), Some(Some(27)));
        assert_eq!(x86_64(&[0x90, 0x90, 0x89, 0xf8, 0x90, 0x0f, 0x05]), Some(None));
        assert_eq!(x86_64(&[0x90, 0x90, 0x90, 0x90, 0xc6, 0x00, 0x01]), None, "mov byte [rax], 1");
        let arm = |words: [u32; 2]| aarch64(&words.map(u32::to_le_bytes).concat());
        assert_eq!(arm([0xd280_1d28, 0xd400_0001]), Some(Some(233)), "madvise");
        assert_eq!(arm([0xaa00_03e8, 0xd400_0001]), Some(None));
        assert_eq!(arm([0xd280_1d28, 0xf900_0001]), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_that_take_the_lock_have_names() {
        let call = |number: u8| entry(&[0xb8, number, 0, 0, 0, 0x0f, 0x05]);
        let [mincore, madvise, munmap, mprotect, getpid] = [27, 28, 11, 10, 39];
        assert_eq!(
            [mincore, madvise, munmap, mprotect].map(call),
            ["mincore", "madvise", "munmap", "mprotect"]
        );
        assert_eq!(call(getpid), "other calls");
        assert_eq!(entry(&[0x90; CODE_BYTES]), FAULT);
    }
}
