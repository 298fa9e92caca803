//! Modules, frames and stacks, each once, as lines of a trace file.
//!
//! In: a module, an address in it, a list of frames. Out: numbers that count up from 0, and the lines that
//! define them.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use faultless_trace::file::Line;
use faultless_trace::recording::{Frame, Module};
use rustc_hash::{FxBuildHasher, FxHashMap};

/// What has a number so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    modules: HashMap<(String, Option<String>), u32>,
    frames: FxHashMap<(Option<u32>, u64), u32>,
    /// By hash, which keeps the frames out of memory. Of a million stacks, two collide in one of 10^7
    /// recordings.
    stacks: FxHashMap<u64, u32>,
    lines: Vec<Line>,
}

impl Table {
    /// A module, named by path and build id.
    pub(crate) fn module(&mut self, module: Module) -> u32 {
        let Module { path, build_id, code } = module;
        let key = (path, build_id);
        let line =
            |number, (path, build_id): (String, _)| Line::Module(number, Module { path, build_id, code });
        number(&mut self.modules, key, &mut self.lines, line)
    }

    pub(crate) fn frame(&mut self, module: Option<u32>, address: u64) -> u32 {
        let line =
            |number, (module, address)| Line::Frame(number, Frame { module, address, names: Vec::new() });
        number(&mut self.frames, (module, address), &mut self.lines, line)
    }

    pub(crate) fn stack(&mut self, frames: &[u32]) -> u32 {
        let next = self.stacks.len() as u32;
        *self.stacks.entry(FxBuildHasher.hash_one(frames)).or_insert_with(|| {
            self.lines.push(Line::Stack(next, frames.to_vec()));
            next
        })
    }

    /// Every frame: number, module, address.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (u32, Option<u32>, u64)> {
        self.frames.iter().map(|(&(module, address), &number)| (number, module, address))
    }

    /// The lines since the last call; each refers only to earlier ones.
    pub(crate) fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }
}

fn number<K: Clone + Eq + Hash, S: BuildHasher>(
    known: &mut HashMap<K, u32, S>,
    key: K,
    lines: &mut Vec<Line>,
    line: impl FnOnce(u32, K) -> Line,
) -> u32 {
    let next = known.len() as u32;
    *known.entry(key).or_insert_with_key(|key| {
        lines.push(line(next, key.clone()));
        next
    })
}
