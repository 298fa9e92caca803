//! Keeps libgcc_s.so out of every interposed process: loading it costs some 100 us, more than the rest of this library.
//! Also keeps glibc's loader out of the needed libraries (`__tls_get_addr`), because musl has no such library.
//!
//! The standard library refers to the unwinder and to thread-local variables for panics. This library has no path to a
//! panic and is built with `panic = "abort"`. So it binds these references to one trap. The trap is hidden, so that the
//! program keeps its own unwinder.

/// Defines each name, hidden, at the same trap instruction.
macro_rules! trap {
    ($instruction:literal: $($name:literal)*) => {
        std::arch::global_asm!(
            ".text",
            $(concat!(".globl ", $name), concat!(".hidden ", $name), concat!($name, ":"),)*
            $instruction,
        );
    };
}

macro_rules! trap_unwinder {
    ($instruction:literal) => {
        trap!($instruction:
            "_Unwind_Backtrace" "_Unwind_DeleteException" "_Unwind_GetCFA" "_Unwind_GetDataRelBase" "_Unwind_GetIP"
            "_Unwind_GetIPInfo" "_Unwind_GetLanguageSpecificData" "_Unwind_GetRegionStart" "_Unwind_GetTextRelBase"
            "__tls_get_addr" "_Unwind_FindEnclosingFunction" "_Unwind_RaiseException" "_Unwind_Resume" "_Unwind_SetGR" "_Unwind_SetIP");
    };
}

#[cfg(target_arch = "x86_64")]
trap_unwinder!("ud2");
#[cfg(target_arch = "aarch64")]
trap_unwinder!("brk #1");
