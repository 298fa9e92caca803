//! Whether the machine, or this process's control group, is short of memory or processors; cheap enough to
//! ask often.
//!
//! In: nothing. Out: numbers, or `None` where the kernel doesn't tell (PSI needs Linux 4.20 and can be off;
//! containers hide files). It allocates nothing: texts are read onto the stack. A query takes a few
//! microseconds.
//!
//! It does not know thresholds: its callers decide how much is too much.
//!
//! Sources: Documentation/accounting/psi.rst, Documentation/admin-guide/cgroup-v2.rst of Linux; proc_loadavg(5).

use crate::schedule;
use crate::text::{self, after, number};

/// Share of the last 10 s in which some task waited, in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting(pub u32);

/// A control group near its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Bytes charged now, without the page cache, which fills a group up to its limit and is reclaimable.
    pub current_bytes: u64,
    /// `memory.high`, or `memory.max` if that is less; in version 1 `memory.limit_in_bytes`.
    pub limit_bytes: u64,
}

/// Largest PSI file: two lines of at most 90 bytes.
const PSI_BYTES: usize = 256;
/// The start of `memory.stat`; the second line has the page cache.
const STAT_BYTES: usize = 128;
/// The start of `/proc/meminfo`; the third line has MemAvailable.
const MEMINFO_BYTES: usize = 256;
const CGROUPS: &[u8] = b"/sys/fs/cgroup";

/// The files in which a cgroup version reports charges.
struct Files {
    root: &'static [u8],
    limits: [&'static [u8]; 2],
    current: &'static [u8],
    /// The page cache in `memory.stat`.
    cache: &'static [u8],
}

const V2: Files = Files {
    root: CGROUPS,
    limits: [b"/memory.high", b"/memory.max"],
    current: b"/memory.current",
    cache: b"file ",
};
/// Documentation/admin-guide/cgroup-v1/memory.rst.
const V1: Files = Files {
    root: b"/sys/fs/cgroup/memory",
    limits: [b"/memory.limit_in_bytes", b"/memory.limit_in_bytes"],
    current: b"/memory.usage_in_bytes",
    cache: b"cache ",
};

/// How much tasks waited for memory, machine-wide.
pub fn memory() -> Option<Waiting> {
    some_avg10(text::read(c"/proc/pressure/memory", &mut [0; PSI_BYTES])?)
}

/// How much tasks waited for a processor, machine-wide.
pub fn cpu() -> Option<Waiting> {
    some_avg10(text::read(c"/proc/pressure/cpu", &mut [0; PSI_BYTES])?)
}

/// How much the tasks of this control group (v2) waited for memory.
pub fn group_memory() -> Option<Waiting> {
    let mut buffer = [0; text::PATH_BYTES];
    let path = v2_path(text::read(c"/proc/self/cgroup", &mut buffer)?)?;
    some_avg10(text::read_joined(&[CGROUPS, path, b"/memory.pressure"], &mut [0; PSI_BYTES])?)
}

/// The tightest limit of this control group and its ancestors; `None` without a limit.
pub fn group() -> Option<Group> {
    let mut buffer = [0; text::PATH_BYTES];
    let text = text::read(c"/proc/self/cgroup", &mut buffer)?;
    let found = v2_path(text).and_then(|path| nearest(&V2, path));
    found.or_else(|| nearest(&V1, v1_path(text)?))
}

fn nearest(files: &Files, mut path: &[u8]) -> Option<Group> {
    let mut nearest: Option<Group> = None;
    loop {
        let found = level(files, path);
        nearest = nearest.into_iter().chain(found).min_by_key(|group| group.left_bytes());
        let Some(end) = path.iter().rposition(|&byte| byte == b'/').filter(|_| !path.is_empty()) else {
            return nearest;
        };
        path = path.get(..end)?;
    }
}

/// The memory available without swapping, by the kernel's estimate: MemAvailable, Linux 3.14.
pub fn available_bytes() -> Option<u64> {
    available(text::read(c"/proc/meminfo", &mut [0; MEMINFO_BYTES])?)
}

/// How many processors that this process may use are idle, judged by the number of running tasks (the caller
/// is one). In a container that number may be the host's, so the answer errs towards none.
pub fn idle_cpus() -> Option<usize> {
    let running = running(text::read(c"/proc/loadavg", &mut [0; PSI_BYTES])?)?;
    Some(usable_cpus()?.saturating_sub(running.saturating_sub(1)))
}

impl Group {
    /// What may still be charged.
    pub fn left_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.current_bytes)
    }
}

/// One group's charge and limit.
fn level(files: &Files, path: &[u8]) -> Option<Group> {
    let value = |name: &[u8]| {
        let mut buffer = [0; 32];
        Some(number(text::read_joined(&[files.root, path, name], &mut buffer)?)?.0)
    };
    let limit_bytes = files.limits.iter().filter_map(|name| value(name)).min()?;
    let mut buffer = [0; STAT_BYTES];
    let stat = text::read_joined(&[files.root, path, b"/memory.stat"], &mut buffer)?;
    let cache = cache_bytes(stat, files.cache)?;
    Some(Group { current_bytes: value(files.current)?.saturating_sub(cache), limit_bytes })
}

/// The page cache in `memory.stat`, in the line of that name.
fn cache_bytes(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    Some(number(line)?.0)
}

/// `MemAvailable:   123 kB` to bytes.
fn available(text: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"MemAvailable:"))?;
    number(line)?.0.checked_mul(1 << 10)
}

