//! What kind of program a command is, read from its file before it is started.
//!
//! In: a name as a shell takes it. Out: the file, its allocator, and the reason why the interposer cannot act in it, if
//! any: no dynamic loader, another word size, rights that make the loader ignore `LD_PRELOAD`, or a sanitizer. Scripts
//! are followed to their interpreter.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use faultless_os::host::{may_execute, user};
use faultless_prof::Failure;
use faultless_trace::heaps::ALLOCATORS;
use faultless_trace::recording::Mark;

/// How many nested interpreters are followed; the kernel's limit is similar.
const SCRIPT_DEPTH: usize = 4;
/// Bytes read from the start of a file: a script's first line, or an ELF header with its program headers.
/// Real programs have about a dozen of them, of 56 bytes each.
const HEAD_BYTES: usize = 2048;

/// A command that can be started.
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
}

/// Finds a command as execvp(3) would.
///
/// # Errors
/// Those of a start.
pub(crate) fn find(name: &OsStr) -> Result<Executable, Failure> {
    let shown = || name.to_string_lossy().into_owned();
    if name.is_empty() {
        return Err(Failure::Empty);
    }
    let mut refused = None;
    for path in candidates(name) {
        match fs::metadata(&path) {
            Ok(file) if file.is_file() && may_execute(&path) => return Ok(Executable { path }),
            Ok(file) if file.is_dir() => refused = Some(Failure::Folder(shown())),
            Ok(_) => refused = Some(Failure::NotExecutable(shown())),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                refused = Some(Failure::NotExecutable(shown()));
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| Failure::NotFound(shown())))
}

/// Where execvp(3) looks.
fn candidates(name: &OsStr) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    search_path().iter().map(|directory| directory.join(name)).collect()
}

fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    std::env::split_paths(&path).collect()
}

/// Why the interposer cannot act in a program.
pub(crate) struct Immunity {
    /// A clause that begins with the program's path.
    pub(crate) reason: String,
    /// Whether even `LD_PRELOAD` and the variables must be withheld.
    pub(crate) is_left_alone: bool,
}

impl Executable {
    /// Why the interposer cannot act in this program. `None` if it can, or if the file can't be read.
    pub(super) fn immune(&self) -> Option<Immunity> {
        let binary = self.binary()?;
        native(&binary, dynamic(&binary.file, &binary.head).as_ref())
    }

    /// Why the interposer cannot act in it, or why its memory does not come from a malloc that can be replaced: a
    /// clause.
    pub(super) fn out_of_reach(&self) -> Option<String> {
        let binary = self.binary()?;
        let dynamic = dynamic(&binary.file, &binary.head);
        let immunity = native(&binary, dynamic.as_ref());
        immunity.map(|immunity| immunity.reason).or_else(|| own_memory(&binary, dynamic.as_ref()))
    }

    /// The library whose malloc it uses instead of glibc's: one that it is linked with, or a preloaded one.
    pub(super) fn allocator(&self) -> Option<&'static str> {
        let of_file =
            self.binary().and_then(|binary| dynamic(&binary.file, &binary.head)).map(|names| names.names);
        let preloaded = faultless_os::environment::last("LD_PRELOAD").unwrap_or_default();
        let names = [of_file.unwrap_or_default(), preloaded.into_encoded_bytes()];
        let is_named =
            |library: &&str| names.iter().any(|names| holds(names, format!("lib{library}").as_bytes()));
        ALLOCATORS.into_iter().find(is_named)
    }

    /// The ELF file that runs.
    fn binary(&self) -> Option<Binary> {
        let mut path = self.path.clone();
        for _ in 0..SCRIPT_DEPTH {
            let mut file = File::open(&path).ok()?;
            let mut head = vec![0; HEAD_BYTES];
            let len = file.read(&mut head).ok()?;
            head.truncate(len);
            match interpreter(&head) {
                Some(next) => path = next,
                None => return Some(Binary { path, file, head }),
            }
        }
        None
    }
}

/// A file, and its first bytes.
struct Binary {
    path: PathBuf,
    file: File,
    head: Vec<u8>,
}

