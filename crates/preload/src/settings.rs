//! The settings of the pool, from the environment.
//!
//! | variable | value | default |
//! |---|---|---|
//! | `FAULTLESS_THRESHOLD` | size from which blocks come from the pool, at least 16K, or `never` | 64K |
//! | `FAULTLESS_POLICY` | `thp`, `base`, `hugetlb` or `mthp-64K` (or another size below 2M) | `thp` |
//! | `FAULTLESS_PREFAULT` | `none`, `populate` or `ahead:SIZE-SIZE` | `none` |
//! | `FAULTLESS_PREWARM` | size of memory to make resident with the first large block | 0 |
//! | `FAULTLESS_SCRUB` | `on-get`, `on-free` or `ahead:SIZE-SIZE` | `on-get` |
//! | `FAULTLESS_RETAIN` | size of free memory that may stay resident | a quarter of the machine, at most 4G |
//! | `FAULTLESS_DECAY` | time after which idle memory has gone back: `200ms`, `1s` or `never` | `1s`; `10s` if a host takes freed pages |
//! | `FAULTLESS_MAPPINGS` | what mmap(2) by the program itself gets: `off`, `thp` or `recycle`, see `mappings` | `off` |
//! | `FAULTLESS_STRICT` | 1: abort a program that frees a large block twice, or none | 0: report it and continue |
//! | `FAULTLESS_SUMMARY` | 1: report at exit on standard error; N > 1: on descriptor N | no report |
//! | `FAULTLESS_SUMMARY_FILE` | the file for the report instead; `%p` in its name becomes the process number | none |
//! | `FAULTLESS_SUMMARY_FORMAT` | `text`, `json` or `openmetrics` | `text` |
//! | `FAULTLESS_RECORD` | `PATH:SIZE`: record blocks of at least this size in the journal at the path, from the pool or not | none |
//! | `FAULTLESS_FIRST` | process that may report that `--small` has no effect; `run` sets it | none |
//!
//! `summary` reads its own variables, `record` and `owner` theirs. With the feature `inject-failures`, for tests,
//! `FAULTLESS_FAIL=mmap:N,extend:N,madvise:N,mremap:N` makes the pool's N-th and later calls of these kinds fail.
//!
//! Sizes are bytes, or have one of the suffixes K, M, G, T (also KiB and so on).

use std::ffi::CStr;

use faultless_os::page::{self, Order};
#[cfg(feature = "inject-failures")]
use faultless_pool::Failing;
use faultless_pool::{Kernel, Page, Policy, Prefault, Retain, Scrub, process, tuning};

use crate::environment::{number, read, size};

/// What mappings get that the program makes for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mappings {
    /// Nothing.
    Off,
    /// Huge pages, for the large ones.
    Thp,
    /// The same, and pages that are kept from one mapping to the next.
    Recycle,
}

/// The pool's settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) threshold: usize,
    pub(crate) policy: Policy,
    pub(crate) mappings: Mappings,
    /// Whether a block that is freed twice ends the program.
    pub(crate) strict: bool,
    #[cfg(feature = "inject-failures")]
    failing: Failing,
}

impl Settings {
    /// The defaults. Reads nothing.
    const fn new() -> Self {
        let retain = Retain { bytes: tuning::RETAIN_BYTES, decay_ns: Some(tuning::DECAY_NS) };
        let (page, prefault, scrub) = (Page::Thp, Prefault::None, Scrub::OnGet);
        Self {
            threshold: tuning::THRESHOLD_BYTES,
            policy: Policy { page, prefault, scrub, prewarm: 0, retain },
            mappings: Mappings::Off,
            strict: false,
            #[cfg(feature = "inject-failures")]
            failing: Failing { map: 0, extend: 0, advise: 0, remap: 0 },
        }
    }

    /// Reads the environment.
    pub(crate) fn from_environment() -> Self {
        const THRESHOLD: &CStr = c"a size of at least 16K, or never";
        const PREFAULT: &CStr = c"none, populate or ahead:SIZE-SIZE";
        let mut settings = Self::new();
        let policy = &mut settings.policy;
        policy.retain = retain();
        read(c"FAULTLESS_THRESHOLD", THRESHOLD, &mut settings.threshold, threshold);
        read(c"FAULTLESS_POLICY", c"thp, base, hugetlb or mthp-64K", &mut policy.page, page);
        read(c"FAULTLESS_PREFAULT", PREFAULT, &mut policy.prefault, prefault);
        read(c"FAULTLESS_PREWARM", c"a size", &mut policy.prewarm, size);
        read(c"FAULTLESS_SCRUB", c"on-get, on-free or ahead:SIZE-SIZE", &mut policy.scrub, scrub);
        read(c"FAULTLESS_MAPPINGS", c"off, thp or recycle", &mut settings.mappings, mappings);
        read(c"FAULTLESS_STRICT", c"0 or 1", &mut settings.strict, flag);
        #[cfg(feature = "inject-failures")]
        read(c"FAULTLESS_FAIL", c"a list like mmap:3", &mut settings.failing, failing);
        settings
    }

