//! Numbers for names and stacks. Each is written once, before the first packet that refers to it.

use std::collections::HashMap;

use faultless_trace::recording::{Frame, Stacks};

use super::proto::{self, InternedData, InternedString};

/// Texts of one kind, numbered from 1, and those not written yet.
#[derive(Default)]
struct Texts {
    known: HashMap<String, u64>,
    new: Vec<(u64, String)>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.known.get(text) {
            return number;
        }
        let number = self.known.len() as u64 + 1;
        self.known.insert(text.to_owned(), number);
        self.new.push((number, text.to_owned()));
        number
    }

    fn named(&mut self) -> Vec<proto::Named> {
        self.new.drain(..).map(|(iid, name)| proto::Named { iid, name }).collect()
    }

    fn strings(&mut self) -> Vec<InternedString> {
        self.new.drain(..).map(|(iid, text)| InternedString { iid, str: text.into_bytes() }).collect()
    }
}

#[derive(Default)]
pub(super) struct Interned {
    categories: Texts,
    events: Texts,
    annotations: Texts,
    values: Texts,
    functions: Texts,
    files: Texts,
    modules: Texts,
    build_ids: Texts,
    mappings: HashMap<u32, u64>,
    /// The numbers of a frame's names, leaf first.
    frames: HashMap<u32, Vec<u64>>,
    stacks: HashMap<u32, u64>,
    frame_count: u64,
    new: InternedData,
}

impl Interned {
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.number(name)
    }

    pub(super) fn event(&mut self, name: &str) -> u64 {
        self.events.number(name)
    }

    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.number(name)
    }

    pub(super) fn value(&mut self, text: &str) -> u64 {
        self.values.number(text)
    }

    pub(super) fn stack(&mut self, stacks: &Stacks, stack: u32) -> u64 {
        if let Some(&number) = self.stacks.get(&stack) {
            return number;
        }
        let mut frame_ids = Vec::new();
        for &frame in stacks.stacks.get(stack as usize).map_or(&[][..], Vec::as_slice) {
            if let Some(found) = stacks.frames.get(frame as usize) {
                frame_ids.extend(self.frame(stacks, frame, found));
            }
        }
        frame_ids.reverse();
        let number = self.stacks.len() as u64 + 1;
        self.stacks.insert(stack, number);
        self.new.callstacks.push(proto::Callstack { iid: number, frame_ids });
        number
    }

    /// Everything that got a number since the last call.
    pub(super) fn take(&mut self) -> Option<InternedData> {
        let new = InternedData {
            event_categories: self.categories.named(),
            event_names: self.events.named(),
            debug_annotation_names: self.annotations.named(),
            debug_annotation_string_values: self.values.strings(),
            function_names: self.functions.strings(),
            source_paths: self.files.strings(),
            mapping_paths: self.modules.strings(),
            build_ids: self.build_ids.strings(),
            ..std::mem::take(&mut self.new)
        };
        (new != InternedData::default()).then_some(new)
    }

    fn frame(&mut self, stacks: &Stacks, number: u32, frame: &Frame) -> Vec<u64> {
        if let Some(known) = self.frames.get(&number) {
            return known.clone();
        }
        let mapping_id = frame.module.map_or(0, |module| self.mapping(stacks, module));
        let place = [(stacks.place(frame), None, None)];
        let named = frame.names.iter().map(|name| (name.function.clone(), name.file.as_deref(), name.line));
        let lines: Vec<_> = if frame.names.is_empty() { place.into() } else { named.collect() };
        let mut numbers = Vec::new();
        for (function, file, line_number) in lines {
            self.frame_count += 1;
            let source_path_iid = file.map(|file| self.files.number(file));
            numbers.push(self.frame_count);
            self.new.frames.push(proto::Frame {
                iid: self.frame_count,
                function_name_id: self.functions.number(&function),
                mapping_id,
                rel_pc: frame.address,
                source_path_iid,
                line_number,
            });
        }
        self.frames.insert(number, numbers.clone());
        numbers
    }

    /// The number of a module; 0 if it is unknown.
    fn mapping(&mut self, stacks: &Stacks, module: u32) -> u64 {
        let Some(found) = stacks.modules.get(module as usize) else { return 0 };
        if let Some(&number) = self.mappings.get(&module) {
            return number;
        }
        let number = self.mappings.len() as u64 + 1;
        self.mappings.insert(module, number);
        let build_id = found.build_id.as_deref().map_or(0, |id| self.build_ids.number(id));
        let path_string_ids = vec![self.modules.number(&found.path)];
        self.new.mappings.push(proto::Mapping { iid: number, build_id, path_string_ids });
        number
    }
}
