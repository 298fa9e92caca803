//! The environment variables, read once, before the program's `main`.
//!
//! | variable | value | default |
//! |---|---|---|
//! | `FAULTLESS_THRESHOLD` | size from which blocks come from the pool, at least 16K, or `never` | 64K |
//! | `FAULTLESS_POLICY` | `thp`, `base`, `hugetlb` or `mthp-64K` (or another size below 2M) | `thp` |
//! | `FAULTLESS_PREFAULT` | `none`, `touch`, `memset`, `map-populate`, `populate` or `ahead:SIZE-SIZE` | `none` |
//! | `FAULTLESS_PREWARM` | size of memory to make resident with the first large block | 0 |
//! | `FAULTLESS_SCRUB` | `on-get`, `on-free` or `ahead:SIZE-SIZE` | `on-get` |
//! | `FAULTLESS_RETAIN` | size of free memory that may stay resident | a quarter of the machine, at most 4G |
//! | `FAULTLESS_DECAY` | time after which unneeded memory has gone back: `200ms`, `1s` or `never` | `1s`; `10s` where a host takes freed pages |
//! | `FAULTLESS_SUMMARY` | 1: report at exit on standard error; N > 1: on descriptor N | no report |
//! | `FAULTLESS_SUMMARY_FILE` | the report goes into this file instead; `%p` in its name is the process number | none |
//! | `FAULTLESS_SUMMARY_FORMAT` | `text`, `json` or `openmetrics` | `text` |
//! | `FAULTLESS_STRICT` | 1: abort a program that frees a large block twice, or none | 0: report it and go on |
//! | `FAULTLESS_FIRST` | process that may report that `--small` has no effect; `run` sets it | none |
//! | `FAULTLESS_RECORD` | `PATH:SIZE`: blocks of at least this size are written into the journal at the path, whether from the pool or not | none |
//! | `FAULTLESS_FAIL` | `mmap:N,extend:N,madvise:N,mremap:N`: the pool's N-th and later calls fail. For tests | none |
//!
//! Sizes are bytes, or have one of the suffixes K, M, G, T (also as KiB and so on). A bad value is reported on standard error and ignored.

use std::ffi::CStr;

use faultless_os::page::{self, Order};
use faultless_pool::{Failing, Format, Page, Policy, Prefault, Retain, Scrub, process, tuning};

use crate::line::Line;
use crate::{record, summary};

/// What the user asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) threshold: usize,
    pub(crate) policy: Policy,
    /// The descriptor for the report.
    pub(crate) summary: Option<i32>,
    pub(crate) format: Format,
    /// Whether a block that is freed twice ends the program.
    pub(crate) strict: bool,
    pub(crate) failing: Failing,
}

impl Settings {
    /// The defaults; reads nothing.
    pub(crate) const fn new() -> Self {
        let retain = Retain { bytes: tuning::RETAIN_BYTES, decay_ns: Some(tuning::DECAY_NS) };
        let failing = Failing { map: 0, extend: 0, advise: 0, remap: 0 };
        let (page, prefault, scrub) = (Page::Thp, Prefault::None, Scrub::OnGet);
        let policy = Policy { page, prefault, scrub, prewarm: 0, retain };
        Self {
            threshold: tuning::THRESHOLD_BYTES,
            policy,
            summary: None,
            format: Format::Text,
            strict: false,
            failing,
        }
    }

