//! The ELF files that the observed programs run, each read once, however many processes map it.
//!
//! In: a mapping of a process. Out: the number of an object with unwind information, and later a source of
//! names. A file is looked for where the process sees it (its own root, for containers). If that fails, it is
//! opened by the kernel's link to the mapping (for deleted files), then by its plain path. The vdso is read
//! from memory.
//!
//! It does not keep data of files other than their unwind sections.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use faultless_os::{process_memory, procfs};
use faultless_trace::recording::Mark;
use framehop::{CacheNative, MayAllocateDuringUnwind, Module, Unwinder as _, UnwinderNative};

use crate::elf::{DELETED, Elf, ElfImage, Sections, open, path_of};
use crate::heaps;
use crate::tuning as t;

/// One file, or the vdso.
pub(crate) struct Object {
    pub(crate) elf: Elf,
    pub(crate) unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    pub(crate) cache: CacheNative<MayAllocateDuringUnwind>,
    source: Source,
}

/// Where names can be taken from.
enum Source {
    File {
        path: PathBuf,
        identity: Identity,
        /// Kept open if `path` is another file.
        kept: Option<File>,
    },
    Memory(Vec<u8>),
}

/// Identifies a version of a file: device, inode, length, time of change.
type Identity = (u64, u64, u64, i64, i64);

/// All that were found.
#[derive(Default)]
pub(crate) struct Objects {
    objects: Vec<Object>,
    files: HashMap<Identity, Option<u32>>,
    vdso: Option<Option<u32>>,
}

impl Objects {
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Object> {
        self.objects.get_mut(number as usize)
    }

    /// The object mapped at `range` of a process as `name`; `None`: it can't be opened or is no ELF file.
    pub(crate) fn file(&mut self, pid: u32, name: &str, range: &Range<u64>) -> Option<u32> {
        let path = path_of(name);
        let seen = format!("/proc/{pid}/root{path}");
        let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end);
        let program = format!("/proc/{pid}/exe");
        let is_program = || std::fs::read_link(&program).is_ok_and(|link| link == Path::new(name));
        let (file, metadata) = if name.ends_with(DELETED) {
            open(&mapped).or_else(|| is_program().then(|| open(&program))?)
        } else {
            open(&seen).or_else(|| open(&mapped)).or_else(|| open(path))
        }?;
        let identity = identity(&metadata);
        if let Some(&known) = self.files.get(&identity) {
            return known;
        }
        let same = std::fs::metadata(path).is_ok_and(|there| self::identity(&there) == identity);
        let kept = if same { None } else { file.try_clone().ok() };
        let found = Elf::of_file(&file, true).map(|(elf, sections)| {
            self.add(path, elf, sections, Source::File { path: path.into(), identity, kept })
        });
        self.files.insert(identity, found);
        found
    }

    /// The vdso, mapped at `range` of a process. All processes have the same, so our own will do.
    pub(crate) fn vdso(&mut self, pid: u32, range: &Range<u64>) -> Option<u32> {
        if let Some(known) = self.vdso {
            return known;
        }
        let bytes = memory(pid, range).or_else(own_vdso);
        let found = bytes.and_then(|bytes| {
            let (elf, sections) = Elf::of_bytes(&bytes)?;
            Some(self.add("[vdso]", elf, sections, Source::Memory(bytes)))
        });
        self.vdso = Some(found);
        found
    }

    /// The source of names; `None`: the file has been replaced.
    pub(crate) fn named(&self, number: u32) -> Option<(&Elf, ElfImage<'_>)> {
        let object = self.objects.get(number as usize)?;
        let source = match &object.source {
            Source::Memory(bytes) => ElfImage::Memory(bytes),
            Source::File { path, identity: known, kept } => {
                let same = std::fs::metadata(path).is_ok_and(|there| identity(&there) == *known);
                let kept = kept.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()).into());
                ElfImage::File(if same { path.clone() } else { kept? })
            }
        };
        Some((&object.elf, source))
    }

    /// The allocators and runtimes in the files.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        let of = |(object, number): (&Object, u32)| {
            let Source::File { path, .. } = &object.source else { return Vec::new() };
            let Some((_, ElfImage::File(there))) = self.named(number) else { return Vec::new() };
            let Some((file, _)) = open(there) else { return Vec::new() };
            heaps::of_file(&path.to_string_lossy(), &file)
        };
        self.objects.iter().zip(0..).flat_map(of).collect()
    }

    fn add(&mut self, name: &str, elf: Elf, sections: Sections, source: Source) -> u32 {
        let base = elf.base();
        let mut unwinder = UnwinderNative::new();
        // Unwinding uses the addresses that the file states, so one object serves all processes.
        let range = base..base.saturating_add(u64::from(u32::MAX));
        unwinder.add_module(Module::new(name.to_owned(), range, base, sections));
        self.objects.push(Object { elf, unwinder, cache: CacheNative::new(), source });
        self.objects.len() as u32 - 1
    }
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec())
}

/// Bytes of a process's memory.
fn memory(pid: u32, range: &Range<u64>) -> Option<Vec<u8>> {
    let len_bytes = range.end.checked_sub(range.start).filter(|len| *len <= t::VDSO_BYTES_MAX)?;
    let mut bytes = vec![0; len_bytes as usize];
    (process_memory::read(pid as i32, range.start, &mut bytes) == Ok(bytes.len())).then_some(bytes)
}

fn own_vdso() -> Option<Vec<u8>> {
    let own = std::process::id();
    let vdso = procfs::mappings(own)?.into_iter().find(|mapping| mapping.name == "[vdso]")?;
    memory(own, &(vdso.begin..vdso.begin + vdso.len_bytes))
}