    /// The pool's supplier of pages.
    pub(crate) fn kernel(&self) -> Kernel {
        #[cfg(feature = "inject-failures")]
        return Kernel::failing(self.failing);
        #[cfg(not(feature = "inject-failures"))]
        Kernel::default()
    }
}

/// The bound and the decay time. The machine is asked only for the values that the environment lacks.
fn retain() -> Retain {
    let (mut bytes, mut age) = (None, None);
    read(c"FAULTLESS_RETAIN", c"a size", &mut bytes, |text| size(text).map(Some));
    read(c"FAULTLESS_DECAY", c"a time like 200ms or 1s, or never", &mut age, |text| decay(text).map(Some));
    if let (Some(bytes), Some(decay_ns)) = (bytes, age) {
        return Retain { bytes, decay_ns };
    }
    let usual = process::policy().retain;
    Retain { bytes: bytes.unwrap_or(usual.bytes), decay_ns: age.unwrap_or(usual.decay_ns) }
}

fn threshold(text: &[u8]) -> Option<usize> {
    match text {
        b"never" => Some(usize::MAX),
        _ => size(text).filter(|&bytes| bytes >= tuning::GRANULE_BYTES),
    }
}

fn page(text: &[u8]) -> Option<Page> {
    match text {
        b"thp" => Some(Page::Thp),
        b"base" => Some(Page::Base),
        b"hugetlb" => Some(Page::Hugetlb),
        _ => {
            let pages = size(text.strip_prefix(b"mthp-")?)?.checked_div(page::size())?;
            let is_between = pages > 1
                && pages.is_power_of_two()
                && pages < tuning::SLAB_BYTES.checked_div(page::size())?;
            is_between.then_some(Page::Mthp(Order(pages.trailing_zeros() as u8)))
        }
    }
}

fn prefault(text: &[u8]) -> Option<Prefault> {
    match text {
        b"none" => Some(Prefault::None),
        b"populate" => Some(Prefault::Populate),
        _ => marks(text.strip_prefix(b"ahead:")?).map(|(low, high)| Prefault::Ahead { low, high }),
    }
}

fn scrub(text: &[u8]) -> Option<Scrub> {
    match text {
        b"on-get" => Some(Scrub::OnGet),
        b"on-free" => Some(Scrub::OnFree),
        _ => marks(text.strip_prefix(b"ahead:")?).map(|(start, stop)| Scrub::Ahead { start, stop }),
    }
}

/// Two sizes, the first at most the second.
fn marks(text: &[u8]) -> Option<(usize, usize)> {
    let dash = text.iter().position(|&byte| byte == b'-')?;
    let (low, high) = text.split_at_checked(dash)?;
    let marks = (size(low)?, size(high.get(1..)?)?);
    (marks.0 <= marks.1).then_some(marks)
}

fn decay(text: &[u8]) -> Option<Option<u64>> {
    const MS: u64 = 1_000_000;
    if text == b"never" {
        return Some(None);
    }
    let (digits, unit_ns) = match text.strip_suffix(b"ms") {
        Some(digits) => (digits, MS),
        None => (text.strip_suffix(b"s")?, 1000 * MS),
    };
    (number(digits)? as u64).checked_mul(unit_ns).map(Some)
}

fn mappings(text: &[u8]) -> Option<Mappings> {
    match text {
        b"off" => Some(Mappings::Off),
        b"thp" => Some(Mappings::Thp),
        b"recycle" => Some(Mappings::Recycle),
        _ => None,
    }
}

fn flag(text: &[u8]) -> Option<bool> {
    match text {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

#[cfg(feature = "inject-failures")]
fn failing(text: &[u8]) -> Option<Failing> {
    let mut failing = Failing::default();
    for item in text.split(|&byte| byte == b',') {
        let colon = item.iter().position(|&byte| byte == b':')?;
        let (call, count) = item.split_at_checked(colon)?;
        let count = number(count.get(1..)?)? as u32;
        match call {
            b"mmap" => failing.map = count,
            b"extend" => failing.extend = count,
            b"madvise" => failing.advise = count,
            b"mremap" => failing.remap = count,
            _ => return None,
        }
    }
    Some(failing)
}
