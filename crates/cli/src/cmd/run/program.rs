//! What kind of program a command is, read from its file before it is started.
//!
//! In: a name as a shell takes it. Out: the file, and the reason why the interposer cannot act in it, if there is one:
//! a program without a dynamic loader, with musl's, of another word size, or with rights that make the loader ignore `LD_PRELOAD`.
//! Scripts are followed to their interpreter.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cmd::Failure;

/// How many interpreters of interpreters are followed; the kernel's limit is near this.
const SCRIPT_DEPTH: usize = 4;
/// Bytes in which the loader's name is looked for: `/lib/ld-musl-x86_64.so.1`.
const LOADER_BYTES: u64 = 32;
/// Program headers read at most; real programs have about a dozen.
const HEADERS_MAX: usize = 256;

/// A command that can be started.
pub(super) struct Program {
    pub(super) path: PathBuf,
}

/// Why the interposer cannot act in a program.
pub(super) struct Immunity {
    pub(super) reason: String,
    /// Whether its loader would even refuse to start it.
    pub(super) breaks: bool,
}

/// Finds a command as execvp(3) would.
pub(super) fn find(name: &OsStr) -> Result<Program, Failure> {
    let shown = name.display();
    let candidates: Vec<PathBuf> = match name.as_bytes() {
        [] => return Err(Failure("the command is empty; give a program after --".into())),
        name_bytes if name_bytes.contains(&b'/') => vec![name.into()],
        _ => search_path().iter().map(|directory| directory.join(name)).collect(),
    };
    let mut refused = None;
    for path in candidates {
        match fs::metadata(&path) {
            Ok(file) if file.is_file() && file.mode() & 0o111 != 0 => return Ok(Program { path }),
            Ok(file) if file.is_dir() => refused = Some(format!("{} is a directory", path.display())),
            Ok(_) => refused = Some(format!("{0} is not executable; try: chmod +x {0}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                refused = Some(format!("{}: permission denied", path.display()));
            }
            Err(_) => {}
        }
    }
    Err(Failure(
        refused.unwrap_or_else(|| format!("no such command: {shown}; check the spelling or give its path")),
    ))
}

fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    std::env::split_paths(&path).collect()
}

impl Program {
    /// Why the interposer cannot act in this program; `None` if it can, or if the file can't be read.
    pub(super) fn immune(&self) -> Option<Immunity> {
        let mut path = self.path.clone();
        for _ in 0..SCRIPT_DEPTH {
            let mut file = File::open(&path).ok()?;
            let mut head = [0; 256];
            let len = file.read(&mut head).ok()?;
            match interpreter(&head[..len]) {
                Some(next) => path = next,
                None => return native(&path, &mut file, &head[..len]),
            }
        }
        None
    }
}

/// The interpreter in a script's first line; `/usr/bin/env NAME` is looked up.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty());
    let path = Path::new(OsStr::from_bytes(words.next()?)).to_path_buf();
    if path.file_name() != Some(OsStr::new("env")) {
        return Some(path);
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    find(OsStr::from_bytes(name)).ok().map(|program| program.path)
}

fn native(path: &Path, file: &mut File, head: &[u8]) -> Option<Immunity> {
    let shown = path.display();
    let metadata = file.metadata().ok()?;
    let (user, group) = faultless_os::host::user();
    let gains_user = metadata.mode() & 0o4000 != 0 && metadata.uid() != user;
    let gains_group = metadata.mode() & 0o2000 != 0 && metadata.gid() != group;
    let kind = dynamic_loader(file, head);
    let reason = match kind {
        _ if gains_user || gains_group => "is setuid or setgid: its loader ignores LD_PRELOAD",
        Elf::Static => "is statically linked: it has no loader for the pool",
        Elf::OtherClass => "is a 32-bit program and the pool is not",
        Elf::Musl => "uses musl and the pool needs glibc",
        Elf::Dynamic | Elf::Unknown => return None,
    };
    Some(Immunity { reason: format!("{shown} {reason}, so run cannot help"), breaks: kind == Elf::Musl })
}

