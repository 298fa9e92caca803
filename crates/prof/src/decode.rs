//! What the faulting instruction was doing with its address.
//!
//! In: mappings and tasks as they come, then a fault's process, instruction, address and string registers.
//! Out: read, write, execute, or `None` if unknown. Code is read from the process while it lives, else from
//! the mapped file, and decoded once per location. On other processors than x86-64 only instruction fetches
//! are recognised.
//!
//! It does not decode 32-bit programs, or instructions that load and store at different addresses,
//! except string moves.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use faultless_os::{process_memory, syscall};
use faultless_trace::observation::{Access, Map};
use rustc_hash::FxHashMap;

use crate::address_space::{AddressSpace, Region};

/// Longest x86-64 instruction in bytes (Intel SDM volume 2, 2.3.11).
const INSTRUCTION_MAX: usize = 15;

/// Code by process, and what has been decoded.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    spaces: FxHashMap<u32, Space>,
    /// By file name, then by offset in the file: shared by all processes.
    files: FxHashMap<Arc<str>, FxHashMap<u64, Use>>,
}

#[derive(Clone, Debug, Default)]
struct Space {
    code: AddressSpace<()>,
    /// Decoded places in no file.
    elsewhere: FxHashMap<u64, Use>,
}

/// How an instruction uses memory.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "nothing is decoded there"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Write,
    /// From RSI to RDI.
    Move,
    Unknown,
}

/// The fields of a fault that matter here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) pid: u32,
    pub(crate) ip: u64,
    pub(crate) addr: u64,
    /// RSI and RDI of a 64-bit program.
    pub(crate) registers: Option<(u64, u64)>,
}

impl Decoder {
    /// A mapping appeared.
    pub(crate) fn map(&mut self, pid: u32, map: &Map) {
        self.spaces.entry(pid).or_default().code.map(map);
    }

    /// A process appeared, with its parent's code.
    pub(crate) fn fork(&mut self, pid: u32, parent: u32) {
        let space = self.spaces.get(&parent).cloned().unwrap_or_default();
        self.spaces.insert(pid, space);
    }

    /// A process ended or replaced its program.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.spaces.remove(&pid);
    }

    /// What the instruction was doing.
    pub(crate) fn access(&mut self, fault: Fault) -> Option<Access> {
        let ahead = fault.addr.wrapping_sub(fault.ip);
        if ahead < INSTRUCTION_MAX as u64 {
            return Some(Access::Execute);
        }
        let (source, destination) = fault.registers?;
        let page = faultless_os::page::size() as u64;
        match self.at(fault.pid, fault.ip) {
            Use::Read => Some(Access::Read),
            Use::Write => Some(Access::Write),
            Use::Move => {
                match (fault.addr.abs_diff(source) < page, fault.addr.abs_diff(destination) < page) {
                    (true, false) => Some(Access::Read),
                    (false, true) => Some(Access::Write),
                    _ => None,
                }
            }
            Use::Unknown => None,
        }
    }

    /// What brought a thread into the kernel that will go on at `ip`: the name of a system call, or
    /// [`syscall::FAULT`]. `None` without the code.
    pub(crate) fn entry(&self, pid: u32, ip: u64) -> Option<&'static str> {
        let at = ip.checked_sub(syscall::CODE_BYTES as u64)?;
        let mut code = [0; syscall::CODE_BYTES];
        let region = self.spaces.get(&pid).and_then(|space| space.code.region(space.code.find(at)?));
        (read(pid, at, region, &mut code) == code.len()).then(|| syscall::entry(&code))
    }

    fn at(&mut self, pid: u32, ip: u64) -> Use {
        let Some(space) = self.spaces.get_mut(&pid) else { return Use::Unknown };
        let region = space.code.find(ip).and_then(|index| space.code.region(index));
        match region.filter(|region| region.name.starts_with('/')) {
            Some(region) => {
                let offset = region.file_offset + (ip - region.range.start);
                let known = self.files.entry(region.name.clone()).or_default();
                *known.entry(offset).or_insert_with(|| {
                    let mut bytes = [0; INSTRUCTION_MAX];
                    let len = read(pid, ip, Some(region), &mut bytes);
                    decode(&bytes[..len])
                })
            }
            None => *space.elsewhere.entry(ip).or_insert_with(|| {
                let mut bytes = [0; INSTRUCTION_MAX];
                let len = read(pid, ip, None, &mut bytes);
                decode(&bytes[..len])
            }),
        }
    }
}

