//! Errors of opening a pool. Requests that fail later return `None` and count in [`Stats`](crate::Stats).

use std::fmt;

/// Why a pool could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    Os(faultless_os::Error),
    /// The base page is larger than a granule, so a granule could not be purged alone.
    PageTooLarge {
        /// The machine's base page in bytes.
        page_bytes: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Os(error) => error.fmt(f),
            Self::PageTooLarge { page_bytes } => {
                write!(f, "base pages of {page_bytes} bytes are larger than the pool's granules")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<faultless_os::Error> for Error {
    fn from(error: faultless_os::Error) -> Self {
        Self::Os(error)
    }
}
