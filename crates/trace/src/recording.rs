//! One recorded run as every view reads it: the observation, with stacks, blocks and switches, and what is
//! missing from it.
//!
//! `prof` writes it line by line through [`crate::file::Writer`]; [`crate::file::read`] rebuilds it. It is
//! raw like the [`Observation`]; [`crate::profile`] corrects, scales and classifies.

mod scaffold;
pub(crate) mod touching;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observation::{
    Calibration, Counts, EventLoss, Exit, Host, InKernel, KernelSamples, Observation, Record, SourceNote,
    Usage, What,
};

pub use scaffold::Shown;
pub use touching::is_runtime;

/// A recorded run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// How it was taken.
    pub header: Header,
    /// Counts, windows, records, levels.
    pub observation: Observation,
    /// Who touched, who allocated.
    pub stacks: Stacks,
    /// Records that rings lost.
    pub losses: Vec<Loss>,
    /// The end; `None` if the recorder was killed.
    pub footer: Option<Footer>,
    /// The missing parts of the file, in words.
    pub missing: Vec<String>,
}

/// Whether this file is our own interposer: the library, or the copy that `run` and `record` write.
pub fn is_interposer(path: &str) -> bool {
    let Some(begin) = path.rfind('/') else { return false };
    let (folder, file) = path.split_at(begin);
    let own_folder = folder.rsplit('/').next().is_some_and(|name| name.starts_with("faultless"));
    file.starts_with("/libfaultless_preload") || own_folder && file.starts_with("/preload-")
}

impl Recording {
    /// The first and the last instant that it tells of, ns; 0 if it is empty.
    pub(crate) fn bounds_ns(&self) -> (u64, u64) {
        let observation = &self.observation;
        let records = observation.records.iter().map(|record| record.time_ns);
        let windows = observation.windows.iter().flat_map(|window| [window.begin_ns, window.end_ns]);
        let levels = observation.levels.iter().map(|level| level.time_ns);
        let times =
            || records.clone().chain(windows.clone()).chain(levels.clone()).filter(|ns| *ns != u64::MAX);
        (times().min().unwrap_or_default(), times().max().unwrap_or_default())
    }

    /// The number of counted faults, if each was recorded singly and nothing was lost.
    pub fn complete(&self) -> Option<u64> {
        let observation = &self.observation;
        let is_entry = |record: &&Record| matches!(record.what, What::Enter { .. });
        let entries = observation.records.iter().filter(is_entry).count() as u64;
        let footer = self.footer.as_ref()?;
        let is_whole = self.missing.is_empty()
            && self.losses.is_empty()
            && footer.event_losses.iter().flatten().all(|event| event.lost == 0)
            && observation.windows.iter().all(|window| window.recorded && window.lost == 0);
        observation.counts.recordable().filter(|&counted| is_whole && counted == entries)
    }
}

/// The first line of a trace file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format ([`crate::file::VERSION`]).
    pub version: u32,
    /// Name and version of the program that wrote it.
    pub tool: String,
    /// The command and its arguments, or of the process attached to.
    pub command: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Its name, `uname -n`; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host_name: String,
    /// The error of a measured fault, found at start.
    pub calibration: Option<Calibration>,
    /// How it was recorded.
    pub settings: Settings,
    /// Begin, CLOCK_MONOTONIC in ns.
    pub begin_ns: u64,
    /// Begin, milliseconds since 1970.
    pub begin_unix_ms: u64,
    /// For each kind of line that is an array, the names of its fields.
    #[serde(default)]
    pub columns: BTreeMap<String, Vec<String>>,
}

/// How a run was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Every fault, not bursts.
    pub every_fault: bool,
    /// Faults per sampled stack outside bursts; 0 for none.
    pub sample_period: u64,
    /// Samples of the CPU clock per second of CPU time; 0 for none.
    pub cpu_hertz: u64,
    /// Bytes of stack copied for each sample.
    pub stack_bytes: u32,
    /// Least length of the blocks that were recorded with their allocating stack; `None` without the
    /// allocation recorder.
    pub alloc_from_bytes: Option<u64>,
    /// Attached to a running process.
    pub attached: bool,
    /// Faults of user mode only.
    pub user_only: bool,
}

/// Stacks, interned. Everything that holds a stack holds an index into [`Stacks::stacks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Files that code lies in.
    pub modules: Vec<Module>,
    /// Places in them.
    pub frames: Vec<Frame>,
    /// Indices into `frames`, leaf first.
    pub stacks: Vec<Vec<u32>>,
}

