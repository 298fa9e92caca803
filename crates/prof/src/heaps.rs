//! The allocators and runtimes in the files of a program, and the settings of a process.
//!
//! In: ELF files that processes mapped; /proc/PID. Out: [`Mark`]s, and the settings that
//! [`faultless_trace::heaps::settings`] lets pass. A version that a file does not state is left out.
//!
//! It does not know which of them serves a program's memory (`trace::heaps`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use faultless_os::spawn::Plan;
use faultless_trace::heaps::settings;
use faultless_trace::recording::Mark;
use memchr::memmem;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, elf};

/// Constants of a file that are read, bytes at most.
const CONSTANTS_BYTES: u64 = 256 << 20;
/// A version has fewer characters.
const VERSION_LEN: usize = 32;

/// What a file shows. `file`: its name as the process sees it.
pub fn of_file(name: &str, file: &File) -> Vec<Mark> {
    let Some(image) = Image::read(file) else { return Vec::new() };
    let short = name.rsplit('/').next().unwrap_or(name);
    let mut marks = Vec::new();
    let mut add = |mark: &str, version: Option<String>, variable: Option<String>| {
        marks.push(Mark { file: name.to_owned(), name: mark.to_owned(), version, variable });
    };
    if let Some(info) = &image.go {
        add("Go", go_version(info), None);
    }
    for (heap, version) in runtimes(name, short, &image) {
        add(heap, version, None);
    }
    let constants = Constants(&image.constants);
    // The programs of this project have these words as well.
    if !short.starts_with("faultless") {
        if constants.has("<jemalloc>: ") || short.starts_with("libjemalloc") {
            add("jemalloc", constants.jemalloc(), constants.ends_with_nul("MALLOC_CONF"));
        }
        if constants.has("mimalloc: warning: ") || short.starts_with("libmimalloc") {
            let version =
                of_name(short, "libmimalloc.so.").or(constants.has("page_full_retain").then(|| "3".into()));
            // Before 2.1 the delay has another name.
            let is_old = !constants.has("purge_delay") && constants.has("decommit_delay");
            add("mimalloc", version, is_old.then(|| "MIMALLOC_DECOMMIT_DELAY".to_owned()));
        }
        if constants.has("tcmalloc: large alloc") || short.starts_with("libtcmalloc") {
            add("tcmalloc", constants.after("gperftools "), None);
        }
        for other in ["snmalloc", "rpmalloc", "hoard", "scudo"] {
            if short.contains(other) {
                add(other, None, None);
            }
        }
    }
    let is_c = short.starts_with("libc.") || short.starts_with("libc-");
    if image.is_program && image.has_malloc {
        add(Mark::OWN, None, None);
    }
    if image.is_static {
        add(Mark::STATIC, None, None);
    }
    // Its loader and its library are one file, with the name of the one or of the other.
    if short.starts_with("ld-musl") || is_c && constants.has("musl libc (") {
        add("musl", None, None);
    } else if is_c && constants.has("GNU C Library") || image.is_static && constants.has("GLIBC_TUNABLES") {
        add("glibc", constants.after("release version "), None);
    }
    marks
}

/// The runtimes and libraries that a file's name tells, and the version that its path or its constants tell.
fn runtimes(path: &str, short: &str, image: &Image) -> Vec<(&'static str, Option<String>)> {
    let has = |part: &str| short.contains(part);
    let python = of_name(short, "libpython").or(of_name(short, "python"));
    let found = [
        (short.starts_with("libjvm.so"), "Java", release(path)),
        (
            short.starts_with("node") || has("libnode.so"),
            "Node",
            Constants(&image.constants).after("/node-v"),
        ),
        (short.starts_with("libcoreclr.so"), ".NET", part_of(path, "Microsoft.NETCore.App")),
        (python.is_some(), "CPython", python.clone()),
        (short.starts_with("libR.so"), "R", None),
        (short.starts_with("libruby"), "Ruby", of_name(short, "libruby.so.").or(of_name(short, "libruby-"))),
        (has("_multiarray_umath"), "NumPy", package(path, "numpy")),
        (short.starts_with("libtorch_cpu.so"), "PyTorch", package(path, "torch")),
        (has("polars") && has("abi3"), "Polars", package(path, "polars")),
        (short.starts_with("libarrow.so"), "Arrow", package(path, "pyarrow")),
        (has("duckdb") && has(".so"), "DuckDB", package(path, "duckdb")),
    ];
    found.into_iter().filter(|(is_it, ..)| *is_it).map(|(_, name, version)| (name, version)).collect()
}

