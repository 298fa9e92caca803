//! Joins the output of several threads in the order of their tasks.
//!
//! In: a writer, and tasks numbered from 0. Out: all output of task 0, then of task 1, and so on. The next task in
//! order writes directly. The others collect their output and wait once a limit is reached. The next in order never
//! waits, so the search always ends.
//!
//! It does not format text.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The common output.
pub(crate) struct OrderedOutput<W> {
    state: Mutex<OutputState<W>>,
    turn: Condvar,
    /// Tasks write line by line, and wait for their turn with the first.
    at_once: bool,
}

struct OutputState<W> {
    out: W,
    /// Written between the output of two tasks.
    separator: Vec<u8>,
    has_written: bool,
    next: usize,
    waiting: usize,
    early: BTreeMap<usize, Vec<u8>>,
    early_bytes: usize,
    failed: Option<io::ErrorKind>,
    /// Empty buffers for reuse, and their total capacity. It is at most `most_bytes`.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    most_bytes: usize,
}

impl<W: Write> OrderedOutput<W> {
    /// Writes into `out`, with `separator` between the output of two tasks; before the first as well, if the output
    /// `follows` something. At most `most_bytes` wait for their turn. With `at_once` a task waits for its turn with the
    /// first line: a line that it kept instead could only be written with the next one.
    pub(crate) fn new(out: W, separator: &[u8], follows: bool, most_bytes: usize, at_once: bool) -> Self {
        let state = OutputState {
            out,
            separator: separator.to_vec(),
            has_written: follows,
            next: 0,
            waiting: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            failed: None,
            spare: Vec::new(),
            spare_bytes: 0,
            most_bytes,
        };
        Self { state: Mutex::new(state), turn: Condvar::new(), at_once }
    }

    /// Opens the slot of task `number`. Each slot must be opened once. Dropping it ends the task.
    pub(crate) fn slot(&self, number: usize) -> OutputSlot<'_, W> {
        let mut state = self.lock();
        let bytes = state.spare.pop().unwrap_or_default();
        state.spare_bytes -= bytes.capacity();
        OutputSlot { output: self, number, bytes, has_written: false }
    }

    /// Ends the output. Returns the writer, whether there was output, and the error of the writer.
    pub(crate) fn finish(self) -> (W, bool, Option<io::ErrorKind>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.out, state.has_written, state.failed)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// Waits until another task is next in order.
    fn wait<'s>(&'s self, mut state: MutexGuard<'s, OutputState<W>>) -> MutexGuard<'s, OutputState<W>> {
        state.waiting += 1;
        let mut state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn lock(&self) -> MutexGuard<'_, OutputState<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> OutputState<W> {
    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() && !bytes.is_empty() {
            self.failed = self.out.write_all(bytes).err().map(|error| error.kind());
        }
    }

    /// Writes the first output of a task.
    fn begin(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && self.has_written && !self.separator.is_empty() {
            let separator = std::mem::take(&mut self.separator);
            self.write(&separator);
            self.separator = separator;
        }
        self.has_written |= !bytes.is_empty();
        self.write(bytes);
    }

    /// Ends task `next`, and writes the output of tasks after it that have ended already.
    fn advance(&mut self) {
        self.next += 1;
        while let Some(bytes) = self.early.remove(&self.next) {
            self.early_bytes -= bytes.len();
            self.begin(&bytes);
            self.keep(bytes);
            self.next += 1;
        }
    }

    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare_bytes + bytes.capacity() <= self.most_bytes {
            self.spare_bytes += bytes.capacity();
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

pub(crate) struct OutputSlot<'o, W: Write> {
    output: &'o OrderedOutput<W>,
    number: usize,
    bytes: Vec<u8>,
    has_written: bool,
}

/// Bytes that a task collects before it tries to write.
const COLLECT_BYTES: usize = 256 << 10;

impl<W: Write> OutputSlot<'_, W> {
    /// The end of the output. Call [`written`](Self::written) after an addition.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes what was added to the buffer, once that is much.
    pub(crate) fn written(&mut self) -> io::Result<()> {
        if self.bytes.len() < COLLECT_BYTES {
            return Ok(());
        }
        self.take_turn();
        self.output.lock().failed.map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Waits until the task is next in order, then writes the collected bytes.
    fn take_turn(&mut self) {
        let mut state = self.output.lock();
        while state.next != self.number {
            state = self.output.wait(state);
        }
        if self.has_written {
            state.write(&self.bytes)
        } else {
            state.begin(&self.bytes)
        }
        self.has_written = true;
        self.bytes.clear();
    }
}

impl<W: Write> Write for OutputSlot<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.output.at_once && matches!(bytes, [.., b'\n' | 0]) {
            self.take_turn();
            return self.output.lock().failed.map_or(Ok(bytes.len()), |failed| Err(failed.into()));
        }
        self.written()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Drop for OutputSlot<'_, W> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut state = self.output.lock();
        // Wait for space in the buffer, or for the turn of this task.
        while !bytes.is_empty()
            && state.next != self.number
            && state.early_bytes + bytes.len() > state.most_bytes
        {
            state = self.output.wait(state);
        }
        if state.next == self.number {
            if self.has_written {
                state.write(&bytes)
            } else {
                state.begin(&bytes)
            }
            state.keep(bytes);
            state.advance();
            // notify_all is a system call even if no thread waits.
            if state.waiting > 0 {
                self.output.turn.notify_all();
            }
        } else {
            state.early_bytes += bytes.len();
            state.early.insert(self.number, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The output of `pieces` tasks with `lines` lines each, written by four threads.
    fn written(pieces: usize, lines: impl Fn(usize) -> usize + Sync, most_bytes: usize) -> Vec<u8> {
        let output = OrderedOutput::new(Vec::new(), b"", false, most_bytes, false);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= pieces {
                            break;
                        }
                        let mut slot = output.slot(number);
                        for line in 0..lines(number) {
                            writeln!(slot, "{number} {line}").unwrap();
                        }
                    }
                });
            }
        });
        output.finish().0
    }

    #[test]
    fn pieces_come_out_in_their_order_however_little_room_there_is() {
        for most_bytes in [0, 100, 1 << 20] {
            let lines = |number: usize| number * 7 % 50;
            let text = String::from_utf8(written(300, lines, most_bytes)).unwrap();
            let expected: String =
                (0..300).flat_map(|n| (0..lines(n)).map(move |line| format!("{n} {line}\n"))).collect();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_separator_stands_between_pieces_that_wrote_something() {
        let output = OrderedOutput::new(Vec::new(), b"--\n", false, 100, false);
        let (first, mut second, mut third, fourth) =
            (output.slot(0), output.slot(1), output.slot(2), output.slot(3));
        writeln!(third, "third").unwrap();
        let long = vec![b'x'; COLLECT_BYTES];
        drop((third, fourth, first));
        second.write_all(&long).unwrap();
        writeln!(second, "second").unwrap();
        drop(second);
        let text = String::from_utf8(output.finish().0).unwrap();
        assert!(text.ends_with("xsecond\n--\nthird\n") && text.starts_with('x'));
    }
}
