//! Names for a recording afterwards, from debug files.
//!
//! In: a recording, and a debug file for the build id of one of its modules. Out: the names of the module's places.
//! Runtime libraries get functions only, as when they are named by `record`.
//!
//! It does not search or fetch the files (`faultless symbolize` does).

use std::path::Path;

use faultless_trace::recording::{Frame, Module, Name, Recording, is_runtime};

use super::debug_info;
use crate::elf::{Elf, open};

/// A module with places that a debug file could name, or tell more of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its number in the recording.
    pub module: u32,
    /// Its path as the program saw it.
    pub path: String,
    /// Its build id, hexadecimal digits in lower case; `None`: it has none, so no debug file can be known as its own.
    pub build_id: Option<String>,
    /// Numbers of the frames, and whether each has a name already.
    pub frames: Vec<(u32, bool)>,
}

impl Wanted {
    /// How many of its places have no name at all.
    pub fn nameless(&self) -> usize {
        self.frames.iter().filter(|(_, is_named)| !is_named).count()
    }
}

/// The files of a recording with places without a name, or without a line; most nameless places first.
pub fn wanted(recording: &Recording) -> Vec<Wanted> {
    let stacks = &recording.stacks;
    let mut all: Vec<Wanted> = Vec::new();
    for (module, number) in stacks.modules.iter().zip(0..) {
        // `[kernel]`, `[vdso]`, `[jit 7]`: no server has what they were.
        if !module.path.starts_with('/') {
            continue;
        }
        let (path, build_id) = (module.path.clone(), build_id(module));
        all.push(Wanted { module: number, path, build_id, frames: Vec::new() });
    }
    for (frame, number) in stacks.frames.iter().zip(0..) {
        let of = |wanted: &&mut Wanted| Some(wanted.module) == frame.module;
        if let Some(wanted) =
            all.iter_mut().find(of).filter(|wanted| lacks(&stacks.modules[wanted.module as usize], frame))
        {
            wanted.frames.push((number, !frame.names.is_empty()));
        }
    }
    all.retain(|wanted| !wanted.frames.is_empty());
    all.sort_by_key(|wanted| (std::cmp::Reverse(wanted.nameless()), wanted.module));
    all
}

/// Whether a debug file could tell more of a place.
fn lacks(module: &Module, frame: &Frame) -> bool {
    frame.names.is_empty()
        || !is_runtime(module.short_name()) && frame.names.iter().all(|name| name.file.is_none())
}