/// The settings of a process; none if it has ended or belongs to another user.
pub(crate) fn of_process(pid: u32) -> Vec<String> {
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let (variables, words) = (read("environ"), read("cmdline"));
    let (variables, words) = (String::from_utf8_lossy(&variables), String::from_utf8_lossy(&words));
    // glibc before 2.39 ends each tunable with a zero, where they are.
    let variables = variables.replace("\0glibc.", ":glibc.");
    settings(variables.split('\0'), words.split('\0'))
}

/// The settings with which a command begins.
pub(crate) fn of_plan(plan: &Plan, words: &[String]) -> Vec<String> {
    let variables: Vec<_> = plan.environment().iter().map(|variable| variable.to_string_lossy()).collect();
    settings(variables.iter().map(AsRef::as_ref), words.iter().map(String::as_str))
}

/// The parts of an ELF file that tell.
#[derive(Default)]
struct Image {
    /// `.rodata`.
    constants: Vec<u8>,
    /// `.go.buildinfo`.
    go: Option<Vec<u8>>,
    is_program: bool,
    is_static: bool,
    /// It defines `malloc`.
    has_malloc: bool,
}

impl Image {
    fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<object::LittleEndian, _>::parse(&cache).ok()?;
        let endian = elf.endian();
        let section = |name: &str| {
            let (at, len) = elf.section_by_name(name)?.file_range()?;
            let mut bytes = vec![0; usize::try_from(len.min(CONSTANTS_BYTES)).ok()?];
            file.read_exact_at(&mut bytes, at).ok()?;
            Some(bytes)
        };
        let headers = elf.elf_program_headers();
        let has_loader = headers.iter().any(|header| header.p_type(endian) == elf::PT_INTERP);
        let dynamic = headers.iter().find_map(|header| header.dynamic(endian, &cache).ok()?);
        let is_pie = dynamic
            .into_iter()
            .flatten()
            .any(|entry| entry.tag(endian) == elf::DT_FLAGS_1 && entry.val(endian) & elf::DF_1_PIE.0 != 0);
        let is_fixed = elf.elf_header().e_type(endian) == elf::ET_EXEC;
        let defines = |symbol: object::read::elf::ElfSymbol64<'_, '_, _, _>| {
            !symbol.is_undefined() && symbol.name().is_ok_and(|name| name == "malloc")
        };
        Some(Self {
            constants: section(".rodata").unwrap_or_default(),
            go: section(".go.buildinfo"),
            is_program: is_fixed || is_pie,
            is_static: (is_fixed || is_pie) && !has_loader,
            has_malloc: elf.dynamic_symbols().any(defines),
        })
    }
}

/// The constants of a file.
struct Constants<'a>(&'a [u8]);

impl Constants<'_> {
    fn has(&self, part: &str) -> bool {
        memmem::find(self.0, part.as_bytes()).is_some()
    }

    /// The version after these words.
    fn after(&self, words: &str) -> Option<String> {
        let at = memmem::find(self.0, words.as_bytes())? + words.len();
        version(&String::from_utf8_lossy(self.0.get(at..(at + VERSION_LEN).min(self.0.len()))?))
    }

    /// `5.3.0` of `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`.
    fn jemalloc(&self) -> Option<String> {
        const HASH: usize = 40;
        memmem::find_iter(self.0, "-g").find_map(|at| {
            let hash = self.0.get(at + 2..at + 2 + HASH)?;
            let near = &self.0[at.saturating_sub(VERSION_LEN)..at];
            let begin = near.iter().rposition(|&byte| byte == 0)? + 1;
            let before = std::str::from_utf8(&near[begin..]).ok()?;
            let (version, count) = before.split_once('-')?;
            let is_it = hash.iter().all(u8::is_ascii_hexdigit)
                && count.bytes().all(|byte| byte.is_ascii_digit())
                && self::version(version).as_deref() == Some(version)
                && version != "0.0.0";
            is_it.then(|| version.to_owned())
        })
    }

    /// The whole string that ends so.
    fn ends_with_nul(&self, end: &str) -> Option<String> {
        let at = memmem::find(self.0, format!("{end}\0").as_bytes())?;
        let from = at.saturating_sub(VERSION_LEN);
        let begin = from + self.0[from..at].iter().rposition(|&byte| byte == 0)? + 1;
        let whole = std::str::from_utf8(&self.0[begin..at + end.len()]).ok()?;
        let is_variable = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
        whole.bytes().all(is_variable).then(|| whole.to_owned())
    }
}

