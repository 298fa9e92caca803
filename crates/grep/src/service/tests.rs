//! Requests as bytes, and back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proptest::collection::vec;
use proptest::prelude::*;

use super::request::Request;

fn text() -> impl Strategy<Value = OsString> {
    vec(1..=u8::MAX, 0..20).prop_map(OsString::from_vec)
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(
        folder in text(),
        likes_colour: bool,
        words in vec(text(), 0..5),
    ) {
        let request = Request { folder, likes_colour, words };
        let bytes = request.encode();
        let (length, rest) = bytes.split_at(4);
        prop_assert_eq!(u32::from_le_bytes(length.try_into().unwrap()) as usize, rest.len());
        prop_assert_eq!(Request::decode(rest), Some(request));
    }

    #[test]
    fn bytes_that_are_no_request_are_refused(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn a_damaged_request_does_no_harm(at in 0..1000_usize, byte: u8) {
        let words = vec!["-i".into(), "a b".into()];
        let mut bytes = Request { folder: "/tmp".into(), likes_colour: true, words }.encode();
        let at = 4 + at % (bytes.len() - 4);
        bytes[at] = byte;
        let _ = Request::decode(&bytes[4..]);
    }
}

#[test]
fn a_request_of_another_version_is_refused() {
    let request = Request { folder: "/".into(), likes_colour: true, words: Vec::new() };
    let mut bytes = request.encode().split_off(4);
    assert!(Request::decode(&bytes).is_some());
    bytes[0] = b'x';
    assert_eq!(Request::decode(&bytes), None);
}
