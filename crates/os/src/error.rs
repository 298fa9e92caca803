//! The error of a system call.
//!
//! In: a failed call. Out: which call, which errno, for how many bytes. No allocation.

use std::fmt;

/// What a system call answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The call as `strace` writes it, without the closing bracket: `madvise(MADV_POPULATE_WRITE`.
    pub call: &'static str,
    /// The errno it left.
    pub errno: i32,
    /// The requested length in bytes, if the call has one.
    pub len_bytes: Option<usize>,
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error of the call that has just failed, from the calling thread's errno.
    pub fn last(call: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self { call, errno, len_bytes: None }
    }

    /// The same with the requested length.
    pub(crate) fn last_for(call: &'static str, len_bytes: usize) -> Self {
        Self { len_bytes: Some(len_bytes), ..Self::last(call) }
    }

    /// An error with a known errno.
    pub const fn new(call: &'static str, errno: i32) -> Self {
        Self { call, errno, len_bytes: None }
    }

    /// Whether the task is gone (ESRCH).
    pub fn is_gone(&self) -> bool {
        self.errno == libc::ESRCH
    }

    /// Whether this process is out of descriptors (EMFILE).
    pub fn is_out_of_descriptors(&self) -> bool {
        self.errno == libc::EMFILE
    }

    /// Whether the kernel refused for lack of rights (EPERM or EACCES).
    pub fn is_denied(&self) -> bool {
        self.errno == libc::EPERM || self.errno == libc::EACCES
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.errno).to_string();
        let text = text.split(" (os error").next().unwrap_or("");
        let bracket = if self.call.contains('(') { "" } else { "(" };
        match self.len_bytes {
            Some(len) => {
                let comma = if bracket.is_empty() { ", " } else { "" };
                write!(f, "{}{bracket}{comma}{}): {text}", self.call, crate::page::Bytes(len))
            }
            None => write!(f, "{}{bracket}): {text}", self.call),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::from_raw_os_error(error.errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_call_the_length_and_the_reason() {
        let error =
            Error { call: "madvise(MADV_POPULATE_WRITE", errno: libc::ENOMEM, len_bytes: Some(2 << 20) };
        assert_eq!(error.to_string(), "madvise(MADV_POPULATE_WRITE, 2 MiB): Cannot allocate memory");
        assert_eq!(Error::new("fork", libc::EAGAIN).to_string(), "fork(): Resource temporarily unavailable");
    }
}
