//! A file on disk -> its text.
//!
//! In: a path. Out: the text as ripgrep sees it. UTF-16 with a byte order mark becomes UTF-8, and the mark of UTF-8
//! is removed. UTF-32 with a byte order mark is decoded as well; ripgrep treats it as binary. Everything else stays
//! as it is.
//!
//! It holds one buffer of the file in memory, not the file.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use encoding_rs_io::DecodeReaderBytesBuilder;

/// A NUL byte within this prefix makes a file binary, bytes: the size of ripgrep's first buffer.
pub(crate) const BINARY_PREFIX_BYTES: usize = 64 << 10;

/// Size of the first read, bytes. Most files are shorter.
const HEAD_BYTES: usize = 16 << 10;

/// A file whose first bytes were read already, from its beginning.
type FileWithHead = std::io::Chain<Cursor<Vec<u8>>, File>;

/// Reads the text of a file.
pub(crate) type TextReader = Box<dyn Read + Send>;

/// Whether `file` is a regular file that begins with the byte order mark of UTF-32. Does not move the file's
/// position.
pub(crate) fn has_utf32_bom(file: &File) -> bool {
    let mut head = [0; 4];
    file.metadata().is_ok_and(|metadata| metadata.is_file())
        && file.read_exact_at(&mut head, 0).is_ok()
        && matches!(head, [0xff, 0xfe, 0, 0] | [0, 0, 0xfe, 0xff])
}

pub(crate) const MARK_BYTES: usize = 4;

/// Whether a file with this head begins with a byte order mark. Without one its bytes are its text.
pub(crate) fn has_mark(head: &[u8]) -> bool {
    matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0xef, 0xbb, 0xbf, ..] | [0, 0, 0xfe, 0xff, ..])
}

/// Opens the file at `path`. Fails for anything but a regular file.
pub(crate) fn open_text(path: &Path) -> std::io::Result<TextReader> {
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
        [0xff, 0xfe, 0, 0, ..] => Box::new(Utf32Decoder::new(from(head, 4), u32::from_le_bytes)),
        [0, 0, 0xfe, 0xff, ..] => Box::new(Utf32Decoder::new(from(head, 4), u32::from_be_bytes)),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Box::new(DecodeReaderBytesBuilder::new().strip_bom(true).build(from(head, 0)))
        }
        [0xef, 0xbb, 0xbf, ..] => Box::new(from(head, 3)),
        _ => Box::new(from(head, 0)),
    })
}

/// Decodes four bytes per character to UTF-8. Anything else becomes U+FFFD.
struct Utf32Decoder {
    text: FileWithHead,
    word: fn([u8; 4]) -> u32,
    raw: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
}

impl Utf32Decoder {
    fn new(text: FileWithHead, word: fn([u8; 4]) -> u32) -> Self {
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

impl Read for Utf32Decoder {
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
        open_text(file.path()).unwrap().read_to_end(&mut text).unwrap();
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
