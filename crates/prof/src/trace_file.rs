//! The trace file while it is written.
//!
//! In: lines as they come. Out: bytes of the file. An error of the file stops the writing, not the program;
//! what was written stays.
//!
//! It does not know what a line means (`trace::file`).

use std::io::Write;

use faultless_trace::file::{Line, Writer};
use faultless_trace::recording::Header;

use crate::tuning as t;

/// Where the file goes.
pub(crate) type Out = Box<dyn Write>;

/// The file.
pub(crate) struct TraceFile {
    writer: Option<Writer<Out>>,
    max_bytes: u64,
    written_bytes: u64,
    flush_ns: u64,
    /// What went wrong with the file.
    trouble: Option<std::io::Error>,
}

impl TraceFile {
    /// Begins the file with its header. From `max_bytes` on it [is full](Self::is_full).
    pub(crate) fn new(out: Out, header: Header, max_bytes: u64) -> Self {
        let mut file = Self { writer: None, max_bytes, written_bytes: 0, flush_ns: 0, trouble: None };
        match Writer::new(out, header) {
            Ok(writer) => {
                file.written_bytes = writer.written_bytes();
                file.writer = Some(writer);
            }
            Err(error) => file.trouble = Some(error),
        }
        file
    }

    /// Adds lines.
    pub(crate) fn write(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.with(|writer| lines.into_iter().try_for_each(|line| writer.line(&line)));
    }

    /// Flushes if the last flush is long enough ago.
    pub(crate) fn flush_at(&mut self, now_ns: u64) {
        if now_ns >= self.flush_ns {
            self.flush_ns = now_ns + t::SELDOM_NS;
            self.with(Writer::flush);
        }
    }

    fn with(&mut self, write: impl FnOnce(&mut Writer<Out>) -> std::io::Result<()>) {
        let Some(writer) = &mut self.writer else { return };
        let result = write(writer);
        self.written_bytes = writer.written_bytes();
        if let Err(error) = result {
            // Nothing behind a half-written frame could be read.
            (self.trouble, self.writer) = (Some(error), None);
        }
    }

    /// Whether to stop writing single faults: the file has reached its limit, or can't be written.
    pub(crate) fn is_full(&self) -> bool {
        self.writer.is_none() || self.written_bytes >= self.max_bytes
    }

    /// Bytes of the file so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Ends the file. Returns its length, and the error if there was one.
    pub(crate) fn finish(mut self) -> (u64, Option<std::io::Error>) {
        self.with(Writer::flush);
        (self.written_bytes, self.trouble)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::rc::Rc;

    use super::*;
    use faultless_trace::observation::Level;

    /// A file on a device with little space.
    #[derive(Clone, Default)]
    struct Small(Rc<RefCell<Vec<u8>>>, usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut held = self.0.borrow_mut();
            let room = self.1 - held.len();
            held.extend(&bytes[..bytes.len().min(room)]);
            if room == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len().min(room)) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_device_ends_the_writing_and_leaves_what_was_written() {
        let device = Small(Rc::default(), 3000);
        let mut file = TraceFile::new(Box::new(device.clone()), Header::default(), u64::MAX);
        for second in 0..1000 {
            let level = Level { time_ns: second * 1_000_077_777, faults: second, anon_bytes: 1 };
            file.write([Line::Level(level)]);
            file.flush_at(second * 1_000_000_000);
        }
        assert!(file.is_full());
        let (bytes, trouble) = file.finish();
        assert!(bytes <= 3000 + 256, "{bytes}");
        assert_eq!(trouble.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        let found = faultless_trace::file::read(&device.0.borrow()).unwrap();
        assert!(found.observation.levels.len() > 10, "{:?}", found.observation.levels.len());
        assert!(!found.missing.is_empty());
    }

    #[test]
    fn a_file_at_its_limit_says_so_and_still_takes_its_end() {
        let device = Small(Rc::default(), 1 << 20);
        let mut file = TraceFile::new(Box::new(device.clone()), Header::default(), 500);
        assert!(file.is_full(), "the header alone is longer");
        file.write([Line::Footer(Box::default())]);
        assert!(file.finish().1.is_none());
        assert!(faultless_trace::file::read(&device.0.borrow()).unwrap().footer.is_some());
    }
}
