//! From one frame to its caller, up to the root.
//!
//! In: registers, the copied stack, the kernel's chain. Out: the instruction pointer and the return addresses, leaf first.

use framehop::{FrameAddress, UnwindRegsNative, Unwinder as _};

use super::memory::Memory;
use super::{CONTEXT_MARKS, Code, Process, Unwinder, UserStack, generated};
use crate::address_space::AddressSpace;
use crate::tuning as t;

impl Unwinder {
    /// Appends the user part of the stack, leaf first: the instruction pointer, then return addresses.
    pub(super) fn walk(
        &mut self,
        pid: u32,
        process: &mut Process,
        stack: &UserStack<'_>,
        addresses: &mut Vec<u64>,
    ) {
        let chain = || stack.chain.iter().copied().filter(|address| *address < CONTEXT_MARKS);
        let Some(ip) = Some(stack.ip).filter(|ip| *ip != 0).or_else(|| chain().next()) else { return };
        let limit = addresses.len() + t::STACK_FRAMES_MAX;
        let Process { space, held, tails, .. } = process;
        let mut registers = registers(stack);
        let mut at = FrameAddress::from_instruction_pointer(ip);
        let mut here = self.code(pid, space, ip);
        addresses.push(ip);
        let mut memory = Memory { stack, rest: None, missed: false };
        let mut copied = None;
        while addresses.len() < limit {
            let before = registers;
            let object = here.and_then(|(code, _)| code.object);
            let stub = (object.is_none() && at.is_return_address())
                .then(|| {
                    *held.entry(at.address()).or_insert_with(|| generated::held_bytes(pid, at.address()))
                })
                .flatten();
            let found = match stub {
                Some(bytes) => generated::leave(&mut registers, bytes, |address| memory.word(address)),
                None => self.step(object, at, &mut registers, &mut memory),
            };
            let mut caller = match found {
                Ok(None) if object.is_some() && at.is_return_address() => {
                    if let Some((key, len)) = copied {
                        if tails.len() >= t::STACK_TAILS_MAX {
                            tails.clear();
                        }
                        tails.insert(key, addresses.get(len..).unwrap_or_default().into());
                    }
                    return;
                }
                Ok(caller) => caller.and_then(|caller| self.caller(pid, space, caller)),
                Err(_) => None,
            };
            if found.is_ok() && caller.is_none() && object.is_some() {
                // Code without unwind information in its file: framehop took the top of the stack for the
                // return address.
                registers = before;
                let found = self.step(None, at, &mut registers, &mut memory);
                caller = found.ok().flatten().and_then(|caller| self.caller(pid, space, caller));
            }
            if caller.is_none() && memory.missed && copied.is_none() {
                let key = (at.address(), before.sp());
                copied = Some((key, addresses.len()));
                memory.rest = self.reader.rest(pid, stack, before.sp());
                if memory.rest.is_some() {
                    registers = before;
                    continue;
                }
            }
            let Some((next, code)) = caller else { break };
            (at, here) = (next, Some(code));
            addresses.push(at.address());
        }
        if let Some((key, len)) = copied {
            // The current memory did not lead to the root: the stack has changed.
            addresses.truncate(len);
            if let Some(tail) = tails.get(&key) {
                addresses.extend_from_slice(tail);
                return;
            }
        }
        let last = addresses.last().copied().unwrap_or(ip);
        for caller in chain().skip_while(|address| *address != last).skip(1) {
            if addresses.len() >= limit || self.caller(pid, space, caller).is_none() {
                return;
            }
            addresses.push(caller);
        }
    }

    /// The return address, by the unwind information of this object, else by frame pointers. `Ok(None)`:
    /// there is no caller.
    fn step(
        &mut self,
        object: Option<(u32, u64)>,
        at: FrameAddress,
        registers: &mut UnwindRegsNative,
        memory: &mut Memory<'_>,
    ) -> Result<Option<u64>, framehop::Error> {
        let mut read = |address: u64| memory.word(address).ok_or(());
        let found = object.and_then(|(number, bias)| Some((self.objects.get_mut(number)?, moved(at, bias)?)));
        match found {
            Some((object, at)) => object.unwinder.unwind_frame(at, registers, &mut object.cache, &mut read),
            None => self.by_frame_pointers.unwinder.unwind_frame(
                at,
                registers,
                &mut self.by_frame_pointers.cache,
                &mut read,
            ),
        }
    }

    /// A plausible return address, and the code there.
    fn caller(
        &mut self,
        pid: u32,
        space: &mut AddressSpace<Code>,
        address: u64,
    ) -> Option<(FrameAddress, (Code, u64))> {
        let at = FrameAddress::from_return_address(address)?;
        Some((at, self.code(pid, space, at.address_for_lookup())?))
    }
}

/// Converts an address in memory to the address that its file states.
fn moved(at: FrameAddress, bias: u64) -> Option<FrameAddress> {
    let address = at.address().wrapping_add(bias);
    if at.is_return_address() {
        FrameAddress::from_return_address(address)
    } else {
        Some(FrameAddress::from_instruction_pointer(address))
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(stack: &UserStack<'_>) -> UnwindRegsNative {
    UnwindRegsNative::new(stack.ip, stack.sp, stack.bp)
}

#[cfg(target_arch = "aarch64")]
fn registers(stack: &UserStack<'_>) -> UnwindRegsNative {
    UnwindRegsNative::new(stack.lr, stack.sp, stack.bp)
}
