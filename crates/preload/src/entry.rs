//! The entries of the recorded C functions: they pass their caller's registers on, before code of this library changes
//! them.
//!
//! In: C's arguments, at most three. Out: a jump to a function of `recorded` with the same first arguments. The stack
//! pointer, the frame pointer and the return address follow as the fourth to sixth. The stack is as the caller left it.

/// Defines the C function `$name`, which jumps to `recorded::$name`.
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
