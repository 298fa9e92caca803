//! From registers and a copy of the stack to a call stack.
//!
//! In: mappings, forks, execs and exits in the order of time. For each sample: registers, the stack from its
//! pointer on, and the kernel's own chain of frame pointers. Out: the number of a stack, and the lines of a
//! trace file that define it.
//!
//! Callers are found by the unwind information of the code's file, else by frame pointers. A copy can end
//! before the stack does. Then three sources are tried in order:
//!
//! 1. the process's memory now, if the last caller is still in the same call and leads to the root;
//!
//! 2. the callers that the same return address at the same stack pointer last had;
//!
//! 3. the kernel's chain, if it holds the last caller found.
//!
//! A caller must lie in executable memory.
//!
//! It does not name functions (`symbols`), or read a clock.

mod generated;
mod memory;
mod objects;
mod table;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;

use faultless_os::ring::{Registers, StackCopy};
use faultless_trace::file::Line;
use faultless_trace::observation::{Map, SourceNote};
use faultless_trace::recording::{EXEC, Mark, Module, is_interposer};
use framehop::{CacheNative, MayAllocateDuringUnwind, UnwinderNative};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::address_space::{AddressSpace, Region};
use crate::elf::{ElfImage, path_of};
use crate::symbols::jit::Jit;
use crate::symbols::{KERNEL, ModuleFrames, NameCache, NameSource};
use memory::StackReader;
use objects::Objects;
use table::Table;

/// Addresses from here on are markers for the kind of those that follow (`PERF_CONTEXT_*`).
const CONTEXT_MARKS: u64 = u64::MAX - 0xfff;

/// The copied state of a thread at an event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserStack<'a> {
    /// Instruction pointer.
    pub(crate) ip: u64,
    /// Stack pointer.
    pub(crate) sp: u64,
    /// Frame pointer: `rbp`, `x29`.
    pub(crate) bp: u64,
    /// Link register; x86-64 has none.
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    pub(crate) lr: u64,
    /// Memory from `sp` on.
    pub(crate) dump: &'a [u8],
    /// User part of the kernel's chain of frame pointers, leaf first; may hold junk.
    pub(crate) chain: &'a [u64],
    /// Kernel part, leaf first.
    pub(crate) kernel_chain: &'a [u64],
}

impl<'a> UserStack<'a> {
    /// Of a copy by the kernel, without its chains.
    pub(crate) fn of(copy: StackCopy<'a>) -> Self {
        let Registers { ip, sp, bp, lr, .. } = copy.registers.unwrap_or_default();
        Self { ip, sp, bp, lr, dump: copy.dump, ..Self::default() }
    }
}

/// Unwinds for all processes of a recording.
#[derive(Default)]
pub(crate) struct Unwinder {
    processes: FxHashMap<u32, Process>,
    objects: Objects,
    /// By number of the module: the source of its names.
    sources: HashMap<u32, Origin>,
    jits: HashMap<u32, Jit>,
    /// All processes of the recording.
    pids: BTreeSet<u32>,
    table: Table,
    reader: StackReader,
    names: Option<NameCache>,
    /// The functions of files are left without names.
    leaves_files: bool,
    by_frame_pointers: FramePointers,
    addresses: Vec<u64>,
    frames: Vec<u32>,
}

#[derive(Default)]
struct Process {
    space: AddressSpace<Code>,
    /// Stacks by the hash of their addresses in memory.
    known: FxHashMap<u64, u32>,
    /// By return address: bytes of stack between the pointer and the next return address, if the code tells
    /// them.
    held: FxHashMap<u64, Option<u64>>,
    /// By return address and the stack pointer there: the last known callers up to the root.
    tails: FxHashMap<(u64, u64), Box<[u64]>>,
    /// It replaces its program: no code of the new one has run yet. The registers are still those of the old one,
    /// whose mappings are gone.
    in_exec: bool,
}

/// What a region holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    /// Number of the module.
    module: u32,
    /// Number of the object with unwind information, and what to add to an address in memory to get the
    /// address that its file states.
    object: Option<(u32, u64)>,
    /// Its addresses are offsets in a file; else they are absolute.
    in_file: bool,
    /// It is our own interposer.
    ours: bool,
}

impl Code {
    /// The address that a frame has: in the file, or absolute.
    fn frame_address(self, region: &Region<Self>, address: u64) -> u64 {
        if self.in_file { region.file_offset.wrapping_add(address - region.range.start) } else { address }
    }
}

#[derive(Clone, Copy)]
enum Origin {
    Object(u32),
    Jit(u32),
    Kernel,
}

