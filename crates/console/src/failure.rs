//! Failures as users read them.

use std::{fmt, io};

/// A failure message in one line: what, where, and the remedy.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// An I/O error without its number. Errors known only by their kind get the same words.
pub fn reason(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::StorageFull => "No space left on device".into(),
        io::ErrorKind::QuotaExceeded => "Disk quota exceeded".into(),
        io::ErrorKind::FileTooLarge => "File too large".into(),
        _ => error.to_string(),
    };
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
