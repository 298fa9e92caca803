//! From call chains to stacks.
//!
//! In: mappings in the order of time, and call chains. Out: stacks, with each address in its module.
//!
//! perf follows frame pointers. If a function keeps none, its caller is junk, so a chain ends before the
//! first caller that is not code.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use faultless_trace::observation::Map;
use faultless_trace::recording::{Frame, Module, Stacks};

use crate::address_space::PROT_EXEC;
use crate::tuning::COPIED_MAPPINGS_MAX;

/// Callchain entries from here on are markers (`PERF_CONTEXT_MAX`, -4095).
const CONTEXT_FROM: u64 = 0_u64.wrapping_sub(4095);
/// `PERF_CONTEXT_KERNEL`: what follows ran in the kernel.
const CONTEXT_KERNEL: u64 = 0_u64.wrapping_sub(128);

#[derive(Clone, Copy)]
struct Piece {
    end: u64,
    file_offset: u64,
    module: u32,
}

/// The executable mappings of each process, and the stacks found.
#[derive(Default)]
pub(super) struct Code {
    spaces: HashMap<u32, Rc<BTreeMap<u64, Piece>>>,
    /// Mappings copied for forks, limited so that a file can't exhaust memory.
    copied: usize,
    pub(super) build_ids: HashMap<String, String>,
    pub(super) stacks: Stacks,
    modules: HashMap<String, u32>,
    frames: HashMap<(Option<u32>, u64), u32>,
    known: HashMap<Vec<u32>, u32>,
}

impl Code {
    pub(super) fn map(&mut self, pid: u32, map: &Map) {
        let (begin, end) = (map.begin, map.begin.saturating_add(map.len_bytes));
        if end <= begin {
            return;
        }
        let space = self.spaces.entry(pid).or_default();
        if Rc::strong_count(space) > 1 {
            self.copied = self.copied.saturating_add(space.len());
            if self.copied > COPIED_MAPPINGS_MAX {
                *space = Rc::default();
            }
        }
        let space = Rc::make_mut(space);
        let below = space.range(..begin).next_back().map(|(&at, &piece)| (at, piece));
        if let Some((at, piece)) = below.filter(|(_, piece)| piece.end > begin) {
            space.insert(at, Piece { end: begin, ..piece });
            if piece.end > end {
                space.insert(end, Piece { file_offset: piece.file_offset.saturating_add(end - at), ..piece });
            }
        }
        let hidden: Vec<u64> = space.range(begin..end).map(|(&at, _)| at).collect();
        for at in hidden {
            if let Some(piece) = space.remove(&at).filter(|piece| piece.end > end) {
                space.insert(end, Piece { file_offset: piece.file_offset.saturating_add(end - at), ..piece });
            }
        }
        if map.prot & PROT_EXEC == 0 {
            return;
        }
        // Generated code is named by address, as in `/tmp/perf-PID.map`.
        let generated = map.name.starts_with("//anon");
        let module = if generated { self.module(&format!("[jit {pid}]")) } else { self.module(&map.name) };
        let file_offset = if generated { begin } else { map.file_offset };
        let space = self.spaces.entry(pid).or_default();
        Rc::make_mut(space).insert(begin, Piece { end, file_offset, module });
    }

    pub(super) fn fork(&mut self, pid: u32, parent: u32) {
        if pid != parent
            && let Some(space) = self.spaces.get(&parent).cloned()
        {
            self.spaces.insert(pid, space);
        }
    }

    pub(super) fn exec(&mut self, pid: u32) {
        self.spaces.remove(&pid);
    }