/// Digits and dots at the begin, with a dot between; `3` alone is one too.
fn version(text: &str) -> Option<String> {
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let version = text[..end].trim_end_matches('.');
    version.starts_with(|char: char| char.is_ascii_digit()).then(|| version.to_owned())
}

/// The version in a file's name, behind this begin.
fn of_name(short: &str, begin: &str) -> Option<String> {
    version(short.strip_prefix(begin)?)
}

/// The part of a path behind this folder.
fn part_of(path: &str, folder: &str) -> Option<String> {
    version(path.split('/').skip_while(|part| *part != folder).nth(1)?)
}

/// JAVA_VERSION of the file `release` beside `lib/server/libjvm.so`.
fn release(path: &str) -> Option<String> {
    let home = Path::new(path).ancestors().nth(3)?;
    let text = std::fs::read_to_string(home.join("release")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version(line)
}

/// The version of a Python package, by the folder that describes it: `numpy-2.1.0.dist-info`.
fn package(path: &str, name: &str) -> Option<String> {
    let folder = Path::new(path).ancestors().find(|folder| folder.join(name).is_dir())?;
    let begin = format!("{name}-");
    std::fs::read_dir(folder).ok()?.filter_map(Result::ok).find_map(|entry| {
        let entry = entry.file_name();
        let rest = entry.to_str()?.strip_prefix(&begin)?;
        (rest.ends_with(".dist-info") || rest.ends_with(".egg-info")).then(|| version(rest))?
    })
}

/// The version in `.go.buildinfo` since Go 1.18: 32 bytes of a head, a length, and the text.
fn go_version(info: &[u8]) -> Option<String> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const INLINE: u8 = 2;
    let at = memmem::find(info, MAGIC)?;
    let head = info.get(at..at + 33)?;
    let len = usize::from(head[32] & 0x7f);
    let text = std::str::from_utf8(info.get(at + 33..at + 33 + len)?).ok()?;
    version(text.strip_prefix("go").filter(|_| head[15] & INLINE != 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(names: &[&str]) -> Vec<(String, Option<String>)> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let path = path.into_iter().find(|path| names.iter().any(|name| path.contains(name))).unwrap();
        let marks = of_file(path, &File::open(path).unwrap());
        marks.into_iter().map(|mark| (mark.name, mark.version)).collect()
    }

    #[test]
    fn the_c_library_states_its_version() {
        let marks = own(&["/libc.so", "/libc-"]);
        let [(name, version)] = marks.as_slice() else { panic!("{marks:?}") };
        assert!(
            name == "glibc" && version.as_ref().is_some_and(|version| version.starts_with("2.")),
            "{marks:?}"
        );
        assert_eq!(
            own(&["/faultless_prof"]),
            [],
            "the words of allocators in this program are no allocators"
        );
    }

    #[test]
    fn constants_tell_jemalloc_with_its_version_and_its_variable() {
        let constants = b"\0x-g12\x005.3.0-1-ge13ca993e8ccb9ba9847cc330696e02839f328f7\0_RJEM_MALLOC_CONF\0";
        let constants = Constants(constants);
        assert_eq!(constants.jemalloc().as_deref(), Some("5.3.0"));
        assert_eq!(constants.ends_with_nul("MALLOC_CONF").as_deref(), Some("_RJEM_MALLOC_CONF"));
        let unknown = Constants(b"\x000.0.0-0-g0000000000000000000000000000000000000000\0");
        assert_eq!((unknown.jemalloc(), unknown.ends_with_nul("MALLOC_CONF")), (None, None));
    }

    #[test]
    fn go_states_its_version_inline() {
        let mut info = b"\xff Go buildinf:\x08\x02".to_vec();
        info.resize(32, 0);
        info.extend(b"\x08go1.26.1\0");
        assert_eq!(go_version(&info).as_deref(), Some("1.26.1"));
        for len in 0..info.len() - 2 {
            assert_eq!(go_version(&info[..len]), None);
        }
    }

    #[test]
    fn paths_tell_versions() {
        assert_eq!(of_name("libpython3.13.so.1.0", "libpython").as_deref(), Some("3.13"));
        assert_eq!(of_name("python3", "python").as_deref(), Some("3"));
        let dotnet = "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.11/libcoreclr.so";
        assert_eq!(part_of(dotnet, "Microsoft.NETCore.App").as_deref(), Some("8.0.11"));
    }
}
