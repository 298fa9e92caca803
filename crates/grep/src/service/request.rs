//! A request as bytes: its length, then fields that end with NUL.
//!
//! ```text
//! length: u32, little endian | version NUL | folder NUL | "colour" or "" NUL | word NUL ...
//! ```

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// A process of another version may search differently.
const VERSION: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();
const COLOUR: &[u8] = b"colour";
/// Longer requests are not answered.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The current folder.
    pub(super) folder: OsString,
    /// The environment allows colour on a terminal.
    pub(super) likes_colour: bool,
    /// The words after the program's name.
    pub(super) words: Vec<OsString>,
}

impl Request {
    /// As bytes, with the length.
    pub(super) fn encode(&self) -> Vec<u8> {
        let colour = if self.likes_colour { COLOUR } else { b"" };
        let fields = [VERSION, self.folder.as_bytes(), colour].into_iter();
        let mut bytes = vec![0; 4];
        for field in fields.chain(self.words.iter().map(|word| word.as_bytes())) {
            bytes.extend_from_slice(field);
            bytes.push(0);
        }
        let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// From the bytes after the length. `None` if they are no request, or another version's.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let own = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let mut fields = bytes.strip_suffix(b"\0")?.split(|&byte| byte == 0);
        (fields.next()? == VERSION).then_some(())?;
        let folder = own(fields.next()?);
        let likes_colour = match fields.next()? {
            b"" => false,
            field => (field == COLOUR).then_some(true)?,
        };
        Some(Self { folder, likes_colour, words: fields.map(own).collect() })
    }
}