    /// Reads the environment.
    pub(crate) fn from_environment() -> Self {
        let mut settings = Self::new();
        let (mut retain, mut age) = (None, None);
        read(c"FAULTLESS_RETAIN", c"a size", &mut retain, |text| size(text).map(Some));
        read(c"FAULTLESS_DECAY", c"a time like 200ms or 1s, or never", &mut age, |text| {
            decay(text).map(Some)
        });
        settings.policy.retain = match (retain, age) {
            (Some(bytes), Some(decay_ns)) => Retain { bytes, decay_ns },
            _ => {
                let usual = process::policy().retain;
                Retain { bytes: retain.unwrap_or(usual.bytes), decay_ns: age.unwrap_or(usual.decay_ns) }
            }
        };
        let threshold = |text: &[u8]| match text {
            b"never" => Some(usize::MAX),
            _ => size(text).filter(|&bytes| bytes >= tuning::GRANULE_BYTES),
        };
        const THRESHOLD: &CStr = c"a size of at least 16K, or never";
        read(c"FAULTLESS_THRESHOLD", THRESHOLD, &mut settings.threshold, threshold);
        let policy = &mut settings.policy;
        read(c"FAULTLESS_POLICY", c"thp, base, hugetlb or mthp-64K", &mut policy.page, page);
        const PREFAULT: &CStr = c"none, touch, memset, map-populate, populate or ahead:SIZE-SIZE";
        read(c"FAULTLESS_PREFAULT", PREFAULT, &mut policy.prefault, prefault);
        read(c"FAULTLESS_PREWARM", c"a size", &mut policy.prewarm, size);
        read(c"FAULTLESS_SCRUB", c"on-get, on-free or ahead:SIZE-SIZE", &mut policy.scrub, scrub);
        read(c"FAULTLESS_SUMMARY", c"a descriptor", &mut settings.summary, descriptor);
        read(c"FAULTLESS_SUMMARY_FILE", c"a path", &mut (), summary::file::name);
        read(c"FAULTLESS_SUMMARY_FORMAT", c"text, json or openmetrics", &mut settings.format, format);
        read(c"FAULTLESS_STRICT", c"0 or 1", &mut settings.strict, flag);
        read(c"FAULTLESS_RECORD", c"PATH:SIZE", &mut (), record::open);
        read(c"FAULTLESS_FAIL", c"a list like mmap:3", &mut settings.failing, failing);
        settings
    }
}

fn read<T>(name: &CStr, expected: &CStr, value: &mut T, parse: impl FnOnce(&[u8]) -> Option<T>) {
    // SAFETY: the name is a C string, and no other thread runs yet.
    let text = unsafe { libc::getenv(name.as_ptr()) };
    if text.is_null() {
        return;
    }
    // SAFETY: getenv returned a C string.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    match parse(text) {
        Some(parsed) => *value = parsed,
        None if text.is_empty() => {}
        None => {
            let mut line = Line::new();
            line.text(b"faultless: ").text(name.to_bytes()).text(b"=").text(text);
            line.text(b" ignored: expected ").text(expected.to_bytes()).write_to(2);
        }
    }
}

fn number(text: &[u8]) -> Option<usize> {
    let digits = |text: &[u8]| {
        text.iter().try_fold(0_usize, |value, &byte| {
            let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
            value.checked_mul(10)?.checked_add(digit as usize)
        })
    };
    if text.is_empty() { None } else { digits(text) }
}

pub(crate) fn size(text: &[u8]) -> Option<usize> {
    let text = text.strip_suffix(b"iB").or_else(|| text.strip_suffix(b"B")).unwrap_or(text);
    let shift = match text.last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => return number(text),
    };
    number(text.split_last()?.1)?.checked_mul(1 << shift)
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
        b"touch" => Some(Prefault::Touch),
        b"memset" => Some(Prefault::Memset),
        b"map-populate" => Some(Prefault::MapPopulate),
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

fn format(text: &[u8]) -> Option<Format> {
    match text {
        b"text" => Some(Format::Text),
        b"json" => Some(Format::Json),
        b"openmetrics" => Some(Format::OpenMetrics),
        _ => None,
    }
}

fn descriptor(text: &[u8]) -> Option<Option<i32>> {
    match number(text)? {
        0 => Some(None),
        1 => Some(Some(2)),
        other => i32::try_from(other).ok().map(Some),
    }
}

fn flag(text: &[u8]) -> Option<bool> {
    match text {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

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