/// Code at an address, from the process, else from the file of its region. Returns the bytes read.
fn read(pid: u32, at: u64, region: Option<&Region<()>>, bytes: &mut [u8]) -> usize {
    let in_memory = process_memory::read(pid as i32, at, bytes).ok();
    let in_file = || {
        let Region { name, range, file_offset, .. } = region?;
        std::fs::File::open(&**name).ok()?.read_at(bytes, file_offset + (at - range.start)).ok()
    };
    in_memory.or_else(in_file).unwrap_or(0)
}

#[cfg(target_arch = "x86_64")]
fn decode(bytes: &[u8]) -> Use {
    use iced_x86::{InstructionInfoFactory, InstructionInfoOptions, OpAccess};

    let instruction = iced_x86::Decoder::new(64, bytes, iced_x86::DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return Use::Unknown;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(&instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    let (mut reads, mut writes) = (0, 0);
    for memory in info.used_memory() {
        match memory.access() {
            OpAccess::Read | OpAccess::CondRead => reads += 1,
            OpAccess::None | OpAccess::NoMemAccess => {}
            // A processor that will store asks for the page for writing, even if it loads first.
            _ => writes += 1,
        }
    }
    match (reads, writes) {
        (0, 0) => Use::Unknown,
        (_, 0) => Use::Read,
        (0, _) => Use::Write,
        _ if instruction.is_string_instruction() => Use::Move,
        _ => Use::Unknown,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn decode(_bytes: &[u8]) -> Use {
    Use::Unknown
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::address_space::PROT_EXEC;

    #[test]
    fn loads_stores_and_moves_are_told_apart() {
        assert_eq!(decode(&[0xc6, 0x00, 0x01]), Use::Write, "mov byte [rax], 1");
        assert_eq!(decode(&[0x8a, 0x00]), Use::Read, "mov al, [rax]");
        assert_eq!(decode(&[0x48, 0xff, 0x00]), Use::Write, "inc qword [rax]");
        assert_eq!(decode(&[0xf3, 0xaa]), Use::Write, "rep stosb");
        assert_eq!(decode(&[0xf3, 0xa4]), Use::Move, "rep movsb");
        assert_eq!(decode(&[0x0f, 0x11, 0x07]), Use::Write, "movups [rdi], xmm0");
        assert_eq!(decode(&[0xe8, 0, 0, 0, 0]), Use::Write, "call pushes its return address");
        assert_eq!(decode(&[0xff, 0x30]), Use::Unknown, "push [rax]");
        assert_eq!(decode(&[0x48, 0x01]), Use::Unknown, "cut off");
    }

    #[test]
    fn a_move_is_settled_by_its_registers() {
        let mut decoder = Decoder::default();
        let pid = std::process::id();
        let code = Box::new([0xf3_u8, 0xa4, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let ip = code.as_ptr() as u64;
        decoder.map(pid, &Map { begin: ip, len_bytes: 15, prot: PROT_EXEC, ..Map::default() });
        let fault = |addr| Fault { pid, ip, addr, registers: Some((0x10_0000, 0x20_0000)) };
        assert_eq!(decoder.access(fault(0x10_0000)), Some(Access::Read));
        assert_eq!(decoder.access(fault(0x20_0010)), Some(Access::Write));
        assert_eq!(decoder.access(fault(0x30_0000)), None);
        assert_eq!(decoder.access(fault(ip)), Some(Access::Execute));
        assert_eq!(decoder.access(Fault { registers: None, ..fault(0x20_0000) }), None);
    }

    #[test]
    fn a_system_call_is_known_by_the_code_before_it() {
        let decoder = Decoder::default();
        let entry = |code: &[u8]| decoder.entry(std::process::id(), code.as_ptr_range().end as u64);
        assert_eq!(entry(&[0xb8, 27, 0, 0, 0, 0x0f, 0x05]), Some("mincore"));
        assert_eq!(entry(&[0x90, 0x90, 0x90, 0x90, 0xc6, 0x00, 0x01]), Some(syscall::FAULT));
        assert_eq!(decoder.entry(std::process::id(), 7), None);
    }

    #[test]
    fn a_forked_process_has_its_parents_code_until_exec() {
        let mut decoder = Decoder::default();
        decoder.map(1, &Map { begin: 0x1000, len_bytes: 0x1000, prot: PROT_EXEC, ..Map::default() });
        decoder.fork(2, 1);
        assert!(decoder.spaces[&2].code.find(0x1000).is_some());
        decoder.forget(2);
        assert!(!decoder.spaces.contains_key(&2));
        decoder.map(1, &Map { begin: 0x1000, len_bytes: 0x1000, prot: 1, ..Map::default() });
        assert!(decoder.spaces[&1].code.find(0x1000).is_none(), "a new mapping hides the old one");
    }
}
