//! Addresses of running processes -> names of functions, and the kind of memory.
//!
//! In: a process and an address. Out: the function and the module, from the process's mappings and its files'
//! symbol tables at this moment. Each name is looked up once. Mappings are read once per interval. Lookups
//! beyond the time budget wait for the next interval.
//!
//! It does not read debug information (lines, inlined functions), which takes seconds for a large
//! program.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use faultless_os::counters::now_ns;
use faultless_os::procfs::{self, Mapping};

use crate::elf::path_of;
use crate::symbols::demangled;
use crate::tuning as t;

/// A function as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Location {
    /// Its name. Without one, the file's in brackets: `[libc.so.6]` is all that it touches without a name.
    pub(super) function: String,
    /// The file's name without folders; `[jit]`, `[vdso]`; empty if nothing is mapped there any more.
    pub(super) module: String,
}

/// Names so far.
#[derive(Debug)]
pub(super) struct Names {
    symbolizer: Symbolizer,
    /// The files whose symbol tables it holds, and their length.
    files: HashSet<PathBuf>,
    file_bytes: u64,
    maps: HashMap<u32, Maps>,
    functions: HashMap<(PathBuf, u64), Option<String>>,
    /// Time for new names in an interval.
    pub(super) budget_ns: u64,
    /// End of this interval's budget.
    until_ns: u64,
}

/// The mappings of a process as last read.
#[derive(Debug, Default)]
struct Maps {
    ranges: Vec<Mapping>,
    /// They are of an earlier interval.
    stale: bool,
}

impl Names {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            symbolizer: symbolizer(),
            files: HashSet::new(),
            file_bytes: 0,
            maps: HashMap::new(),
            functions: HashMap::new(),
            budget_ns: t::LIVE_NAMES_NS,
            until_ns: 0,
        }
    }

    /// Begins a new interval. Mappings of running processes are read again when needed; the others are
    /// forgotten.
    pub(super) fn begin_interval(&mut self, runs: impl Fn(u32) -> bool) {
        if self.functions.len() > t::LIVE_NAMES_MAX {
            *self = Self { budget_ns: self.budget_ns, ..Self::new() };
        }
        if self.file_bytes > t::LIVE_FILES_BYTES_MAX {
            (self.symbolizer, self.files, self.file_bytes) = (symbolizer(), HashSet::new(), 0);
        }
        self.maps.retain(|pid, _| runs(*pid));
        self.maps.values_mut().for_each(|maps| maps.stale = true);
        self.until_ns = now_ns().saturating_add(self.budget_ns);
    }

    /// The function at `address` in process `pid`.
    pub(super) fn locate(&mut self, pid: u32, address: u64) -> Location {
        let place = |function: String, module: &str| Location { function, module: module.to_owned() };
        let Some(range) = self.range(pid, address) else { return place("[gone]".into(), "") };
        if range.inode == 0 {
            let name = if range.name.is_empty() { "[jit]" } else { &range.name };
            return place(name.to_owned(), name);
        }
        let offset = address - range.begin + range.file_offset;
        let module = range.name.rsplit('/').next().unwrap_or_default();
        let function = self.function(file_of(pid, &range), offset);
        place(function.unwrap_or_else(|| format!("[{module}]")), module)
    }

    /// Whether `address` lies in a file's mapping. Memory that is gone by now counts as anonymous.
    pub(super) fn is_file(&mut self, pid: u32, address: u64) -> bool {
        self.range(pid, address).is_some_and(|range| range.inode != 0)
    }

    fn range(&mut self, pid: u32, address: u64) -> Option<Mapping> {
        let maps = self.maps.entry(pid).or_insert_with(|| Maps { stale: true, ..Maps::default() });
        if std::mem::take(&mut maps.stale) {
            let ranges = procfs::mappings(pid).unwrap_or_default();
            // For a process that has just ended, keep the last known mappings.
            if !ranges.is_empty() {
                maps.ranges = ranges;
            }
        }
        maps.find(address).cloned()
    }

    /// The function at an offset of a file.
    fn function(&mut self, path: PathBuf, offset: u64) -> Option<String> {
        let key = (path, offset);
        if let Some(known) = self.functions.get(&key) {
            return known.clone();
        }
        if now_ns() > self.until_ns {
            return None;
        }
        if self.files.insert(key.0.clone()) {
            self.file_bytes += std::fs::metadata(&key.0).map_or(0, |file| file.len());
        }
        let elf = Elf { debug_syms: false, ..Elf::new(&key.0) };
        let found = self.symbolizer.symbolize_single(&Source::Elf(elf), Input::FileOffset(offset)).ok();
        let name = found.and_then(|found| Some(demangled(&found.as_sym()?.name)));
        self.functions.insert(key, name.clone());
        name
    }
}

fn symbolizer() -> Symbolizer {
    let builder = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false);
    builder.enable_demangling(false).build()
}

impl Maps {
    fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.ranges.partition_point(|range| range.begin <= address);
        self.ranges.get(after.checked_sub(1)?).filter(|range| address - range.begin < range.len_bytes)
    }
}

/// The path of a mapped file as we can open it: the plain one if it is the same file, else as the process
/// sees it.
fn file_of(pid: u32, range: &Mapping) -> PathBuf {
    let plain = Path::new(&range.name);
    if std::fs::metadata(plain).is_ok_and(|file| file.ino() == range.inode) {
        return plain.to_owned();
    }
    PathBuf::from(format!("/proc/{pid}/root{}", path_of(&range.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_this_process_is_named() {
        let here = a_function_of_this_process_is_named as fn() as usize as u64;
        let own = std::process::id();
        let mut names = Names::new();
        names.begin_interval(|_| true);
        let place = names.locate(own, here);
        assert!(place.function.contains("a_function_of_this_process_is_named"), "{place:?}");
        assert!(names.is_file(own, here));
        let local = 0_u8;
        assert!(!names.is_file(own, &raw const local as u64));
        assert_eq!(names.locate(own, 0x10), Location { function: "[gone]".into(), module: String::new() });
        // Symbol tables are forgotten, names are not.
        assert!(names.files.len() == 1 && names.file_bytes > 0);
        names.file_bytes = t::LIVE_FILES_BYTES_MAX + 1;
        names.begin_interval(|_| true);
        assert_eq!((names.locate(own, here), names.files.len()), (place, 0));
    }
}
