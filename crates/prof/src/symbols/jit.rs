//! Names of generated code, from the table that its runtime writes: `/tmp/perf-PID.map`.
//!
//! In: a process, and lines of `BEGIN LENGTH NAME` with both numbers in hexadecimal. Out: the function that
//! holds an address.
//!
//! Node (`--perf-basic-prof`), Python (`-X perf`) and JVM agents write it while they run. In a container it
//! lies in the container's /tmp and has the process id of the container's namespace. So it is opened while
//! the process lives.
//!
//! The format: Linux, tools/perf/Documentation/jit-interface.txt.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};

use crate::elf::open;
use crate::tuning as t;

/// The table of one process.
#[derive(Debug)]
pub(crate) struct Jit {
    pid: u32,
    /// The process that it was forked from, whose generated code it still holds.
    pub(crate) parent: Option<u32>,
    file: Option<File>,
    /// What was read last.
    pub(crate) map: JitMap,
}

impl Jit {
    pub(crate) fn new(pid: u32, parent: Option<u32>) -> Self {
        Self { pid, parent, file: None, map: JitMap::default() }
    }

    /// Opens the table if it exists by now.
    pub(crate) fn open(&mut self) {
        if self.file.is_some() {
            return;
        }
        let pid = self.pid;
        let inner = std::fs::read_to_string(format!("/proc/{pid}/status")).ok().and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
            line.split_ascii_whitespace().next_back().map(str::to_owned)
        });
        let own = inner.and_then(|inner| open(format!("/proc/{pid}/root/tmp/perf-{inner}.map")));
        self.file = own.or_else(|| open(format!("/tmp/perf-{pid}.map"))).map(|(file, _)| file);
    }

    /// Reads the current table. The open file stays readable after its process or its name is gone.
    pub(crate) fn read(&mut self) {
        self.open();
        let Some(file) = &mut self.file else { return };
        let mut bytes = Vec::new();
        let read = file.rewind().and_then(|()| file.take(t::JIT_MAP_BYTES_MAX).read_to_end(&mut bytes));
        if read.is_ok() {
            self.map = JitMap::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}

/// Generated functions by address, without overlap.
#[derive(Debug, Default)]
pub(crate) struct JitMap {
    /// End and name by begin.
    functions: BTreeMap<u64, (u64, String)>,
}

impl JitMap {
    /// Later entries replace earlier code at the same addresses.
    pub(crate) fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for line in text.lines() {
            map.add(line);
        }
        map
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let mut words = line.splitn(3, ' ');
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let begin = number(words.next()?)?;
        let end = begin.checked_add(number(words.next()?)?)?;
        let name = words.next()?.trim();
        if begin == end || name.is_empty() {
            return None;
        }
        let (cut, _) =
            self.functions.range(..begin).next_back().map_or((None, 0), |(&at, &(end, _))| (Some(at), end));
        if let Some(earlier) = cut.and_then(|at| self.functions.get_mut(&at)) {
            earlier.0 = earlier.0.min(begin);
        }
        let covered: Vec<u64> = self.functions.range(begin..end).map(|(&at, _)| at).collect();
        for at in covered {
            self.functions.remove(&at);
        }
        self.functions.insert(begin, (end, name.to_owned()));
        Some(())
    }

    /// The function that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_written_last() {
        let map = JitMap::parse(
            "1000 100 LazyCompile:*old app.js:1\n2000 80 py::main:/srv/a b.py\n10f0 20 late\n0x3000 10 hex\n",
        );
        assert_eq!(map.find(0x1000), Some("LazyCompile:*old app.js:1"));
        assert_eq!(map.find(0x10f0), Some("late"));
        assert_eq!(map.find(0x110f), Some("late"));
        assert_eq!(map.find(0x1110), None);
        assert_eq!(map.find(0x2000), Some("py::main:/srv/a b.py"));
        assert_eq!(map.find(0x300f), Some("hex"));
    }

    #[test]
    fn damaged_lines_are_left_out() {
        let map =
            JitMap::parse("zz 10 a\n1000\n1000 0 empty\n\n\u{fffd} 1 b\nffffffffffffffff 2 c\n1000 10 d");
        assert_eq!(map.find(0x1001), Some("d"));
        assert_eq!(map.functions.len(), 1);
    }
}
