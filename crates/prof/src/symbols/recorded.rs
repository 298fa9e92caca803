//! Names for a recording whose recorder was killed before it could look them up.
//!
//! In: a recording. Out: the same, with names wherever a frame's file still exists unchanged.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use faultless_trace::recording::{Header, Recording};

use super::jit::Jit;
use super::{KERNEL, ModuleFrames, NameSource, find};
use crate::elf::{Elf, ElfImage, open};
use crate::facts;

/// What a module turned out to be.
enum Identified {
    Elf(Elf, std::path::PathBuf),
    Jit(Box<Jit>),
    Kernel,
}

/// Names the frames without names, from files of this machine with the recorded build ids. Files without a
/// build id, tables of generated code and kernel functions are used if they have not changed since the
/// recording began.
pub fn name_recording(recording: &mut Recording) {
    let mut wanted: HashMap<u32, Vec<(u32, u64)>> = HashMap::new();
    for (number, frame) in recording.stacks.frames.iter().enumerate() {
        if let Some(module) = frame.module.filter(|_| frame.names.is_empty()) {
            wanted.entry(module).or_default().push((number as u32, frame.address));
        }
    }
    let found = wanted.into_iter().filter_map(|(module, frames)| {
        let module = recording.stacks.modules.get(module as usize)?;
        Some((identify(&module.path, module.build_id.as_deref(), &recording.header)?, frames))
    });
    let found: Vec<_> = found.collect();
    let modules = found.iter().map(|(found, frames)| {
        let wanted = match found {
            Identified::Elf(elf, path) => NameSource::Elf(elf, ElfImage::File(path.clone())),
            Identified::Jit(jit) => NameSource::Jit([Some(&jit.map), None]),
            Identified::Kernel => NameSource::Kernel,
        };
        ModuleFrames { wanted, frames: frames.clone() }
    });
    for (frame, names) in find(modules.collect(), None).names {
        if let Some(frame) = recording.stacks.frames.get_mut(frame as usize) {
            frame.names = names;
        }
    }
}

fn identify(path: &str, build_id: Option<&str>, header: &Header) -> Option<Identified> {
    if path == KERNEL {
        return is_same_boot(header).then_some(Identified::Kernel);
    }
    if let Some(pid) = path.strip_prefix("[jit ").and_then(|rest| rest.strip_suffix(']')?.parse().ok()) {
        let (_, metadata) = open(format!("/tmp/perf-{pid}.map"))?;
        let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let mut jit = Jit::new(pid, None);
        (changed.as_millis() >= u128::from(header.begin_unix_ms)).then(|| jit.read())?;
        return Some(Identified::Jit(Box::new(jit)));
    }
    let (file, metadata) = path.starts_with('/').then(|| open(path))??;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let (elf, _) = Elf::of_file(&file, false)?;
    let same = match build_id {
        Some(_) => elf.build_id.as_deref() == build_id,
        None => elf.build_id.is_none() && changed.as_millis() < u128::from(header.begin_unix_ms),
    };
    same.then(|| Identified::Elf(elf, path.into()))
}

/// Whether kernel addresses are still valid: it was this machine, and it has not been rebooted.
fn is_same_boot(header: &Header) -> bool {
    let host = facts::host();
    let same = |a: &str, b: &str| !a.is_empty() && a == b;
    let booted = std::fs::read_to_string("/proc/stat").ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok())
    });
    same(&host.kernel, &header.host.kernel)
        && same(&host.cpu, &header.host.cpu)
        && host.memory_bytes == header.host.memory_bytes
        && booted.is_some_and(|seconds| seconds.saturating_mul(1000) <= header.begin_unix_ms)
}
