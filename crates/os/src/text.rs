//! Small text files of the kernel, read onto the stack: no allocation, no locks, one open, one read, one close.
//!
//! In: a path, or its parts. Out: the bytes, or nothing if the file is hidden or missing. `host` reads the
//! same kind of files with allocations.

use std::ffi::CStr;

use crate::call::call;

/// Longest path accepted; a cgroup below a few dozen slices stays far shorter.
pub(crate) const PATH_BYTES: usize = 512;

/// Reads as much of a file as fits into `buffer`.
#[inline(never)]
pub fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string, and no descriptor is inherited.
    let file = unsafe { call!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    if file < 0 {
        return None;
    }
    // SAFETY: the buffer is valid for a write of its length.
    let len = unsafe { call!(libc::SYS_read, file, buffer.as_mut_ptr(), buffer.len()) };
    // SAFETY: opened above, closed once.
    unsafe { call!(libc::SYS_close, file) };
    buffer.get(..usize::try_from(len).ok()?)
}

/// The same for a path put together from `parts`.
#[inline(never)]
pub(crate) fn read_joined<'a>(parts: &[&[u8]], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0_u8; PATH_BYTES];
    let mut used = 0;
    for part in parts {
        path.get_mut(used..)?.get_mut(..part.len())?.copy_from_slice(part);
        used += part.len();
    }
    // The last byte stays zero: a path that fills the buffer is refused.
    read(CStr::from_bytes_until_nul(&path).ok()?, buffer)
}

/// The unsigned number at the start of a text, and the rest of the text. Leading blanks are skipped.
#[inline(never)]
pub fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.trim_ascii_start();
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(len).filter(|(digits, _)| !digits.is_empty())?;
    let value = digits
        .iter()
        .try_fold(0_u64, |value, &byte| value.checked_mul(10)?.checked_add(u64::from(byte - b'0')))?;
    Some((value, rest))
}

/// A number as text, at the end of `digits`.
#[inline(never)]
pub fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
        used += 1;
        if value == 0 {
            break;
        }
    }
    digits.get(digits.len().saturating_sub(used)..).unwrap_or(&[])
}

/// The text behind `word`; `None` if it isn't there.
#[inline(never)]
pub fn after<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(word.len().max(1)).position(|window| window == word)?;
    text.get(at + word.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_digits_do_and_never_wrap() {
        assert_eq!(number(b" 12.5"), Some((12, &b".5"[..])));
        assert_eq!(number(b"18446744073709551615\n").map(|found| found.0), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert!([&b""[..], b"max\n", b"-1", b" "].iter().all(|text| number(text).is_none()));
    }

    #[test]
    fn what_follows_a_word_is_found_also_at_the_end() {
        assert_eq!(after(b"a=1 b=2", b"b="), Some(&b"2"[..]));
        assert_eq!(after(b"a=", b"a="), Some(&b""[..]));
        assert_eq!(after(b"a", b"avg"), None);
        assert_eq!(after(b"", b""), None);
    }

    #[test]
    fn a_path_too_long_for_the_stack_is_refused() {
        let mut buffer = [0; 8];
        assert_eq!(read_joined(&[&[b'a'; PATH_BYTES]], &mut buffer), None);
        assert_eq!(read_joined(&[b"/no-such", b"/file"], &mut buffer), None);
    }

    #[test]
    #[cfg(not(miri))]
    fn a_file_is_read_as_far_as_it_fits() {
        let mut buffer = [0; 4];
        assert_eq!(read(c"/proc/self/comm", &mut buffer).map(<[u8]>::len), Some(4));
        assert_eq!(read_joined(&[b"/proc/", b"self/comm"], &mut buffer).map(<[u8]>::len), Some(4));
    }
}