    /// The number of the stack of a call chain, leaf first, with its markers; `kernel`: it begins in the
    /// kernel.
    pub(super) fn stack(
        &mut self,
        pid: u32,
        chain: impl Iterator<Item = u64>,
        mut kernel: bool,
    ) -> Option<u32> {
        let mut frames = Vec::new();
        for address in chain {
            if address >= CONTEXT_FROM {
                kernel = address == CONTEXT_KERNEL;
                continue;
            }
            // A return address points behind the call.
            let address = if frames.is_empty() { address } else { address.saturating_sub(1) };
            if address == 0 && !frames.is_empty() {
                continue;
            }
            let (module, address) = self.place(pid, address, kernel);
            if module.is_none() && !frames.is_empty() {
                break;
            }
            frames.push(self.frame(module, address));
        }
        if frames.is_empty() {
            return None;
        }
        if let Some(&known) = self.known.get(&frames) {
            return Some(known);
        }
        let number = self.stacks.stacks.len() as u32;
        self.stacks.stacks.push(frames.clone());
        self.known.insert(frames, number);
        Some(number)
    }

    /// The module that an address lies in, and the offset in it.
    fn place(&mut self, pid: u32, address: u64, kernel: bool) -> (Option<u32>, u64) {
        if kernel {
            return (Some(self.module("[kernel]")), address);
        }
        let space = self.spaces.get(&pid);
        let piece = space.and_then(|space| space.range(..=address).next_back());
        match piece.filter(|(_, piece)| address < piece.end) {
            Some((begin, piece)) => (Some(piece.module), piece.file_offset.saturating_add(address - begin)),
            None => (None, address),
        }
    }

    fn frame(&mut self, module: Option<u32>, address: u64) -> u32 {
        let next = self.stacks.frames.len() as u32;
        let number = *self.frames.entry((module, address)).or_insert(next);
        if number == next {
            self.stacks.frames.push(Frame { module, address, names: Vec::new() });
        }
        number
    }

    fn module(&mut self, path: &str) -> u32 {
        if let Some(&number) = self.modules.get(path) {
            return number;
        }
        let number = self.stacks.modules.len() as u32;
        let build_id = self.build_ids.get(path).cloned();
        self.stacks.modules.push(Module { path: path.to_owned(), build_id, ..Module::default() });
        self.modules.insert(path.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_EXECUTE: u32 = 5;
    const READ_WRITE: u32 = 3;

    fn code() -> Code {
        let mut code = Code::default();
        let map = |begin, prot, name: &str| Map {
            begin,
            len_bytes: 0x1000,
            prot,
            flags: 2,
            name: name.to_owned(),
            file_offset: 0x300,
        };
        code.map(7, &map(0x1000, READ_EXECUTE, "/bin/program"));
        code.map(7, &map(0x3000, READ_EXECUTE, "//anon"));
        code.map(7, &map(0x5000, READ_WRITE, "[heap]"));
        code
    }

    fn places(code: &mut Code, chain: &[u64]) -> Vec<(Option<String>, u64)> {
        let stack = code.stack(7, chain.iter().copied(), false).unwrap();
        let place = |frame: &Frame| {
            let path = frame.module.map(|module| code.stacks.modules[module as usize].path.clone());
            (path, frame.address)
        };
        code.stacks.frames_of(stack).map(place).collect()
    }

    #[test]
    fn a_chain_ends_before_a_caller_that_is_no_code() {
        let mut code = code();
        let program = |address| (Some("/bin/program".to_owned()), address);
        for garbage in [0x5bc2_8948_d989_48e7, 0x5010, 0x1f] {
            let found = places(&mut code, &[0x1010, 0x1021, garbage, 0x1031]);
            assert_eq!(found, [program(0x310), program(0x320)]);
        }
        // The leaf is where the fault was taken, even outside code.
        assert_eq!(places(&mut code, &[0x5010, 0x1021]), [(None, 0x5010), program(0x320)]);
    }

    #[test]
    fn generated_code_keeps_its_address_and_its_callers() {
        let mut code = code();
        let jit = (Some("[jit 7]".to_owned()), 0x3020);
        let found = places(&mut code, &[0x1010, 0x3021, 0x1031]);
        assert_eq!(found[1..], [jit, (Some("/bin/program".to_owned()), 0x330)]);
    }
}
