//! The end of the ordered output of a search: a callback that gets each match.
//!
//! In: records of matches, in order. Out: calls, up to the limit, and until the callback or the token says to stop.

use std::io::{self, ErrorKind, Write};
use std::ops::{ControlFlow, Range};

use crate::encoding::ByteReader;
use crate::search::cancel::CancellationToken;
use crate::search::print::records::{Match, next_record};

pub(super) struct MatchWriter<'a, F> {
    pub(super) found: F,
    pub(super) limit: Option<u64>,
    pub(super) cancel: &'a CancellationToken,
    pub(super) matches: u64,
    pub(super) spans: Vec<Range<usize>>,
}

impl<F: FnMut(&Match<'_>) -> ControlFlow<()>> Write for MatchWriter<'_, F> {
    /// Fails with [`ErrorKind::BrokenPipe`] to end the search. The ordered output writes whole records.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut records = ByteReader(bytes);
        while !records.0.is_empty() {
            if self.cancel.is_cancelled() || self.limit.is_some_and(|limit| self.matches >= limit) {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let found = next_record(&mut records, &mut self.spans).ok_or(ErrorKind::InvalidData)?;
            self.matches += 1;
            if (self.found)(&found).is_break() || self.limit.is_some_and(|limit| self.matches >= limit) {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
