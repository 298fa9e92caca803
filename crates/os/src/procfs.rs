//! Files below `/proc/PID`.
//!
//! In: a process id. Out: resident pages, fault counters, children. A process that is gone answers `None`.
//!
//! It does not add up a process tree (`prof`).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use crate::counters::Rusage;
use crate::descriptors;

/// `/proc/PID/statm`, kept open: reading it again costs one system call.
#[derive(Debug)]
pub struct Statm {
    file: File,
}

impl Statm {
    /// Opens it, unless descriptors are scarce.
    pub fn open(pid: u32) -> Option<Self> {
        let file = File::open(format!("{}/statm", with_memory(pid))).ok();
        file.filter(descriptors::are_left_after).map(|file| Self { file })
    }

    /// Resident anonymous memory in bytes: resident minus file and shared pages. `None` once the memory is
    /// gone.
    ///
    /// The kernel adds up its per-CPU counters in batches, so the error is some dozens of pages per
    /// processor.
    pub fn anon_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let len = self.file.read_at(&mut text, 0).ok()?;
        let mut words =
            std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace().map(str::parse::<u64>);
        let total = words.next()?.ok()?;
        let resident = words.next()?.ok()?;
        let shared = words.next()?.ok()?;
        (total > 0).then(|| resident.saturating_sub(shared) * crate::page::size() as u64)
    }
}

/// The part of `/proc/PID/stat` that is used here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `Z` ...
    pub state: u8,
    /// It is a kernel thread (`PF_KTHREAD`).
    pub of_kernel: bool,
    /// Minor faults of the process, without its children.
    pub minor_faults: u64,
    /// Major faults of the process, without its children.
    pub major_faults: u64,
    /// Minor faults of the children that it waited for.
    pub children_minor_faults: u64,
    /// Major faults of the children that it waited for.
    pub children_major_faults: u64,
    /// CPU time in user mode, ns, in steps of a clock tick.
    pub user_ns: u64,
    /// CPU time in the kernel, ns, in the same steps.
    pub system_ns: u64,
    /// The same two of the children that it waited for.
    pub children_user_ns: u64,
    /// In the kernel.
    pub children_system_ns: u64,
}

impl Stat {
    /// It has ended, and its parent has not waited for it yet. Of a process: its first thread has ([`living`]).
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Faults of the process and of the children that it waited for.
    pub fn faults(&self) -> u64 {
        let usage = self.usage();
        usage.minor_faults + usage.major_faults
    }

    /// Faults of the process alone.
    pub fn own_faults(&self) -> u64 {
        self.minor_faults + self.major_faults
    }

    /// CPU time and faults of the process and of the children that it waited for. The peak is 0: this file has none.
    pub fn usage(&self) -> Rusage {
        Rusage {
            user_ns: self.user_ns + self.children_user_ns,
            system_ns: self.system_ns + self.children_system_ns,
            minor_faults: self.minor_faults + self.children_minor_faults,
            major_faults: self.major_faults + self.children_major_faults,
            peak_rss_bytes: 0,
        }
    }
}

/// Flag of threads of the kernel (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;
/// A process or one of its threads, with name and counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its parent process.
    pub parent: u32,
    /// When it began, in clock ticks since boot. With the process id it identifies a process.
    pub began: u64,
    /// Its counters.
    pub stat: Stat,
}

/// Reads `/proc/PID/stat`, or a thread's, with the name.
pub fn running(pid: u32, tid: Option<u32>) -> Option<Running> {
    let path = match tid {
        Some(tid) => format!("/proc/{pid}/task/{tid}/stat"),
        None => format!("/proc/{pid}/stat"),
    };
    let mut text = [0; 1024]; // 52 numbers and a short name
    let len = File::open(path).ok()?.read(&mut text).ok()?;
    parse_running(&String::from_utf8_lossy(&text[..len]), tick_ns())
}

fn parse_running(text: &str, tick_ns: u64) -> Option<Running> {
    let (name, fields) = text.split_once('(')?.1.rsplit_once(')')?;
    let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3)?.parse::<u64>().ok();
    Some(Running {
        name: name.to_owned(),
        parent: field(4)? as u32,
        began: field(22)?,
        stat: parse_stat(text, tick_ns)?,
    })
}

/// All processes that /proc shows.
pub fn processes() -> Vec<u32> {
    numbers("/proc")
}

/// The threads of a process; none when it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

