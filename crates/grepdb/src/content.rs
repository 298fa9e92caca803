//! A file on disk -> its text.
//!
//! In: a path. Out: text as ripgrep would see it: UTF-16 by its mark as UTF-8, a mark of UTF-8 left out, everything else as it is; and
//! UTF-32 by its mark, which ripgrep takes for binary.
//!
//! What it does not do: hold more than a buffer of it.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use encoding_rs_io::DecodeReaderBytesBuilder;

/// Bytes at the beginning in which a NUL makes a file binary: ripgrep's first buffer.
pub(crate) const BINARY_WITHIN_BYTES: usize = 64 << 10;

/// Bytes that are read at once to see the mark: most files are no longer.
const HEAD_BYTES: usize = 16 << 10;

/// A file from its begin, of which the first bytes have been read already.
type Begun = std::io::Chain<Cursor<Vec<u8>>, File>;

/// Text that is read.
pub(crate) enum Content {
    Plain(Begun),
    Decoded(Box<dyn Read + Send>),
}

/// Whether `file`, if it is a regular one, begins with a mark of UTF-32. Where it is read next stays the same.
pub(crate) fn is_utf32(file: &File) -> bool {
    let mut head = [0; 4];
    file.metadata().is_ok_and(|metadata| metadata.is_file())
        && file.read_exact_at(&mut head, 0).is_ok()
        && matches!(head, [0xff, 0xfe, 0, 0] | [0, 0, 0xfe, 0xff])
}

impl Content {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let mut file = faultless_os::file::open_regular(path)?;
        let mut head = vec![0; HEAD_BYTES];
        let mut len = 0;
        while len < 4 {
            match file.read(&mut head[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        head.truncate(len);
        let from = |head: Vec<u8>, begin: u64| {
            let mut head = Cursor::new(head);
            head.set_position(begin);
            head.chain(file)
        };
        Ok(match head[..] {
            [0xff, 0xfe, 0, 0, ..] => Self::Decoded(Box::new(Utf32::new(from(head, 4), u32::from_le_bytes))),
            [0, 0, 0xfe, 0xff, ..] => Self::Decoded(Box::new(Utf32::new(from(head, 4), u32::from_be_bytes))),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                Self::Decoded(Box::new(DecodeReaderBytesBuilder::new().strip_bom(true).build(from(head, 0))))
            }
            [0xef, 0xbb, 0xbf, ..] => Self::Plain(from(head, 3)),
            _ => Self::Plain(from(head, 0)),
        })
    }
}

impl Read for Content {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(read) => read.read(into),
            Self::Decoded(read) => read.read(into),
        }
    }
}

/// Four bytes a character, as UTF-8; what is no character becomes U+FFFD.
struct Utf32 {
    text: Begun,
    word: fn([u8; 4]) -> u32,
    raw: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
}

impl Utf32 {
    fn new(text: Begun, word: fn([u8; 4]) -> u32) -> Self {
        Self { text, word, raw: Vec::new(), ready: Vec::new(), given: 0 }
    }

    fn fill(&mut self) -> std::io::Result<()> {
        self.raw.clear();
        Read::by_ref(&mut self.text).take(16 << 10).read_to_end(&mut self.raw)?;
        self.ready.clear();
        self.given = 0;
        for word in self.raw.chunks(4) {
            let char = word.try_into().ok().and_then(|word| char::from_u32((self.word)(word)));
            let char = char.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.ready.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }
}

impl Read for Utf32 {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.given == self.ready.len() {
            self.fill()?;
        }
        let len = (self.ready.len() - self.given).min(into.len());
        into[..len].copy_from_slice(&self.ready[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut text = Vec::new();
        Content::open(file.path()).unwrap().read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn text_without_a_mark_is_left_as_it_is() {
        for bytes in [&b""[..], b"a", b"abc", b"gr\xf6\xdfer\n", b"nul \0 nul", &b"long ".repeat(100_000)] {
            assert_eq!(text(bytes), bytes);
        }
    }

    #[test]
    fn marks_are_understood() {
        let wanted = "größer 🦀\n".repeat(5_000);
        let utf16: Vec<u16> = wanted.encode_utf16().collect();
        let le: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(utf16.iter().flat_map(|w| w.to_le_bytes())).collect();
        let be: Vec<u8> =
            [0xfe, 0xff].into_iter().chain(utf16.iter().flat_map(|w| w.to_be_bytes())).collect();
        let utf32 = |bytes: fn(u32) -> [u8; 4]| -> Vec<u8> {
            std::iter::once('\u{feff}').chain(wanted.chars()).flat_map(|c| bytes(c as u32)).collect()
        };
        let utf8 = [&[0xef, 0xbb, 0xbf], wanted.as_bytes()].concat();
        for bytes in [le, be, utf32(u32::to_le_bytes), utf32(u32::to_be_bytes), utf8] {
            assert_eq!(text(&bytes), wanted.as_bytes());
        }
    }

    #[test]
    fn what_is_no_character_is_replaced() {
        assert_eq!(
            text(&[0xff, 0xfe, 0, 0, b'a', 0, 0, 0, 0, 0, 0x11, 0, 1, 2]),
            "a\u{fffd}\u{fffd}".as_bytes()
        );
    }
}
