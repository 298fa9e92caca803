//! Faults -> the names of their rows, equal in two builds of a program.
//!
//! A function is named with its caller, because one helper touches for many: `grab <- parse`. Runtime
//! libraries are skipped in both, and a recursive function is not its own caller. A place without a function
//! name is shown as its offset in the file if all runs have the same build of the file, else as the file
//! alone. A file named like the command is `[program]`.

use std::collections::{HashMap, HashSet};

use super::{By, Run};
use crate::profile::Weighted;
use crate::recording::touching::{self, Touching};
use crate::recording::{Frame, GENERATED, Stacks};
use crate::sites::{NO_BLOCK, NO_STACK};

/// Between a function and its caller.
const CALLED_BY: &str = " <- ";
/// The C library's entry into a program, which is no caller.
const ENTRY: &str = "_start";

/// Key of a name within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Stack(Option<u32>),
    Mapping(u32),
    /// Memory that no recorded allocation gave.
    NoBlock,
}

/// Names of one run.
pub(super) struct Names<'a> {
    run: &'a Run,
    by: By,
    same_files: &'a HashSet<String>,
    program: &'a str,
    touching: Touching,
}

/// Paths of modules that have the same build id in all runs.
pub(super) fn same_files(runs: &[&Run]) -> HashSet<String> {
    let builds = |run: &Run| -> HashMap<String, Option<String>> {
        run.recording
            .stacks
            .modules
            .iter()
            .map(|module| (module.path.clone(), module.build_id.clone()))
            .collect()
    };
    let all: Vec<_> = runs.iter().map(|run| builds(run)).collect();
    let is_same = |(path, build): &(&String, &Option<String>)| {
        build.is_some() && all.iter().all(|other| other.get(*path).is_none_or(|found| found == *build))
    };
    all.iter().flatten().filter(is_same).map(|(path, _)| path.clone()).collect()
}

/// Of each stack whether code led there that was made while running, such as a compiler's, but not Python's entries.
pub(super) fn generated(stacks: &Stacks) -> Vec<bool> {
    let is_made = |frame: &Frame| stacks.module(frame).is_some_and(|module| module.short_name() == GENERATED);
    let all = 0..stacks.stacks.len() as u32;
    all.map(|stack| stacks.frames_of(stack).any(is_made) && in_python(stacks, stack).is_none()).collect()
}

/// The Python function of a stack and its caller, if Python names its functions: `py::rows:/srv/a.py` is `rows`.
pub(super) fn in_python(stacks: &Stacks, stack: u32) -> Option<String> {
    let named = stacks.names(stack).filter_map(|name| name.function.strip_prefix("py::"));
    let mut names = named.map(|name| name.split_once(':').map_or(name, |(function, _)| function));
    let function = names.next()?;
    Some(match names.find(|caller| *caller != function) {
        Some(caller) => [function, CALLED_BY, caller].concat(),
        None => function.to_owned(),
    })
}

impl<'a> Names<'a> {
    pub(super) fn new(run: &'a Run, by: By, same_files: &'a HashSet<String>) -> Self {
        let program = run.recording.header.command.first().map_or("", |path| last(path));
        Self { run, by, same_files, program, touching: Touching::new(&run.recording.stacks) }
    }

    pub(super) fn key(&self, fault: &Weighted) -> Key {
        match self.by {
            By::Function | By::Stack => Key::Stack(fault.stack),
            By::Mapping => Key::Mapping(fault.mapping),
            By::Alloc => {
                match fault.block.and_then(|block| self.run.profile.blocks.blocks.get(block as usize)) {
                    Some(block) => Key::Stack(block.stack),
                    None => Key::NoBlock,
                }
            }
        }
    }

    pub(super) fn name(&self, fault: &Weighted) -> String {
        let name = match (self.key(fault), self.by) {
            (Key::NoBlock, _) => NO_BLOCK.to_owned(),
            (Key::Mapping(mapping), _) => self.mapping(mapping),
            (Key::Stack(None), _) => NO_STACK.to_owned(),
            (Key::Stack(Some(stack)), By::Stack) => self.stack(stack),
            (Key::Stack(Some(stack)), By::Alloc) => self.function(stack),
            (Key::Stack(Some(stack)), _) => self.function_and_caller(stack),
        };
        if name.is_empty() { NO_STACK.to_owned() } else { name }
    }

    fn stacks(&self) -> &'a Stacks {
        &self.run.recording.stacks
    }

    fn mapping(&self, mapping: u32) -> String {
        let name = self.run.profile.mappings.get(mapping as usize).map_or("[unknown]", String::as_str);
        if name.contains('/') && last(name) == self.program {
            "[program]".to_owned()
        } else {
            name.to_owned()
        }
    }

    fn stack(&self, stack: u32) -> String {
        self.stacks()
            .frames_of(stack)
            .flat_map(|frame| self.labels(frame))
            .collect::<Vec<_>>()
            .join(CALLED_BY)
    }

    /// The function to be named for it, and no more.
    fn function(&self, stack: u32) -> String {
        self.touching.function(stack).map_or_else(String::new, |place| self.at(place))
    }

    fn function_and_caller(&self, stack: u32) -> String {
        let function = self.function(stack);
        let mut callers = touching::own(self.stacks(), stack).map(|place| self.at(place));
        match callers.find(|caller| *caller != function && caller != ENTRY) {
            Some(caller) => function + CALLED_BY + &caller,
            None => function,
        }
    }

    fn at(&self, (frame, name): (u32, u32)) -> String {
        let Some(frame) = self.stacks().frames.get(frame as usize) else { return String::new() };
        frame.names.get(name as usize).map_or_else(|| self.place(frame), |name| name.function.clone())
    }

    fn labels(&self, frame: &Frame) -> Vec<String> {
        if frame.names.is_empty() {
            return vec![self.place(frame)];
        }
        frame.names.iter().map(|name| name.function.clone()).collect()
    }

    fn place(&self, frame: &Frame) -> String {
        let Some(module) = self.stacks().module(frame) else { return "[unknown]".to_owned() };
        let file = if module.short_name() == self.program { "[program]" } else { module.short_name() };
        if self.same_files.contains(&module.path) {
            format!("{file}+{:#x}", frame.address)
        } else {
            format!("[{}]", file.trim_matches(['[', ']']))
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Name;

    #[test]
    fn a_python_function_is_named_with_its_caller_in_python() {
        let frame = |function: &str| Frame {
            names: vec![Name { function: function.into(), ..Name::default() }],
            ..Frame::default()
        };
        let names = [
            "list_resize",
            "py::rows:/srv/a.py",
            "_PyEval_Vector",
            "py::rows:/srv/a.py",
            "py::<module>:/srv/a.py",
        ];
        let stacks = Stacks {
            frames: names.into_iter().map(frame).collect(),
            stacks: vec![(0..5).collect(), vec![0]],
            ..Stacks::default()
        };
        assert_eq!(in_python(&stacks, 0).as_deref(), Some("rows <- <module>"));
        assert_eq!(in_python(&stacks, 1), None);
    }
}
