//! The output of a program that runs many times: hashed and counted, not shown.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// How long a leftover process of the program may hold its output open.
const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// Bytes kept from the end of an output, to show if the program fails.
const TAIL_BYTES: usize = 2048;

/// The output of one run.
pub(in crate::cmd) struct Written {
    /// Hash of all bytes.
    pub(in crate::cmd) hash: u64,
    /// Hash of what is left without numbers and the blanks that align them.
    pub(in crate::cmd) words: u64,
    /// Number of bytes.
    pub(in crate::cmd) bytes: u64,
    /// The last [`TAIL_BYTES`]: all of a short output.
    pub(in crate::cmd) tail: String,
}

/// Reads one stream of one run in a thread, until it ends.
pub(in crate::cmd) struct Drain(Receiver<io::Result<Written>>);

impl Drain {
    /// The writing end for the program, and the reader.
    pub(in crate::cmd) fn open() -> io::Result<(PipeWriter, Self)> {
        let (reader, writer) = io::pipe()?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(read(reader)));
        Ok((writer, Self(receiver)))
    }

    /// The output, once every writer has closed its end. Call it after the program has ended.
    pub(in crate::cmd) fn finish(self) -> io::Result<Written> {
        self.0.recv_timeout(LEFT_BEHIND).unwrap_or_else(|error| {
            Err(io::Error::other(match error {
                RecvTimeoutError::Timeout => {
                    "the program ended but left a process running that holds its output open; a comparison needs a \
                     program that ends as a whole: keep it in the foreground, or redirect its output"
                }
                RecvTimeoutError::Disconnected => "the reader of the program's output failed",
            }))
        })
    }
}

fn read(mut reader: PipeReader) -> io::Result<Written> {
    let [mut hasher, mut words] = [DefaultHasher::new(), DefaultHasher::new()];
    let mut tail = VecDeque::with_capacity(TAIL_BYTES);
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    let mut kept = Vec::with_capacity(buffer.len());
    loop {
        let n = reader.read(&mut buffer)?;
        if n == 0 {
            let tail = String::from_utf8_lossy(tail.make_contiguous()).into_owned();
            return Ok(Written { hash: hasher.finish(), words: words.finish(), bytes, tail });
        }
        hasher.write(&buffer[..n]);
        kept.clear();
        kept.extend(buffer[..n].iter().filter(|byte| !byte.is_ascii_digit() && !b" \t.,+-".contains(byte)));
        words.write(&kept);
        bytes += n as u64;
        let recent = &buffer[n.saturating_sub(TAIL_BYTES)..n];
        tail.drain(..(tail.len() + recent.len()).saturating_sub(TAIL_BYTES));
        tail.extend(recent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn written(pieces: &[&[u8]]) -> Written {
        let (mut writer, sink) = Drain::open().unwrap();
        for piece in pieces {
            writer.write_all(piece).unwrap();
        }
        drop(writer);
        sink.finish().unwrap()
    }

    #[test]
    fn what_is_written_decides_the_hash_and_the_tail_is_bounded() {
        let long = vec![b'x'; 200_000];
        let (a, b, c) = (written(&[&long, b"end"]), written(&[&long, b"end"]), written(&[&long, b"eND"]));
        assert_eq!((a.hash, a.bytes), (b.hash, 200_003));
        assert_ne!(a.hash, c.hash);
        assert!(a.tail.len() == TAIL_BYTES && a.tail.ends_with("xend"));
        assert_eq!(written(&[]).bytes, 0);
        let (fast, slow) = (written(&[b"took   9.5 us\n"]), written(&[b"took 1", b"2 us\n"]));
        assert!(fast.words == slow.words && fast.hash != slow.hash);
        assert_ne!(fast.words, written(&[b"took 12 ms\n"]).words);
    }
}
