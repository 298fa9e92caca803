//! The names of touching sites and of threads, as all rows and filters have them.
//!
//! In: a recording. Out: for a stack its site and its leaf, for a thread its name.

use std::collections::HashMap;

use super::{Label, NO_STACK};
use crate::observation::What;
use crate::profile::{Profile, Weighted};
use crate::recording::touching::{self, Touching};
use crate::recording::{Name, Recording, is_interposer};
use crate::tuning::THREADS_SHOWN;

/// Part of the name of the journal's mapping (`os::journal`).
const JOURNAL: &str = "memfd:faultless journal";

/// Looks up the names of stacks and threads.
pub(crate) struct Naming<'a> {
    pub(super) recording: &'a Recording,
    pub(super) touching: Touching,
    threads: HashMap<(u32, u32), &'a str>,
    /// How many threads have a name with this stem.
    stems: HashMap<String, usize>,
    /// Numbers of the recorder's mappings.
    recorders: Vec<u32>,
}

impl<'a> Naming<'a> {
    pub(crate) fn new(recording: &'a Recording, profile: &Profile) -> Self {
        let mut threads = HashMap::new();
        for record in &recording.observation.records {
            match &record.what {
                What::Name(name) => {
                    threads.insert((record.pid, record.tid), name.as_str());
                }
                // A new process has its parent's name until it is given one.
                What::Fork { parent } if *parent != record.pid => {
                    if let Some(name) = threads.get(&(*parent, *parent)).copied() {
                        threads.insert((record.pid, record.pid), name);
                    }
                }
                _ => {}
            }
        }
        for fault in &profile.faults {
            // A thread that was never named has its process's name.
            if let Some(name) = threads.get(&(fault.pid, fault.pid)).copied() {
                threads.entry((fault.pid, fault.tid)).or_insert(name);
            }
        }
        let mappings =
            profile.mappings.iter().zip(0..).filter(|(name, _)| {
                has_recorder(recording) && (is_interposer(name) || name.contains(JOURNAL))
            });
        let recorders = mappings.map(|(_, number)| number).collect();
        let mut stems = HashMap::new();
        threads.values().for_each(|name| *stems.entry(stem(name)).or_default() += 1);
        Self { recording, touching: Touching::new(&recording.stacks), threads, stems, recorders }
    }

    /// Function, and file and line, of the frame to be named.
    pub(crate) fn site(&self, stack: Option<u32>, without: &str) -> Label {
        let stacks = &self.recording.stacks;
        let found = stack.and_then(|stack| self.touching.function(stack));
        let Some((frame, name)) = found else { return (without.to_owned(), None) };
        let Some(frame) = stacks.frames.get(frame as usize) else { return (without.to_owned(), None) };
        let number = name as usize;
        let Some(name) = frame.names.get(number) else { return (stacks.place(frame), None) };
        let place = name.file.as_ref().map(|file| match name.line {
            Some(line) => format!("{file}:{line}"),
            None => file.clone(),
        });
        let function = match is_bare_closure(&name.function) {
            true => self.closure(stack.unwrap_or_default(), name),
            false => name.function.clone(),
        };
        (function, place)
    }

    /// A closure without a path, as debug information has inlined ones: named with the function that holds or
    /// calls it, `parse::{closure#0}`.
    fn closure(&self, stack: u32, closure: &Name) -> String {
        let frames = &self.recording.stacks.frames;
        let own = touching::own(&self.recording.stacks, stack);
        let names = own.filter_map(|(frame, name)| frames.get(frame as usize)?.names.get(name as usize));
        let mut outward = names.skip_while(|name| !std::ptr::eq(*name, closure));
        match outward.find(|name| !is_bare_closure(&name.function)) {
            Some(function) => format!("{}::{}", function.function, closure.function),
            None => closure.function.clone(),
        }
    }

    /// The function at the leaf, unless it is the named one.
    pub(crate) fn leaf(&self, stack: u32) -> Option<String> {
        let leaf = touching::short(self.recording.stacks.labels(stack).into_iter().next()?);
        (leaf != self.site(Some(stack), NO_STACK).0).then_some(leaf)
    }

    /// Whether the allocation recorder took a fault, in the program's process: in a mapping of its own, or by its code.
    pub(super) fn is_recorder(&self, fault: &Weighted) -> bool {
        let stacks = &self.recording.stacks;
        let leaf = || stacks.frames_of(fault.stack?).next().and_then(|frame| stacks.module(frame));
        self.recorders.contains(&fault.mapping)
            || has_recorder(self.recording) && leaf().is_some_and(|module| is_interposer(&module.path))
    }

    pub(crate) fn thread(&self, pid: u32, tid: u32) -> String {
        self.threads.get(&(pid, tid)).map_or_else(|| format!("thread {tid}"), |name| (*name).to_owned())
    }

    /// Its name, or the stem that it shares with many.
    pub(super) fn threads_row(&self, pid: u32, tid: u32) -> String {
        let name = self.thread(pid, tid);
        let stem = stem(&name);
        if self.stems.get(&stem).is_some_and(|&threads| threads > THREADS_SHOWN) { stem } else { name }
    }
}

/// A thread's name with a star for each number: what `worker-1` and `worker-2` have in common.
pub fn stem(name: &str) -> String {
    let mut stem = String::new();
    for c in name.chars() {
        match c {
            '0'..='9' if stem.ends_with('*') => {}
            '0'..='9' => stem.push('*'),
            _ => stem.push(c),
        }
    }
    stem
}

/// The interposer was there to record.
fn has_recorder(recording: &Recording) -> bool {
    recording.header.settings.alloc_from_bytes.is_some()
}

/// `{closure#0}` of Rust, `operator()` and `{lambda()#1}` of C++.
fn is_bare_closure(function: &str) -> bool {
    function.starts_with("{closure")
        || function.starts_with("{{closure")
        || function.starts_with("{lambda")
        || function.starts_with("operator()")
}