impl Binary {
    /// What its file tells of its allocators and runtimes.
    fn marks(&self) -> Vec<Mark> {
        faultless_prof::heaps::of_file(&self.path.to_string_lossy(), &self.file)
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// The interpreter in a script's first line. For `/usr/bin/env NAME`, NAME is looked up.
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

fn own_memory(binary: &Binary, dynamic: Option<&Dynamic>) -> Option<String> {
    let (path, marks) = (&binary.path, binary.marks());
    let has = |name: &str| marks.iter().any(|mark| mark.name == name);
    let why = if has("Go") {
        "is a Go program: its heap does not come from malloc"
    } else if has(Mark::OWN) {
        "defines malloc itself"
    } else {
        let library = linked_allocator(&dynamic?.names)?;
        return Some(format!("{} is linked with {library}, which keeps all of its blocks", path.display()));
    };
    Some(format!("{} {why}", path.display()))
}

/// The allocator among the libraries of a program whose functions of its own may get any block: the interposer is passive
/// then.
fn linked_allocator(names: &[u8]) -> Option<&'static str> {
    const LIBRARIES: [&str; 5] =
        ["libjemalloc.", "libmimalloc", "libtcmalloc", "librpmalloc.", "libtbbmalloc_proxy."];
    let library = LIBRARIES.into_iter().find(|library| holds(names, library.as_bytes()))?;
    Some(library.trim_end_matches('.'))
}

fn native(Binary { path, file, head }: &Binary, dynamic: Option<&Dynamic>) -> Option<Immunity> {
    let shown = path.display();
    let reason = match dynamic_loader(file, head) {
        _ if gains_rights(&file.metadata().ok()?) => "is setuid or setgid: its loader ignores LD_PRELOAD",
        Elf::Static => "is statically linked: it has no loader for the pool",
        Elf::OtherClass => "is a 32-bit program and the pool is not",
        Elf::Dynamic => {
            let sanitizer = sanitizer(&dynamic?.names)?;
            let reason = format!("{shown} is built with {sanitizer}, which has to see every block");
            return Some(Immunity { reason, is_left_alone: true });
        }
        Elf::Unknown => return None,
    };
    Some(Immunity { reason: format!("{shown} {reason}"), is_left_alone: false })
}

/// Names that give a sanitizer away, and the sanitizer.
const SANITIZERS: [(&[u8], &str); 6] = [
    (b"__asan_init\0", "AddressSanitizer"),
    (b"__hwasan_init\0", "HWAddressSanitizer"),
    (b"__lsan_init\0", "LeakSanitizer"),
    (b"liblsan.so", "LeakSanitizer"),
    (b"__msan_init\0", "MemorySanitizer"),
    (b"__tsan_init\0", "ThreadSanitizer"),
];

/// The sanitizer of a program with these names. GCC's `-static-libasan` and similar flags leave no trace.
fn sanitizer(names: &[u8]) -> Option<&'static str> {
    SANITIZERS.iter().find(|(name, _)| holds(names, name)).map(|(_, sanitizer)| *sanitizer)
}

/// The dynamic symbols of a program.
struct Dynamic {
    /// Names of symbols and of libraries (DT_STRTAB).
    names: Vec<u8>,
}

/// Reads them. Reference: elf(5).
fn dynamic(file: &File, head: &[u8]) -> Option<Dynamic> {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_STRTAB: u64 = 5;
    const DT_STRSZ: u64 = 10;
    let headers = program_headers(file, head)?;
    let dynamic = headers.of_kind(PT_DYNAMIC).next()?;
    let entries = read_at(file, dynamic.offset, dynamic.len)?;
    let value = |wanted: u64| {
        entries.chunks_exact(16).find(|entry| word(entry, 0) == Some(wanted)).and_then(|entry| word(entry, 8))
    };
    let read = |address: u64, len: u64| {
        let mut parts = headers.of_kind(PT_LOAD);
        let part = parts.find(|part| (part.address..part.address + part.len).contains(&address))?;
        read_at(file, part.offset + (address - part.address), len)
    };
    let (address, len) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    Some(Dynamic { names: read(address, len)? })
}

/// The most bytes read from a file, whatever its headers say.
const NAMES_BYTES: u64 = 16 << 20;

fn read_at(file: &File, offset: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len.min(NAMES_BYTES)).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn gains_rights(file: &fs::Metadata) -> bool {
    const SETUID: u32 = 0o4000;
    const SETGID: u32 = 0o2000;
    let (user, group) = user();
    file.mode() & SETUID != 0 && file.uid() != user || file.mode() & SETGID != 0 && file.gid() != group
}

#[derive(Debug, PartialEq, Eq)]
enum Elf {
    Dynamic,
    Static,
    OtherClass,
    Unknown,
}

