//! Counters for C: as an array, by name, as text. The pool crate defines the fields.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::{self, Write};

use faultless_pool::{Field, Format, Kind};

use crate::{Handle, INVALID, OK, pool};

/// `faultless_stat`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CStat {
    name: *const c_char,
    help: *const c_char,
    value: u64,
    is_level: u32,
}

impl From<Field> for CStat {
    fn from(field: Field) -> Self {
        Self {
            name: field.name.as_ptr(),
            help: field.help.as_ptr(),
            value: field.value,
            is_level: u32::from(field.kind == Kind::Gauge),
        }
    }
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one; `to` has `room` places.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn faultless_stats(handle: *mut Handle, to: *mut CStat, room: usize) -> usize {
    // SAFETY: forwarded.
    let Some(pool) = (unsafe { pool(handle) }) else { return 0 };
    let fields = pool.stats().fields();
    let count = fields.len();
    let room = if to.is_null() { 0 } else { room };
    for (at, field) in fields.into_iter().enumerate().take(room) {
        // SAFETY: one of the caller's places.
        unsafe { to.add(at).write(field.into()) };
    }
    count
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one; `name` is null or a C string; `to` is null or a place for a number.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn faultless_stat_value(
    handle: *mut Handle,
    name: *const c_char,
    to: *mut u64,
) -> c_int {
    // SAFETY: forwarded.
    let pool = unsafe { pool(handle) };
    let Some(pool) = pool.filter(|_| !name.is_null() && !to.is_null()) else { return INVALID };
    // SAFETY: a C string, not null.
    let name = unsafe { CStr::from_ptr(name) };
    let fields = pool.stats().fields();
    let Some(field) = fields.iter().find(|field| field.name == name) else { return INVALID };
    // SAFETY: a place for a number, not null.
    unsafe { to.write(field.value) };
    OK
}

/// Writes text into the caller's buffer, cuts it there, and counts its whole length.
struct Cut {
    to: *mut u8,
    room: usize,
    len: usize,
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte is for the NUL.
        let free = self.room.saturating_sub(1).saturating_sub(self.len);
        let part = text.len().min(free);
        if part > 0 {
            // SAFETY: `len + part` is below the caller's room, so `len` is an offset inside it.
            let to = unsafe { self.to.add(self.len) };
            // SAFETY: `part` bytes fit before the caller's last one, and the text is not the caller's.
            unsafe { to.copy_from_nonoverlapping(text.as_ptr(), part) };
        }
        self.len += text.len();
        Ok(())
    }
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one; `to` has `room` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn faultless_stats_text(
    handle: *mut Handle,
    format: c_int,
    to: *mut c_char,
    room: usize,
) -> usize {
    let format = match format {
        0 => Format::Text,
        1 => Format::Json,
        2 => Format::OpenMetrics,
        _ => return 0,
    };
    // SAFETY: forwarded.
    let Some(pool) = (unsafe { pool(handle) }) else { return 0 };
    let room = if to.is_null() { 0 } else { room };
    let mut cut = Cut { to: to.cast(), room, len: 0 };
    let _ = write!(cut, "{}", pool.stats().exposed(format));
    if room > 0 {
        // SAFETY: at most the caller's last byte.
        unsafe { to.add(cut.len.min(room - 1)).write(0) };
    }
    cut.len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_long_as_the_c_compiler_makes_it() {
        // tests/abi.c prints the same size.
        assert_eq!(size_of::<CStat>(), 32);
    }
}