/// Unwinds without information: by frame pointers.
#[derive(Default)]
struct FramePointers {
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinder").field("processes", &self.processes.len()).finish_non_exhaustive()
    }
}

impl Unwinder {
    /// `names`: the cache of earlier recordings. `leaves_files`: files are named later, by others.
    pub(crate) fn new(names: Option<NameCache>, leaves_files: bool) -> Self {
        Self { names, leaves_files, ..Self::default() }
    }

    /// A mapping appeared in `pid`.
    pub(crate) fn map(&mut self, pid: u32, map: &Map) {
        self.pids.insert(pid);
        let process = self.processes.entry(pid).or_default();
        if process.space.map(map) {
            process.known.clear();
            process.held.clear();
            process.tails.clear();
        }
    }

    /// `pid` came from `parent`, with all its mappings. If both are the same, it is a new thread, and nothing
    /// changes.
    pub(crate) fn fork(&mut self, pid: u32, parent: u32) {
        if pid == parent {
            return;
        }
        self.pids.extend([pid, parent]);
        let mut space = self.processes.get(&parent).map(|parent| parent.space.clone()).unwrap_or_default();
        // The child will generate other code there.
        space.retain_content(|code| code.in_file);
        self.processes.insert(pid, Process { space, ..Process::default() });
        if self.jits.contains_key(&parent) {
            self.jits.insert(pid, Jit::new(pid, Some(parent)));
        }
    }

    /// `pid` replaced its program: its mappings are gone.
    pub(crate) fn exec(&mut self, pid: u32) {
        self.processes.insert(pid, Process { in_exec: true, ..Process::default() });
    }

    /// The last thread of `pid` has ended.
    pub(crate) fn exit(&mut self, pid: u32) {
        self.processes.remove(&pid);
        if let Some(jit) = self.jits.get_mut(&pid) {
            jit.read();
        }
    }

    /// The number of this stack; `None` if nothing is known of it. An address outside all mappings is kept
    /// only at the leaf. Of a process in execve(2), it is [`EXEC`].
    pub(crate) fn stack(&mut self, pid: u32, stack: &UserStack<'_>) -> Option<u32> {
        let mut process = self.processes.remove(&pid).unwrap_or_default();
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.clear();
        addresses.extend(stack.kernel_chain.iter().copied().filter(|address| *address < CONTEXT_MARKS));
        let kernel = addresses.len();
        self.walk(pid, &mut process, stack, &mut addresses);
        let hash = FxBuildHasher.hash_one(&addresses);
        let found = match process.known.get(&hash) {
            Some(&found) => Some(found),
            None if addresses.is_empty() => None,
            None => {
                let was_in_exec = process.in_exec;
                let found = self.intern(pid, &mut process, &addresses, kernel);
                if was_in_exec && !process.in_exec {
                    process.known.clear();
                }
                process.known.insert(hash, found);
                Some(found)
            }
        };
        self.processes.insert(pid, process);
        self.addresses = addresses;
        found
    }

    /// The lines that define new modules, frames and stacks. Write them before the lines that refer to them.
    pub(crate) fn take_lines(&mut self) -> Vec<Line> {
        self.reader.forget();
        self.table.take_lines()
    }

    /// All processes that were seen.
    pub(crate) fn pids(&self) -> &BTreeSet<u32> {
        &self.pids
    }

