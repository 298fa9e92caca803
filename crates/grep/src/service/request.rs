//! A request as bytes: its length, as four bytes with the lowest first, then its fields.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

/// A process of another version may search differently.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longer requests are not answered.
pub(super) const MOST_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) folder: OsString,
    /// The environment allows colour on a terminal.
    pub(super) likes_colour: bool,
    /// The words after the program's name.
    pub(super) words: Vec<OsString>,
}

impl Request {
    /// As bytes, with the length.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = postcard::to_extend(&(VERSION, self), vec![0; 4]).ok()?;
        let length = bytes.len() - 4;
        bytes[..4].copy_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        (length <= MOST_BYTES).then_some(bytes)
    }

    /// From the bytes after the length. `None` if they are no request, or another version's.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = postcard::take_from_bytes::<&str>(bytes).ok()?;
        (version == VERSION).then(|| postcard::from_bytes(rest).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_by_the_same_version() {
        let folder = std::os::unix::ffi::OsStringExt::from_vec(b"no\xffutf8".to_vec());
        let request = Request { folder, likes_colour: true, words: vec!["-i".into(), "".into()] };
        let mut bytes = request.encode().unwrap();
        assert_eq!(u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
        assert_eq!(Request::decode(&bytes[4..]), Some(request));
        bytes[5] ^= 1;
        assert_eq!(Request::decode(&bytes[4..]), None);
    }
}
