//! Reads environment variables, before the program's `main`.
//!
//! In: a name and a parser. Out: a value. A bad value is reported on standard error and ignored.

use std::ffi::CStr;

use crate::line::Line;

/// Sets `value` to the parsed variable, if it is set and `parse` accepts it. `expected` describes good values.
pub(crate) fn read<T>(name: &CStr, expected: &CStr, value: &mut T, parse: impl FnOnce(&[u8]) -> Option<T>) {
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

/// A decimal number.
pub(crate) fn number(text: &[u8]) -> Option<usize> {
    let digits = |text: &[u8]| {
        text.iter().try_fold(0_usize, |value, &byte| {
            let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
            value.checked_mul(10)?.checked_add(digit as usize)
        })
    };
    if text.is_empty() { None } else { digits(text) }
}

/// A size in bytes, or with one of the suffixes K, M, G, T (also KiB and so on).
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
