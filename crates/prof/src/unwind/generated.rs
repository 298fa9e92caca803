//! Generated code that keeps no frame pointer but can be decoded: the trampolines of Python 3.12, one for
//! each function.
//!
//! In: a return address in such code. Out: where the next return address lies.
//!
//! The code is CPython 3.12, Python/asm_trampoline.S: `call *%rcx; add $8,%rsp; ret`. Since 3.13 it keeps a
//! frame pointer, as it always did on aarch64.

use faultless_os::process_memory;
use framehop::{Error, UnwindRegsNative};

/// Bytes between the stack pointer and the next return address, if the code at `address` is `add $BYTES,%rsp;
/// ret`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn held_bytes(pid: u32, address: u64) -> Option<u64> {
    let mut code = [0; 5];
    if process_memory::read(pid as i32, address, &mut code) == Ok(code.len()) { of_code(code) } else { None }
}

#[cfg(target_arch = "x86_64")]
fn of_code(code: [u8; 5]) -> Option<u64> {
    match code {
        [0x48, 0x83, 0xc4, bytes @ 0..0x80, 0xc3] if bytes % 8 == 0 => Some(u64::from(bytes)),
        _ => None,
    }
}

/// Returns from such code.
#[cfg(target_arch = "x86_64")]
pub(crate) fn leave(
    registers: &mut UnwindRegsNative,
    held_bytes: u64,
    mut word: impl FnMut(u64) -> Option<u64>,
) -> Result<Option<u64>, Error> {
    let at = registers.sp().checked_add(held_bytes).ok_or(Error::IntegerOverflow)?;
    let caller = word(at).ok_or(Error::CouldNotReadStack(at))?;
    let sp = at.checked_add(8).ok_or(Error::IntegerOverflow)?;
    *registers = UnwindRegsNative::new(caller, sp, registers.bp());
    Ok(Some(caller))
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn held_bytes(_: u32, _: u64) -> Option<u64> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn leave(
    _: &mut UnwindRegsNative,
    _: u64,
    _: impl FnMut(u64) -> Option<u64>,
) -> Result<Option<u64>, Error> {
    Ok(None)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_trampoline_tells_how_much_stack_it_holds_and_other_code_does_not() {
        assert_eq!(of_code([0x48, 0x83, 0xc4, 8, 0xc3]), Some(8));
        assert_eq!(of_code([0x48, 0x83, 0xc4, 0xf8, 0xc3]), None);
        assert_eq!(of_code([0x48, 0x89, 0xc4, 8, 0xc3]), None);
        let mut registers = UnwindRegsNative::new(1, 0x7000, 5);
        let word = |address| (address == 0x7008).then_some(0x1234);
        assert_eq!(leave(&mut registers, 8, word), Ok(Some(0x1234)));
        assert_eq!((registers.ip(), registers.sp(), registers.bp()), (0x1234, 0x7010, 5));
        assert!(leave(&mut registers, 16, word).is_err());
    }
}