/// Its build id, if it is one: it becomes a part of paths and addresses.
fn build_id(module: &Module) -> Option<String> {
    let id = module.build_id.as_ref()?.to_ascii_lowercase();
    (id.len() >= BUILD_ID_DIGITS_MIN && id.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(id)
}

/// Linkers write 16 to 40 digits; `--build-id=0x...` takes any.
const BUILD_ID_DIGITS_MIN: usize = 4;

/// The GNU build id of an ELF file, in hexadecimal.
pub fn build_id_of(file: &Path) -> Option<String> {
    let (file, _) = open(file)?;
    Elf::of_file(&file, false)?.0.build_id
}

/// Names of the wanted places of a module, as its debug file has them: numbers of frames, and their functions.
///
/// # Errors
/// The file is not the module's, or can't be read; or nobody knows which addresses the places have. The reason is half a
/// sentence behind the file's name.
pub fn names(recording: &Recording, wanted: &Wanted, file: &Path) -> Result<Vec<(u32, Vec<Name>)>, String> {
    let stacks = &recording.stacks;
    let module = stacks.modules.get(wanted.module as usize).ok_or("the recording has no such module")?;
    let elf = open(file).and_then(|(file, _)| Some(Elf::of_file(&file, false)?.0));
    let elf = elf.ok_or("no 64-bit ELF file that can be read")?;
    if elf.build_id != wanted.build_id {
        let other = elf.build_id.as_deref().unwrap_or("none");
        return Err(format!("it has the build id {other}, and not that of {}", wanted.path));
    }
    let frames = wanted.frames.iter().filter_map(|&(number, _)| {
        let offset = stacks.frames.get(number as usize)?.address;
        Some((number, address(module, &elf, offset)?))
    });
    let (numbers, addresses): (Vec<u32>, Vec<u64>) = frames.unzip();
    if numbers.is_empty() {
        return Err(format!(
            "the trace does not tell where the code of {} is loaded: record it again with this version",
            wanted.path
        ));
    }
    let with_lines = !is_runtime(module.short_name());
    let tries = [(file, true), (file, false)];
    let (names, notes) = debug_info::names_in(&tries[usize::from(!with_lines)..], file, &addresses);
    let found: Vec<_> = numbers.into_iter().zip(names).filter(|(_, names)| !names.is_empty()).collect();
    match notes.into_iter().next().filter(|_| found.is_empty()) {
        Some(note) => Err(note.note),
        None => Ok(found),
    }
}

/// The address that the module's file states for an offset in it: as recorded, else as this file has it, else as the
/// module's own file on this machine.
fn address(module: &Module, elf: &Elf, offset: u64) -> Option<u64> {
    if !module.code.is_empty() {
        return module.address(offset);
    }
    // objcopy(1) leaves segments of length 0, eu-strip(1) those of the file.
    if !elf.code().is_empty() {
        return elf.address(offset);
    }
    let own = open(&module.path).and_then(|(file, _)| Some(Elf::of_file(&file, false)?.0))?;
    (own.build_id == elf.build_id).then(|| own.address(offset))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(build_id: Option<&str>) -> Recording {
        let mut recording = Recording::default();
        let build_id = build_id.map(str::to_owned);
        let module =
            |path: &str| Module { path: path.into(), build_id: build_id.clone(), ..Module::default() };
        recording.stacks.modules = ["/opt/a", "/lib/libc.so.6", "[kernel]", "/opt/b"].map(module).into();
        let name =
            |file: Option<&str>| Name { function: "f".into(), file: file.map(str::to_owned), line: None };
        let frame =
            |module, names: &[Name]| Frame { module: Some(module), address: 1, names: names.to_vec() };
        recording.stacks.frames = vec![
            frame(0, &[name(None)]),
            frame(0, &[name(Some("f.c"))]),
            frame(1, &[name(None)]),
            frame(2, &[]),
            frame(3, &[]),
            Frame::default(),
        ];
        recording
    }

    #[test]
    fn files_are_wanted_for_places_without_a_name_and_outside_runtimes_for_lines() {
        let wanted = wanted(&recording(Some("ABcd01")));
        let of = |at: usize| (wanted[at].path.as_str(), wanted[at].frames.as_slice());
        assert_eq!(wanted.len(), 2);
        assert_eq!(of(0), ("/opt/b", &[(4, false)][..]));
        assert_eq!(of(1), ("/opt/a", &[(0, true)][..]));
        assert_eq!(wanted[0].build_id.as_deref(), Some("abcd01"));
        assert_eq!((wanted[0].nameless(), wanted[1].nameless()), (1, 0));
    }

    #[test]
    fn what_is_no_build_id_becomes_no_part_of_a_path() {
        for hostile in ["../../etc", "ab/cd", "", "abc"] {
            assert_eq!(wanted(&recording(Some(hostile)))[0].build_id, None, "{hostile}");
        }
    }

    #[test]
    fn a_file_of_another_build_is_refused() {
        let recording = recording(Some("abcdef"));
        let wanted = &wanted(&recording)[0];
        let own = std::env::current_exe().unwrap();
        let refused = names(&recording, wanted, &own).unwrap_err();
        assert!(refused.contains("build id") && refused.ends_with("/opt/b"), "{refused}");
        let missing = names(&recording, wanted, Path::new("/nowhere")).unwrap_err();
        assert!(missing.contains("ELF"), "{missing}");
    }

    #[test]
    fn recorded_addresses_are_those_that_the_file_states() {
        let own = std::env::current_exe().unwrap();
        let (elf, _) = Elf::of_file(&open(&own).unwrap().0, false).unwrap();
        let module = Module { code: elf.code(), ..Module::default() };
        let code = module.code[0];
        for offset in [code.offset, code.offset + code.len_bytes - 1] {
            assert_eq!(module.address(offset), elf.address(offset));
        }
        assert_eq!(address(&module, &Elf::default(), code.offset), Some(code.address));
        let unknown = Module { path: "/nowhere".into(), ..Module::default() };
        assert_eq!(address(&unknown, &elf, code.offset), Some(code.address), "this file has segments");
        assert_eq!(address(&unknown, &Elf::default(), code.offset), None);
    }
}