impl Stacks {
    /// The functions of a stack, leaf first, inlined ones before their containing function. Unnamed places
    /// yield none.
    pub fn names(&self, stack: u32) -> impl Iterator<Item = &Name> {
        self.frames_of(stack).flat_map(|frame| &frame.names)
    }

    /// The frames of a stack, leaf first.
    pub fn frames_of(&self, stack: u32) -> impl Iterator<Item = &Frame> {
        let frames = self.stacks.get(stack as usize).map_or(&[][..], Vec::as_slice);
        frames.iter().filter_map(|&frame| self.frames.get(frame as usize))
    }

    /// The labels of a stack for a reader, leaf first: function names, or `module+0x12` without one.
    pub fn labels(&self, stack: u32) -> Vec<String> {
        let mut labels = Vec::new();
        for frame in self.frames_of(stack) {
            labels.extend(frame.names.iter().map(|name| name.function.clone()));
            if frame.names.is_empty() {
                labels.push(self.place(frame));
            }
        }
        labels
    }

    /// The module of a frame.
    pub(crate) fn module(&self, frame: &Frame) -> Option<&Module> {
        self.modules.get(frame.module? as usize)
    }

    /// `libc.so.6+0x1234`; [`EXEC`] is one place.
    pub fn place(&self, frame: &Frame) -> String {
        match self.module(frame).map_or("[unknown]", Module::short_name) {
            EXEC => EXEC.to_owned(),
            name => format!("{name}+{:#x}", frame.address),
        }
    }
}

/// The module of what the kernel does for a process in execve(2): it prepares the new program's stack and data,
/// and no code of the program runs.
pub const EXEC: &str = "[exec]";

/// The short name of code generated at run time.
pub(crate) const GENERATED: &str = "[jit]";

/// A file with code, or a similar source of code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its path as the program saw it; `[kernel]`, `[vdso]`, `[exec]`, `[jit PID]`.
    pub path: String,
    /// GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// Where its code is loaded; empty if that is not known. A debug file states addresses, and no longer the offsets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<Code>,
}

/// A part of an ELF file with code (`PT_LOAD`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Code {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file.
    pub len_bytes: u64,
    /// Address of the first byte, as the file states it.
    pub address: u64,
}

impl Module {
    /// The address that the file states for the byte at this offset; `None`: it is in no known code.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let inside = |code: &Code| offset.checked_sub(code.offset).filter(|inside| *inside < code.len_bytes);
        self.code.iter().find_map(|code| Some(code.address.wrapping_add(inside(code)?)))
    }

    /// The last part of its path; `[jit]` for code generated at run time, in any process.
    pub fn short_name(&self) -> &str {
        if self.path.starts_with("[jit ") {
            return GENERATED;
        }
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A place in code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Index into [`Stacks::modules`]; `None` if no mapping was known.
    pub module: Option<u32>,
    /// Offset in the module's file, or the address if the module is no file. For a caller, the address of the
    /// call instruction.
    pub address: u64,
    /// The functions there: inlined ones first, then the containing one. Empty if not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<Name>,
}

/// A function at a place in code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// Demangled.
    pub function: String,
    /// Source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Records that a ring lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Processor of the ring; `None`: the ring of allocations.
    pub cpu: Option<u32>,
    /// The loss happened after this, ns.
    pub begin_ns: u64,
    /// And before this, ns.
    pub end_ns: u64,
    /// Records.
    pub lost: u64,
}

/// The last line of a trace file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// How the program ended.
    pub exit: Exit,
    /// `wait4`; for an attached process, its usage meanwhile.
    pub usage: Usage,
    /// Exact counts.
    pub counts: Counts,
    /// As [`Observation::machine`].
    #[serde(default)]
    pub machine: BTreeMap<String, u64>,
    /// Kernel stacks by name, as root.
    pub kernel: Option<KernelSamples>,
    /// The outcome of each source.
    pub sources: Vec<SourceNote>,
    /// CPU time of the recorder itself while the program ran, ns.
    pub recorder_cpu_ns: u64,
    /// Losses per event; `None` if the kernel does not report them.
    pub event_losses: Option<Vec<EventLoss>>,
    /// The header's, as it held for this run.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// The allocators and runtimes in the files that the program mapped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// As [`Observation::in_kernel`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_kernel: Option<InKernel>,
}

/// What a file shows of an allocator or a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The file, as the process sees it.
    pub file: String,
    /// Its name: `jemalloc`, `Go`.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The variable that holds its settings, where builds differ in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

impl Mark {
    /// The program brings its own `malloc`.
    pub const OWN: &str = "a malloc of its own";
    /// The program loads nothing.
    pub const STATIC: &str = "static";
}
