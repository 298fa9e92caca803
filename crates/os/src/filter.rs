//! A seccomp filter that stops a program at some of its system calls, for a tracer.
//!
//! In: numbers of calls. Out: a [`Filter`], which a child installs before its exec. Without a tracer such calls fail
//! (ENOSYS), so nobody installs it without one.
//!
//! Reference: seccomp(2).

/// A filter that stops a program at calls.
#[derive(Clone, Debug)]
pub struct Filter(Vec<libc::sock_filter>);

/// Byte offsets in `struct seccomp_data` (linux/seccomp.h).
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
/// AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 (linux/audit.h).
const ARCH: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };

impl Filter {
    /// Stops at these calls of 64-bit programs.
    pub fn new(numbers: impl IntoIterator<Item = libc::c_long>) -> Self {
        let numbers: Vec<u32> = numbers.into_iter().map(|number| number as u32).collect();
        let line = |code: u32, k: u32, jt: usize, jf: usize| libc::sock_filter {
            code: code as u16,
            jt: jt as u8,
            jf: jf as u8,
            k,
        };
        let load = |at| line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0);
        let is = |k, jt, jf| line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, jt, jf);
        let answer = |k| line(libc::BPF_RET | libc::BPF_K, k, 0, 0);
        let mut lines = vec![load(ARCH_AT), is(ARCH, 0, numbers.len() + 1), load(NUMBER_AT)];
        // The last two lines answer: go on, or stop.
        lines.extend(numbers.iter().enumerate().map(|(at, &number)| is(number, numbers.len() - at, 0)));
        lines.extend([answer(libc::SECCOMP_RET_ALLOW), answer(libc::SECCOMP_RET_TRACE)]);
        Self(lines)
    }

    /// Installs it in this process, which is about to run the program. Async-signal-safe. Without it nothing stops.
    pub(crate) fn install(&self) {
        let program = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
        // SAFETY: the kernel reads the filter that `program` describes.
        let install = || unsafe { libc::syscall(libc::SYS_seccomp, mode, 0_u64, &raw const program) };
        // Root needs no promise, which would take the rights of set-user-ID programs.
        if install() != 0 {
            // SAFETY: prctl with integers.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) };
            install();
        }
    }
}

/// Lets a process that is no ancestor follow this one (Yama). Async-signal-safe.
pub(crate) fn allow_follower() {
    // SAFETY: prctl with integers; EINVAL without Yama.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0_u64, 0_u64, 0_u64) };
}