/// Whether an ELF file names a dynamic loader (PT_INTERP). Reference: elf(5).
fn dynamic_loader(file: &File, head: &[u8]) -> Elf {
    const PT_INTERP: u32 = 3;
    if !head.starts_with(b"\x7fELF") {
        return Elf::Unknown;
    }
    if head.get(4) == Some(&1) {
        return Elf::OtherClass;
    }
    match program_headers(file, head) {
        None => Elf::Unknown,
        Some(headers) if headers.of_kind(PT_INTERP).next().is_some() => Elf::Dynamic,
        Some(_) => Elf::Static,
    }
}

/// The program headers of a 64-bit ELF file.
struct Headers {
    bytes: Vec<u8>,
    entry_bytes: usize,
}

/// A segment of an ELF file, and its address in memory.
struct Segment {
    offset: u64,
    address: u64,
    len: u64,
}

impl Headers {
    fn of_kind(&self, kind: u32) -> impl Iterator<Item = Segment> {
        let entries = self.bytes.chunks_exact(self.entry_bytes);
        let entries = entries.filter(move |entry| entry.starts_with(&kind.to_le_bytes()));
        entries.map(|entry| {
            let word = |at| word(entry, at).unwrap_or(0);
            Segment { offset: word(8), address: word(16), len: word(32) }
        })
    }
}

fn program_headers(file: &File, head: &[u8]) -> Option<Headers> {
    let half = |at: usize| head.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]) as usize);
    let (offset, entry_bytes, count) = (word(head, 32)?, half(54)?, half(56)?);
    if entry_bytes < 4 {
        return None;
    }
    let len = entry_bytes * count;
    let near = usize::try_from(offset).ok().and_then(|offset| head.get(offset..)?.get(..len));
    let bytes = match near {
        Some(bytes) => bytes.to_vec(),
        None => {
            let mut bytes = vec![0; HEAD_BYTES];
            let found = file.read_at(&mut bytes, offset).ok()?;
            bytes.truncate(found.min(len));
            bytes
        }
    };
    Some(Headers { bytes, entry_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        dynamic_loader(&file, &bytes[..bytes.len().min(HEAD_BYTES)])
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        assert_eq!(read(&elf(2, &[1, 3, 2])), Elf::Dynamic);
        assert_eq!(read(&elf(2, &[1, 1])), Elf::Static);
        assert_eq!(read(&elf(1, &[1, 3])), Elf::OtherClass);
    }

    #[test]
    fn headers_at_the_end_of_a_large_file_are_found() {
        let mut bytes = elf(2, &[]);
        bytes.resize(3 * HEAD_BYTES, 0);
        bytes[32..40].copy_from_slice(&(3 * HEAD_BYTES as u64).to_le_bytes());
        bytes[56] = 2;
        bytes.extend(&elf(2, &[1, 3])[64..]);
        assert_eq!(read(&bytes), Elf::Dynamic);
    }

    #[test]
    fn a_sanitizer_is_known_by_the_names_in_a_program() {
        let program = |names: &[u8]| {
            let mut bytes = elf(2, &[1, 2, 3]);
            let (names_at, dynamic_at) = (bytes.len() as u64, (bytes.len() + names.len()) as u64);
            bytes.extend(names);
            let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            // Segments are loaded 4096 bytes above their file offset.
            let (load, second) = (64, 64 + 56);
            for (at, value) in
                [(load + 16, 4096), (load + 32, 10_000), (second + 8, dynamic_at), (second + 32, 48)]
            {
                put(at, value);
            }
            for value in [5, 4096 + names_at, 10, names.len() as u64, 0, 0] {
                bytes.extend(value.to_le_bytes());
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let of = |len: usize| dynamic(&file, &bytes[..len]).and_then(|found| sanitizer(&found.names));
            let found = of(bytes.len().min(HEAD_BYTES));
            for len in 0..bytes.len() {
                of(len);
            }
            found
        };
        assert_eq!(program(b"\0libc.so.6\0__asan_init\0"), Some("AddressSanitizer"));
        assert_eq!(program(b"\0__tsan_init\0malloc\0"), Some("ThreadSanitizer"));
        assert_eq!(program(b"\0liblsan.so.0\0"), Some("LeakSanitizer"));
        assert_eq!(program(b"\0libc.so.6\0__asan_initialized\0"), None);
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
        let find = |name: &str| find(OsStr::new(name)).err().map(|failure| failure.to_string()).unwrap();
        assert!(find("").contains("no command given"));
        let failure = find("no-such-command-of-faultless");
        assert!(failure.contains("no such command") && !failure.contains('\n'));
        assert!(find("/etc/passwd").contains("chmod +x"));
    }
}
