//! How a C function begins: with its caller's registers, before any code of ours has changed them.
//!
//! In: C's arguments, at most three. Out: the same as the first arguments of a Rust function, which is jumped to; the
//! stack pointer, the frame pointer and the return address follow as the fourth to sixth. The stack is as the caller left it.

use faultless_os::journal::Registers;

/// Defines the C function `$name`, which goes on as `$target`.
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) -> $result:ty) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                "lea rcx, [rsp + 8]", "mov r8, rbp", "mov r9, [rsp]", "jmp {}", sym crate::recorded::$name
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                "mov x3, sp", "mov x4, x29", "mov x5, x30", "b {}", sym crate::recorded::$name
            );
        }
    };
}
pub(crate) use entry;

/// A caller, as the fourth to sixth arguments say.
pub(crate) fn caller(sp: usize, bp: usize, return_to: usize) -> Registers {
    // The address inside the call is looked up: what follows it may be another function's.
    Registers { ip: return_to as u64 - 1, sp: sp as u64, bp: bp as u64, lr: return_to as u64 }
}