fn numbers(folder: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A thread of the process that still runs. The first one may end before the others; then `/proc/PID` shows no memory.
pub fn living(pid: u32) -> Option<u32> {
    let lives = |tid: &u32| running(pid, Some(*tid)).is_some_and(|found| !found.stat.has_ended());
    threads(pid).into_iter().find(lives)
}

/// The folder in which /proc shows the memory of a process.
fn with_memory(pid: u32) -> String {
    format!("/proc/{}", living(pid).unwrap_or(pid))
}

/// Whether this process can't see itself in /proc, as in a chroot without it.
#[cfg(feature = "profiler")]
pub fn is_hidden() -> bool {
    stat(std::process::id()).is_none()
}

/// What to say of that where all processes are wanted, and the remedy.
#[cfg(feature = "profiler")]
pub const HIDDEN: &str =
    "/proc is hidden, which has all processes; mount it: mount -t proc proc /proc (root)";

/// Reads `/proc/PID/stat`.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&read(&format!("/proc/{pid}/stat"))?, tick_ns())
}

/// Largest resident set that a process had so far, from `/proc/PID/status`. `None` once its memory is gone.
#[cfg(feature = "profiler")]
pub fn peak_rss_bytes(pid: u32) -> Option<u64> {
    parse_peak(&read(&format!("{}/status", with_memory(pid)))?)
}

#[cfg(feature = "profiler")]
fn parse_peak(status: &str) -> Option<u64> {
    crate::host::kib(status, "VmHWM:")
}

/// Whether a process gets huge pages where it asks for them: not after prctl(PR_SET_THP_DISABLE). `None` if the kernel does
/// not say (Linux 5.0), or the process has ended.
#[cfg(feature = "profiler")]
pub fn has_huge_pages(pid: u32) -> Option<bool> {
    let status = read(&format!("{}/status", with_memory(pid)))?;
    let word = status.lines().find_map(|line| line.strip_prefix("THP_enabled:"))?;
    Some(word.trim() != "0")
}

/// Bytes that the kernel may take (MADV_FREE), in this process's mapping at that address, from
/// `/proc/self/smaps`. `None` if nothing is mapped there, or before Linux 4.13.
pub fn lazy_free_bytes(address: usize) -> Option<usize> {
    parse_lazy_free(&read("/proc/self/smaps")?, address)
}

/// Each mapping begins with a line `BEGIN-END rights ...`, followed by lines `Name: NUMBER kB`.
fn parse_lazy_free(text: &str, address: usize) -> Option<usize> {
    let range = |line: &str| {
        let (begin, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(begin)?..number(end)?)
    };
    let mut lines =
        text.lines().skip_while(|line| !range(line).is_some_and(|range| range.contains(&address)));
    lines.next()?;
    let found =
        lines.take_while(|line| range(line).is_none()).find_map(|line| line.strip_prefix("LazyFree:"));
    let kib: usize = found?.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// Processes whose parent is `pid` at this moment (needs CONFIG_PROC_CHILDREN).
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| read(thread.path().join("children").to_str()?));
    lists.flat_map(|list| list.split_ascii_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect()
}

/// The name of a thread of `pid`.
pub fn name(pid: u32, tid: u32) -> Option<String> {
    read(&format!("/proc/{pid}/task/{tid}/comm")).map(|name| name.trim_end().to_owned())
}

