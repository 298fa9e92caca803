//! An ELF file as unwinding and naming need it.
//!
//! In: a file, or the bytes of an image. Out: where its code lies, its build id, and its unwind information
//! if asked for. It reads only those parts. Of a damaged file it returns what can be read.
//!
//! It does not name functions (`symbols`).

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use faultless_trace::recording::Code;
use framehop::ExplicitModuleSectionInfo;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ReadCache, ReadRef, SectionFlags, elf};

use crate::tuning as t;

/// A loaded part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    file_offset: u64,
    len_bytes: u64,
    address: u64,
    executable: bool,
}

/// What is known of an ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// GNU build id in hexadecimal.
    pub(crate) build_id: Option<String>,
    /// It holds debug information itself.
    pub(crate) has_debug: bool,
    /// The file that has debug information instead, as `.gnu_debuglink` names it.
    pub(crate) debug_link: Option<String>,
    segments: Vec<Segment>,
}

/// Unwind information, in the form that framehop takes.
pub(crate) type Sections = ExplicitModuleSectionInfo<Vec<u8>>;

impl Elf {
    /// Reads what can be read. `None`: no 64-bit ELF file.
    pub(crate) fn of_file(file: &File, with_sections: bool) -> Option<(Self, Sections)> {
        // Sections of several MiB bypass the cache, which would copy them again.
        let read = |at: u64, len_bytes: u64| {
            let mut bytes = Vec::with_capacity(usize::try_from(len_bytes).ok()?);
            let mut file = file;
            file.seek(SeekFrom::Start(at)).ok()?;
            file.take(len_bytes).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        };
        parse(&ReadCache::new(file), with_sections.then_some(&read))
    }

    /// Likewise, of an image in memory.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<(Self, Sections)> {
        let read = |at: u64, len_bytes: u64| {
            let at = usize::try_from(at).ok()?;
            bytes.get(at..at.checked_add(usize::try_from(len_bytes).ok()?)?).map(<[u8]>::to_vec)
        };
        parse(bytes, Some(&read))
    }

    /// The virtual address that the file gives to the byte at `file_offset`. If segments share a page, code
    /// takes precedence over data.
    pub(crate) fn address(&self, file_offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            file_offset.checked_sub(segment.file_offset).is_some_and(|inside| inside < segment.len_bytes)
        };
        let code = self.segments.iter().filter(|segment| segment.executable).find(holds);
        let segment = code.or_else(|| self.segments.iter().find(holds))?;
        Some((file_offset - segment.file_offset).wrapping_add(segment.address))
    }

    /// The parts with code. Debug files have none.
    pub(crate) fn code(&self) -> Vec<Code> {
        let code = self.segments.iter().filter(|segment| segment.executable && segment.len_bytes > 0);
        let code = code.map(|segment| Code {
            offset: segment.file_offset,
            len_bytes: segment.len_bytes,
            address: segment.address,
        });
        code.collect()
    }

    /// What to add to a file offset to get the address that the file states, for a mapping of these bytes.
    pub(crate) fn bias(&self, mapped: Range<u64>) -> Option<u64> {
        let overlaps = |segment: &&Segment| {
            segment.file_offset < mapped.end
                && mapped.start < segment.file_offset.saturating_add(segment.len_bytes)
        };
        let code = self.segments.iter().filter(|segment| segment.executable).find(overlaps);
        code.map(|segment| segment.address.wrapping_sub(segment.file_offset))
    }

    /// The lowest address, as the file states it.
    pub(crate) fn base(&self) -> u64 {
        self.segments.iter().map(|segment| segment.address).min().unwrap_or(0)
    }
}

/// Where the names of an object can be taken from.
pub(crate) enum ElfImage<'a> {
    /// From this file.
    File(PathBuf),
    /// From this image.
    Memory(&'a [u8]),
}

/// The kernel's suffix for the path of a deleted file.
pub(crate) const DELETED: &str = " (deleted)";

/// The path of a mapped file, without the kernel's "deleted" suffix.
pub(crate) fn path_of(name: &str) -> &str {
    name.strip_suffix(DELETED).unwrap_or(name)
}

/// Opens a regular file. Opening a pipe or a device could block or have side effects.
pub(crate) fn open(path: impl AsRef<Path>) -> Option<(File, Metadata)> {
    if !std::fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    Some((file, metadata))
}

/// Reads this many bytes of the file from an offset on.
type ReadAt<'a> = &'a dyn Fn(u64, u64) -> Option<Vec<u8>>;

fn parse<'data, R: ReadRef<'data>>(data: R, read: Option<ReadAt<'_>>) -> Option<(Elf, Sections)> {
    let file = ElfFile64::<object::LittleEndian, R>::parse(data).ok()?;
    let endian = file.endian();
    let loaded = file.elf_program_headers().iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let segments: Vec<Segment> = loaded
        .map(|header| Segment {
            file_offset: header.p_offset(endian),
            len_bytes: header.p_filesz(endian),
            address: header.p_vaddr(endian),
            executable: header.p_flags(endian).0 & elf::PF_X.0 != 0,
        })
        .collect();
    let build_id = file.build_id().ok().flatten().map(hexadecimal);
    let has_debug = [".debug_info", ".zdebug_info"].iter().any(|name| file.section_by_name(name).is_some());
    let debug_link = file.gnu_debuglink().ok().flatten();
    let debug_link = debug_link.map(|(name, _)| String::from_utf8_lossy(name).into_owned());
    let elf = Elf { build_id, has_debug, debug_link, segments };
    let sections = read.map(|read| sections(&file, elf.base(), read)).unwrap_or_default();
    Some((elf, sections))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn sections<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, object::LittleEndian, R>,
    base: u64,
    read: ReadAt<'_>,
) -> Sections {
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    };
    let data = |name: &str| {
        let section = file.section_by_name(name)?;
        let compressed = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & elf::SHF_COMPRESSED.0 != 0);
        let fits = section.size() <= t::UNWIND_SECTION_BYTES_MAX && !compressed;
        let (at, len_bytes) = section.file_range().filter(|_| fits)?;
        read(at, len_bytes).filter(|bytes| !bytes.is_empty() && bytes.len() as u64 == len_bytes)
    };
    let mut found = Sections {
        base_svma: base,
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..Sections::default()
    };
    // Without exception tables, .eh_frame covers only the few start functions of the C library. framehop
    // takes only one of the two sections.
    let debug_frame = data(".debug_frame").unwrap_or_default();
    if debug_frame.len() > found.eh_frame.as_ref().map_or(0, Vec::len) {
        (found.eh_frame, found.eh_frame_hdr, found.debug_frame) = (None, None, Some(debug_frame));
    }
    found
}
