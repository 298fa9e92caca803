//! Output of many threads, in the order of their work.
//!
//! In: a writer, and pieces of work numbered from 0. Out: all that was written for number 0, then for number 1, and so on. Who is not
//! next collects; what is collected is bounded, then it waits. Who is next writes at once, so nothing waits for ever.
//!
//! What it does not do: format.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The common output.
pub(crate) struct Order<W> {
    state: Mutex<State<W>>,
    turn: Condvar,
}

struct State<W> {
    out: W,
    /// Between what two pieces write.
    separator: Vec<u8>,
    has_written: bool,
    next: usize,
    /// Who waits for its turn.
    waiting: usize,
    early: BTreeMap<usize, Vec<u8>>,
    early_bytes: usize,
    failed: Option<io::ErrorKind>,
    /// Empty, for who needs room, and how much that is: no more than may wait.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    most_bytes: usize,
}

impl<W: Write> Order<W> {
    /// Writes into `out`, with `separator` between what two pieces write, and before the first if that `follows` something; no more than
    /// `most_bytes` wait for their turn.
    pub(crate) fn new(out: W, separator: &[u8], follows: bool, most_bytes: usize) -> Self {
        let state = State {
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
        Self { state: Mutex::new(state), turn: Condvar::new() }
    }

    /// Begins piece of work number `number`; each is begun once and ends with [`Piece::finish`] or its drop.
    pub(crate) fn piece(&self, number: usize) -> Piece<'_, W> {
        let mut state = self.lock();
        let bytes = state.spare.pop().unwrap_or_default();
        state.spare_bytes -= bytes.capacity();
        Piece { order: self, number, bytes, has_written: false }
    }

    /// Everything has been written: the writer, whether there is something in it, and why it would take no more.
    pub(crate) fn finish(self) -> (W, bool, Option<io::ErrorKind>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.out, state.has_written, state.failed)
    }

    /// The writer takes no more.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// Waits until another number is next.
    fn wait<'s>(&'s self, mut state: MutexGuard<'s, State<W>>) -> MutexGuard<'s, State<W>> {
        state.waiting += 1;
        let mut state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> State<W> {
    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() && !bytes.is_empty() {
            self.failed = self.out.write_all(bytes).err().map(|error| error.kind());
        }
    }

    /// Writes the first that a piece has.
    fn begin(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && self.has_written && !self.separator.is_empty() {
            let separator = std::mem::take(&mut self.separator);
            self.write(&separator);
            self.separator = separator;
        }
        self.has_written |= !bytes.is_empty();
        self.write(bytes);
    }

    /// Number `next` has ended: those that have ended before it was their turn follow.
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

/// What is written for one piece of work.
pub(crate) struct Piece<'o, W: Write> {
    order: &'o Order<W>,
    number: usize,
    bytes: Vec<u8>,
    has_written: bool,
}

/// Bytes that a piece collects before it looks whether it is its turn.
const COLLECT_BYTES: usize = 256 << 10;

impl<W: Write> Piece<'_, W> {
    /// Waits until it is its turn, and writes what it has.
    fn take_turn(&mut self) {
        let mut state = self.order.lock();
        while state.next != self.number {
            state = self.order.wait(state);
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

impl<W: Write> Write for Piece<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= COLLECT_BYTES {
            self.take_turn();
            if let Some(failed) = self.order.lock().failed {
                return Err(failed.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Drop for Piece<'_, W> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut state = self.order.lock();
        // Room for what comes early, or its turn.
        while !bytes.is_empty()
            && state.next != self.number
            && state.early_bytes + bytes.len() > state.most_bytes
        {
            state = self.order.wait(state);
        }
        if state.next == self.number {
            if self.has_written {
                state.write(&bytes)
            } else {
                state.begin(&bytes)
            }
            state.keep(bytes);
            state.advance();
            // To wake nobody is a system call, too.
            if state.waiting > 0 {
                self.order.turn.notify_all();
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

    /// `pieces` of so many lines each, by four threads.
    fn written(pieces: usize, lines: impl Fn(usize) -> usize + Sync, most_bytes: usize) -> Vec<u8> {
        let order = Order::new(Vec::new(), b"", false, most_bytes);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= pieces {
                            break;
                        }
                        let mut piece = order.piece(number);
                        for line in 0..lines(number) {
                            writeln!(piece, "{number} {line}").unwrap();
                        }
                    }
                });
            }
        });
        order.finish().0
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
    fn a_long_piece_is_written_as_it_grows() {
        let lines = |number: usize| if number.is_multiple_of(3) { 100_000 } else { 10 };
        let text = written(7, lines, 1_000);
        assert!(text.len() > 2 * COLLECT_BYTES);
        assert_eq!(text.split(|&byte| byte == b'\n').count() - 1, (0..7).map(lines).sum::<usize>());
    }

    #[test]
    fn a_separator_stands_between_pieces_that_wrote_something() {
        let order = Order::new(Vec::new(), b"--\n", false, 100);
        let (first, mut second, mut third, fourth) =
            (order.piece(0), order.piece(1), order.piece(2), order.piece(3));
        writeln!(third, "third").unwrap();
        let long = vec![b'x'; COLLECT_BYTES];
        drop((third, fourth, first));
        second.write_all(&long).unwrap();
        writeln!(second, "second").unwrap();
        drop(second);
        let text = String::from_utf8(order.finish().0).unwrap();
        assert!(text.ends_with("xsecond\n--\nthird\n") && text.starts_with('x'));
    }

    #[test]
    fn a_writer_that_fails_is_not_written_to_again() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let order = Order::new(Full, b"", false, 100);
        writeln!(order.piece(0), "x").unwrap();
        assert!(order.has_failed());
        assert_eq!(order.finish().2, Some(io::ErrorKind::StorageFull));
    }
}