/// The command line of `pid`.
pub fn command(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read(format!("{}/cmdline", with_memory(pid))).ok()?;
    let words = text.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The user that owns `pid`.
pub fn owner(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|folder| folder.uid())
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub begin: u64,
    /// Length.
    pub len_bytes: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_SHARED` or `MAP_PRIVATE`; with `MAP_ANONYMOUS` if there is no name.
    pub flags: u32,
    /// Inode of the file; 0 without a file.
    pub inode: u64,
    /// File, `[heap]`, `[stack]`; empty for anonymous memory.
    pub name: String,
}

/// The mappings of `pid`; `None` without the right to see them.
pub fn mappings(pid: u32) -> Option<Vec<Mapping>> {
    Some(read(&format!("{}/maps", with_memory(pid)))?.lines().filter_map(parse_mapping).collect())
}

/// `BEGIN-END rwxp OFFSET DEVICE INODE   NAME`.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (begin, end) = words.next()?.split_once('-')?;
    let (begin, end) = (hexadecimal(begin)?, hexadecimal(end)?);
    let rights = words.next()?;
    let right = |letter, bit| if rights.contains(letter) { bit } else { 0 };
    let prot = right('r', libc::PROT_READ) | right('w', libc::PROT_WRITE) | right('x', libc::PROT_EXEC);
    let file_offset = hexadecimal(words.next()?)?;
    let inode = words.nth(1)?.parse().ok()?;
    let name = words.next().unwrap_or_default().trim_start().to_owned();
    let flags = right('s', libc::MAP_SHARED) | right('p', libc::MAP_PRIVATE);
    let flags = if name.is_empty() { flags | libc::MAP_ANONYMOUS } else { flags };
    let len_bytes = end.checked_sub(begin)?;
    Some(Mapping { begin, len_bytes, file_offset, prot: prot as u32, flags: flags as u32, inode, name })
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The command in brackets may hold anything, so fields are counted from the last bracket: state is field 3
/// of proc(5).
fn parse_stat(text: &str, tick_ns: u64) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        of_kernel: field(9)? & PF_KTHREAD != 0,
        minor_faults: field(10)?,
        children_minor_faults: field(11)?,
        major_faults: field(12)?,
        children_major_faults: field(13)?,
        user_ns: field(14)? * tick_ns,
        system_ns: field(15)? * tick_ns,
        children_user_ns: field(16)? * tick_ns,
        children_system_ns: field(17)? * tick_ns,
    })
}

fn tick_ns() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / hertz.max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "profiler")]
    #[test]
    fn the_peak_is_read_in_kib() {
        assert_eq!(parse_peak("Name:\tsh\nVmHWM:\t    1234 kB\n"), Some(1234 << 10));
        assert_eq!(parse_peak("Name:\tkthreadd\n"), None);
        assert!(peak_rss_bytes(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
    }

    #[test]
    fn anonymous_memory_follows_what_is_touched() {
        let statm = Statm::open(std::process::id()).unwrap();
        let before = statm.anon_bytes().unwrap();
        let block = std::hint::black_box(vec![1_u8; 256 << 20]);
        let grown = statm.anon_bytes().unwrap().saturating_sub(before);
        // Other tests in this process free up to 64 MiB meanwhile.
        assert!(grown > 128 << 20, "{grown} bytes more for {}", block.len());
    }

    #[test]
    fn a_command_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1234 5 6 7 8 9 2 3 20 0 1 0 1 1 1";
        let stat = parse_stat(text, 10).unwrap();
        assert_eq!((stat.state, stat.minor_faults, stat.major_faults), (b'S', 1234, 6));
        assert_eq!((stat.user_ns, stat.system_ns), (80, 90));
        assert_eq!(
            (stat.usage().user_ns, stat.usage().system_ns),
            (100, 120),
            "with children that it waited for"
        );
        assert_eq!(parse_stat("7 (a", 10), None);
    }

    #[test]
    fn what_runs_is_named_and_its_threads_are_found() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1234 5 6 7 8 9 0 0 20 0 1 0 991 1 1";
        let found = parse_running(text, 10).unwrap();
        assert_eq!((found.name.as_str(), found.parent, found.began), ("a) b (c", 1, 991));
        assert!(!found.stat.of_kernel && found.stat.minor_faults == 1234);
        let own = std::process::id();
        assert!(processes().contains(&own) && threads(own).contains(&own));
        assert_eq!(
            running(own, Some(own)).map(|found| found.began),
            running(own, None).map(|found| found.began)
        );
    }

    #[test]
    fn what_may_be_taken_is_that_of_the_mapping_with_the_address() {
        let text = "1000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\nLazyFree: 4 kB\nVmFlags: rd wr\n\
                    3000-4000 r--p 00000000 00:00 0 [vdso]\nLazyFree: 0 kB\n5000-6000 r--p 0 0 0\nRss: 4 kB\n";
        assert_eq!(parse_lazy_free(text, 0x2fff), Some(4 << 10));
        assert_eq!(parse_lazy_free(text, 0x3000), Some(0));
        assert_eq!((parse_lazy_free(text, 0x4000), parse_lazy_free(text, 0x5000)), (None, None));
    }

    #[test]
    fn mappings_and_threads_of_this_process_are_found() {
        let here = mappings as *const () as usize as u64;
        let pid = std::process::id();
        let found = mappings(pid).unwrap();
        let code = found.iter().find(|map| (map.begin..map.begin + map.len_bytes).contains(&here)).unwrap();
        assert!(
            code.name.starts_with('/') && code.prot == (libc::PROT_READ | libc::PROT_EXEC) as u32,
            "{code:?}"
        );
        assert!(found.iter().any(|map| map.name == "[stack]"));
        let blank = parse_mapping("1000-3000 rw-s 00002000 08:01 77      /a file (deleted)").unwrap();
        assert_eq!((blank.name.as_str(), blank.file_offset, blank.inode), ("/a file (deleted)", 0x2000, 77));
        assert_eq!(parse_mapping("1000-2000 rw-p 00000000 00:00 0 ").unwrap().name, "");
        assert_eq!(parse_mapping("3000-1000 rw-p 0 0 0"), None);
        assert!(threads(pid).contains(&pid) && name(pid, pid).is_some());
        assert!(!command(pid).unwrap().is_empty() && !stat(pid).unwrap().of_kernel);
    }

    #[test]
    fn own_stat_agrees_with_getrusage() {
        let before = crate::counters::rusage(crate::counters::Who::Process).unwrap().minor_faults;
        let stat = stat(std::process::id()).unwrap();
        let after = crate::counters::rusage(crate::counters::Who::Process).unwrap().minor_faults;
        assert!((before..=after).contains(&stat.minor_faults), "{before} {} {after}", stat.minor_faults);
    }
}