/// Processors that this process may run on.
fn usable_cpus() -> Option<usize> {
    let set = schedule::allowed()?;
    // SAFETY: it only counts the set's bits.
    Some(unsafe { libc::CPU_COUNT(&set) } as usize)
}

/// `some avg10=1.50 avg60=...` to 150.
fn some_avg10(text: &[u8]) -> Option<Waiting> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"some "))?;
    let (whole, rest) = number(after(line, b" avg10=")?)?;
    let mut decimals = rest.strip_prefix(b".").unwrap_or(b"").iter().take_while(|byte| byte.is_ascii_digit());
    let mut digit = || decimals.next().map_or(0, |byte| u32::from(byte - b'0'));
    let hundredths = digit() * 10 + digit();
    Some(Waiting(u32::try_from(whole).ok()?.checked_mul(100)?.checked_add(hundredths)?))
}

/// The path in the line `0::/path` of `/proc/self/cgroup`, without a trailing slash: empty for the root.
fn v2_path(text: &[u8]) -> Option<&[u8]> {
    let path = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"0::"))?;
    Some(path.strip_suffix(b"/").unwrap_or(path)).filter(|path| path.is_empty() || path.starts_with(b"/"))
}

/// The path in a line `4:memory:/path`, in the same form.
fn v1_path(text: &[u8]) -> Option<&[u8]> {
    let path = text.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':').skip(1);
        let is_memory = fields.next()?.split(|&byte| byte == b',').any(|name| name == b"memory");
        fields.next().filter(|_| is_memory)
    })?;
    Some(path.strip_suffix(b"/").unwrap_or(path)).filter(|path| path.is_empty() || path.starts_with(b"/"))
}

/// The running tasks in `0.20 0.18 0.12 1/80 11206`.
fn running(text: &[u8]) -> Option<usize> {
    let field = text.split(|&byte| byte == b' ').nth(3)?;
    let (count, rest) = number(field)?;
    rest.starts_with(b"/").then_some(usize::try_from(count).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn psi_is_read_in_hundredths() {
        let text =
            b"some avg10=1.50 avg60=0.10 avg300=0.00 total=77\nfull avg10=9.00 avg60=0 avg300=0 total=1\n";
        assert_eq!(some_avg10(text), Some(Waiting(150)));
        assert_eq!(some_avg10(b"some avg10=100.00 avg60=0"), Some(Waiting(10_000)));
        assert_eq!(some_avg10(b"some avg10=7"), Some(Waiting(700)));
        assert_eq!(some_avg10(b"some avg10=7.3"), Some(Waiting(730)));
        assert_eq!(some_avg10(b"full avg10=7.30\n"), None);
        assert_eq!(some_avg10(b"some avg10=99999999999.00"), None);
    }

    #[test]
    fn the_v2_line_is_found_among_those_of_v1() {
        assert_eq!(v2_path(b"12:memory:/a\n0::/user.slice/x\n"), Some(&b"/user.slice/x"[..]));
        assert_eq!(v2_path(b"0::/\n"), Some(&b""[..]));
        assert_eq!(v2_path(b"12:memory:/a\n"), None);
        assert_eq!(v2_path(b"0::relative\n"), None);
        assert_eq!(v1_path(b"12:cpu,memory:/a/b\n0::/x\n"), Some(&b"/a/b"[..]));
        assert_eq!(v1_path(b"3:memory:/\n"), Some(&b""[..]));
        assert_eq!(v1_path(b"3:cpu:/memory\n0::/\n"), None);
        assert_eq!(v1_path(b"memory\n3\n:\n"), None);
    }

    #[test]
    fn the_page_cache_is_a_line_of_its_own() {
        assert_eq!(cache_bytes(b"anon 12\nfile 34567\nkernel 8\n", V2.cache), Some(34567));
        assert_eq!(cache_bytes(b"anon 12\nfile_mapped 3\n", V2.cache), None);
        assert_eq!(cache_bytes(b"cache 12\nrss 3\n", V1.cache), Some(12));
    }

    #[test]
    fn available_memory_is_in_kilobytes() {
        let text = b"MemTotal: 9 kB\nMemFree: 8 kB\nMemAvailable:   24074856 kB\n";
        assert_eq!(available(text), Some(24_074_856 << 10));
        assert_eq!(available(b"MemTotal: 9 kB\n"), None);
        #[cfg(not(miri))]
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn running_tasks_stand_before_the_slash() {
        assert_eq!(running(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running(b"0.20 0.18 0.12 3 11206\n"), None);
        assert_eq!(running(b"0.20"), None);
    }

    #[test]
    #[cfg(not(miri))]
    fn the_answers_of_this_machine_make_sense() {
        for (file, waiting) in [("memory", memory()), ("cpu", cpu())] {
            match std::fs::read(format!("/proc/pressure/{file}")) {
                Ok(_) => assert!(waiting.is_some_and(|waiting| waiting.0 <= 10_000), "{file}"),
                Err(error) => faultless_wants::missing_feature("PSI", error),
            }
        }
        assert!(group_memory().is_none_or(|waiting| waiting.0 <= 10_000));
        assert!(group().is_none_or(|group| group.limit_bytes > 0));
        assert!(idle_cpus().is_some_and(|idle| idle <= usable_cpus().unwrap()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_a_parser_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (some_avg10(&text), v2_path(&text), v1_path(&text), running(&text), cache_bytes(&text, V1.cache));
        }
    }
}