    /// The allocators and runtimes in the files that were mapped.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.objects.marks()
    }

    /// Names of all frames, at the end, and notes on their sources.
    pub(crate) fn name(&mut self) -> (Vec<Line>, Vec<SourceNote>) {
        let mut wanted: HashMap<u32, Vec<(u32, u64)>> = HashMap::new();
        for (frame, module, address) in self.table.frames() {
            if let Some(module) = module {
                wanted.entry(module).or_default().push((frame, address));
            }
        }
        for jit in self.jits.values_mut() {
            jit.read();
        }
        let modules = wanted.into_iter().filter_map(|(module, frames)| {
            let wanted = match *self.sources.get(&module)? {
                Origin::Kernel => NameSource::Kernel,
                Origin::Jit(pid) => {
                    let own = self.jits.get(&pid)?;
                    let parent = own.parent.and_then(|parent| self.jits.get(&parent));
                    NameSource::Jit([Some(&own.map), parent.map(|parent| &parent.map)])
                }
                Origin::Object(object) => {
                    let (elf, source) = self.objects.named(object)?;
                    if self.leaves_files && matches!(source, ElfImage::File(_)) {
                        return None;
                    }
                    NameSource::Elf(elf, source)
                }
            };
            Some(ModuleFrames { wanted, frames })
        });
        let mut found = crate::symbols::find(modules.collect(), self.names.as_ref());
        found.names.sort_unstable_by_key(|(frame, _)| *frame);
        let mut notes = found.unreadable;
        let (named, all) = (found.names.len(), self.table.frames().count());
        let note = format!("{named} of {all} places in code have names");
        // With no frames, no names are missing.
        let is_used = named > 0 || all == 0;
        notes.push(match self.leaves_files {
            true => SourceNote {
                source: "names of files".to_owned(),
                used: false,
                note: SourceNote::NOT_ASKED_FOR.to_owned(),
            },
            false => SourceNote { source: "names".to_owned(), used: is_used, note },
        });
        (found.names.into_iter().map(|(frame, names)| Line::Symbol(frame, names)).collect(), notes)
    }

    /// The code that holds an address, and the address of a frame there.
    fn code(&mut self, pid: u32, space: &mut AddressSpace<Code>, address: u64) -> Option<(Code, u64)> {
        let index = space.find(address)?;
        let region = space.region(index)?;
        let code = match region.content {
            Some(code) => code,
            None => self.identify(pid, region),
        };
        let found = (code, code.frame_address(region, address));
        space.set_content(index, code);
        Some(found)
    }

    /// Finds out what a region holds.
    fn identify(&mut self, pid: u32, region: &Region<Code>) -> Code {
        let name = &*region.name;
        let is_vdso = name == "[vdso]";
        let object = if is_vdso {
            self.objects.vdso(pid, &region.range)
        } else if may_be_file(name) {
            self.objects.file(pid, name, &region.range)
        } else {
            None
        };
        if object.is_none() && (!may_be_file(name) || name.starts_with("/memfd:")) && !is_vdso {
            let module = self.table.module(special(&format!("[jit {pid}]")));
            self.sources.insert(module, Origin::Jit(pid));
            self.jits.entry(pid).or_insert_with(|| Jit::new(pid, None)).open();
            return Code { module, object: None, in_file: false, ours: false };
        }
        let elf = object.and_then(|number| self.objects.get_mut(number)).map(|object| &object.elf);
        let path = path_of(name);
        let (build_id, code) = elf.map(|elf| (elf.build_id.clone(), elf.code())).unwrap_or_default();
        let module = self.table.module(Module { path: path.to_owned(), build_id, code });
        if let Some(number) = object {
            self.sources.insert(module, Origin::Object(number));
        }
        let len_bytes = region.range.end - region.range.start;
        let bias =
            elf.and_then(|elf| elf.bias(region.file_offset..region.file_offset.saturating_add(len_bytes)));
        let to_file = region.file_offset.wrapping_sub(region.range.start);
        let object = object.zip(bias.map(|bias| bias.wrapping_add(to_file)));
        let ours = is_interposer(path);
        Code { module, object, in_file: true, ours }
    }

    /// Numbers a stack; `kernel`: how many of the addresses lie in the kernel.
    fn intern(&mut self, pid: u32, process: &mut Process, addresses: &[u64], kernel: usize) -> u32 {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let (in_kernel, in_user) = addresses.split_at(kernel);
        for (depth, address) in in_kernel.iter().enumerate() {
            let module = self.table.module(special(KERNEL));
            self.sources.insert(module, Origin::Kernel);
            frames.push(self.table.frame(Some(module), address - u64::from(depth > 0)));
        }
        let mut leaf = true;
        for (depth, address) in in_user.iter().enumerate() {
            let address = address - u64::from(depth > 0);
            let found = self.code(pid, &mut process.space, address);
            process.in_exec &= found.is_none();
            if process.in_exec {
                let module = self.table.module(special(EXEC));
                frames.push(self.table.frame(Some(module), 0));
                break;
            }
            let is_last = depth + 1 == in_user.len();
            leaf &= found.is_some_and(|(code, _)| code.ours) && !is_last;
            if !leaf {
                let (module, address) = found.map_or((None, address), |(code, at)| (Some(code.module), at));
                frames.push(self.table.frame(module, address));
            }
        }
        let stack = self.table.stack(&frames);
        self.frames = frames;
        stack
    }
}

/// A module that is no file.
fn special(name: &str) -> Module {
    Module { path: name.to_owned(), ..Module::default() }
}

/// Whether a mapping with this name is one of a file. Other memory has names like `//anon`, `[heap]`,
/// `/SYSV00000000`.
fn may_be_file(name: &str) -> bool {
    let other = ["//", "/SYSV", "/dev/zero", "/anon_hugepage", "/i915", "/drm"];
    name.starts_with('/') && !other.iter().any(|prefix| name.starts_with(prefix))
}
