//! The environment variables, read once, before the program's `main`.
//!
//! | variable | value | default |
//! |---|---|---|
//! | `FAULTLESS_THRESHOLD` | size from which blocks come from the pool, at least 16K | 64K |
//! | `FAULTLESS_POLICY` | `thp` or `base` | `thp` |
//! | `FAULTLESS_PREFAULT` | `none` or `populate` | `none` |
//! | `FAULTLESS_RETAIN` | size of free memory that may stay resident | a quarter of the machine, at most 4G |
//! | `FAULTLESS_SUMMARY` | 1: report at exit on standard error; N > 1: on descriptor N | no report |
//! | `FAULTLESS_FAIL` | `mmap:N,mprotect:N,madvise:N,mremap:N`: the pool's N-th and later calls fail. For tests | none |
//!
//! Sizes are bytes, or have one of the suffixes K, M, G, T (also as KiB and so on). A bad value is reported on standard error and ignored.

use std::ffi::CStr;

use faultless_pool::{Failing, Page, Policy, Prefault, Retain, tuning};

use crate::line::Line;

/// Bytes from which a block comes from the pool: glibc maps blocks from 128 KiB on by itself, and the waste of whole
/// granules is 20 % at 64 KiB. Source: issue 2, facts/allocators.md.
const THRESHOLD_BYTES: usize = 64 << 10;

/// What the user asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) threshold: usize,
    pub(crate) policy: Policy,
    /// The descriptor for the report.
    pub(crate) summary: Option<i32>,
    pub(crate) failing: Failing,
}

impl Settings {
    /// The defaults; reads nothing.
    pub(crate) const fn new() -> Self {
        let retain = Retain { bytes: tuning::RETAIN_BYTES };
        let failing = Failing { map: 0, protect: 0, advise: 0, remap: 0 };
        let policy = Policy { page: Page::Thp, prefault: Prefault::None, retain };
        Self { threshold: THRESHOLD_BYTES, policy, summary: None, failing }
    }

    /// Reads the environment.
    pub(crate) fn from_environment() -> Self {
        let mut settings = Self::new();
        let mut retain = None;
        read(c"FAULTLESS_RETAIN", c"a size", &mut retain, |text| size(text).map(Some));
        settings.policy.retain.bytes = retain.unwrap_or_else(default_retain);
        let threshold = |text: &[u8]| size(text).filter(|&bytes| bytes >= tuning::GRANULE_BYTES);
        read(c"FAULTLESS_THRESHOLD", c"a size of at least 16K", &mut settings.threshold, threshold);
        read(c"FAULTLESS_POLICY", c"thp or base", &mut settings.policy.page, page);
        read(c"FAULTLESS_PREFAULT", c"none or populate", &mut settings.policy.prefault, prefault);
        read(c"FAULTLESS_SUMMARY", c"a descriptor", &mut settings.summary, descriptor);
        read(c"FAULTLESS_FAIL", c"a list like mmap:3", &mut settings.failing, failing);
        settings
    }
}

fn default_retain() -> usize {
    let quarter = faultless_os::map::memory_bytes().map_or(usize::MAX, |bytes| bytes / tuning::RETAIN_SHARE);
    quarter.min(tuning::RETAIN_BYTES)
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
        None => Line::new()
            .text(b"faultless: ")
            .text(name.to_bytes())
            .text(b"=")
            .text(text)
            .text(b" ignored: expected ")
            .text(expected.to_bytes())
            .write_to(2),
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

fn size(text: &[u8]) -> Option<usize> {
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
        _ => None,
    }
}

fn prefault(text: &[u8]) -> Option<Prefault> {
    match text {
        b"none" => Some(Prefault::None),
        b"populate" => Some(Prefault::Populate),
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

fn failing(text: &[u8]) -> Option<Failing> {
    let mut failing = Failing::default();
    for item in text.split(|&byte| byte == b',') {
        let colon = item.iter().position(|&byte| byte == b':')?;
        let (call, count) = item.split_at_checked(colon)?;
        let count = number(count.get(1..)?)? as u32;
        match call {
            b"mmap" => failing.map = count,
            b"mprotect" => failing.protect = count,
            b"madvise" => failing.advise = count,
            b"mremap" => failing.remap = count,
            _ => return None,
        }
    }
    Some(failing)
}