#[derive(Debug, PartialEq, Eq)]
enum Elf {
    Dynamic,
    Static,
    OtherClass,
    Musl,
    Unknown,
}

/// Whether an ELF file names a dynamic loader (PT_INTERP). Reference: elf(5).
fn dynamic_loader<F: Read + Seek>(file: &mut F, head: &[u8]) -> Elf {
    const PT_INTERP: u32 = 3;
    if !head.starts_with(b"\x7fELF") {
        return Elf::Unknown;
    }
    if head.get(4) == Some(&1) {
        return Elf::OtherClass;
    }
    let half = |at: usize| head.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]) as usize);
    let offset = head.get(32..40).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let (Some(offset), Some(entry), Some(count)) = (offset, half(54), half(56)) else { return Elf::Unknown };
    let mut table = Vec::new();
    let len = (entry * count.min(HEADERS_MAX)) as u64;
    if entry < 4
        || file.seek(SeekFrom::Start(offset)).is_err()
        || file.by_ref().take(len).read_to_end(&mut table).is_err()
    {
        return Elf::Unknown;
    }
    let mut headers = table.chunks_exact(entry);
    let Some(header) = headers.find(|header| header.starts_with(&PT_INTERP.to_le_bytes())) else {
        return Elf::Static;
    };
    let mut loader = Vec::new();
    let at = header.get(8..16).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).unwrap_or(0);
    let read = file
        .seek(SeekFrom::Start(at))
        .and_then(|_| file.by_ref().take(LOADER_BYTES).read_to_end(&mut loader));
    match read.is_ok() && loader.windows(8).any(|part| part == b"/ld-musl") {
        true => Elf::Musl,
        false => Elf::Dynamic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn elf(class: u8, kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', class]);
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = kinds.len() as u8;
        for kind in kinds {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Elf {
        dynamic_loader(&mut Cursor::new(bytes), &bytes[..bytes.len().min(256)])
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        assert_eq!(read(&elf(2, &[1, 3, 2])), Elf::Dynamic);
        assert_eq!(read(&elf(2, &[1, 1])), Elf::Static);
        assert_eq!(read(&elf(1, &[1, 3])), Elf::OtherClass);
    }

    #[test]
    fn the_loader_of_musl_is_known_by_its_name() {
        let mut bytes = elf(2, &[1, 3]);
        let (header, end) = (64 + 56, bytes.len() as u8);
        bytes[header + 8] = end;
        bytes.extend(b"/lib/ld-musl-x86_64.so.1\0");
        assert_eq!(read(&bytes), Elf::Musl);
    }

    #[test]
    fn broken_headers_are_unknown_not_a_panic() {
        let whole = elf(2, &[1, 3]);
        for len in 0..whole.len() {
            read(&whole[..len]);
        }
        assert_eq!(read(b"\x7fELF"), Elf::Unknown);
        assert_eq!(read(b"#!/bin/sh\n"), Elf::Unknown);
    }

    #[test]
    fn a_script_is_followed_to_its_interpreter() {
        assert_eq!(interpreter(b"#!/bin/sh -e\necho"), Some("/bin/sh".into()));
        assert!(interpreter(b"#! /usr/bin/env sh\n").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(interpreter(b"plain text"), None);
    }

    #[test]
    fn an_empty_or_unknown_command_is_one_clear_line() {
        assert!(find(OsStr::new("")).is_err_and(|failure| failure.0.contains("empty")));
        let failure = find(OsStr::new("no-such-command-of-faultless")).err().unwrap();
        assert!(failure.0.contains("no such command") && !failure.0.contains('\n'));
        assert!(find(OsStr::new("/etc/passwd")).is_err_and(|failure| failure.0.contains("chmod +x")));
    }
}
