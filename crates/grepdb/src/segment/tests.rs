//! Chunks -> a file -> the same chunks; and what is damaged is noticed.

use std::path::Path;

use super::*;
use crate::error::Error;
use crate::files::{FileEntry, Kind};
use crate::grams::{Finder, Gram};
use crate::text::Packer;

fn entry(path: &str, text: &str) -> FileEntry {
    FileEntry {
        path: path.into(),
        size_bytes: text.len() as u64,
        mtime_ns: 7,
        kind: Kind::Text,
        text_bytes: text.len() as u64,
        ends_open: false,
    }
}

const TEXTS: [&str; 3] = ["one\nhundred\n", "two\nthousand\n", "three\nmillion hundred\n"];

fn write(path: &Path) {
    let dictionary = b"a dictionary with hundred words".to_vec();
    let mut packer = Packer::new(&dictionary).unwrap();
    let mut writer = Writer::create(path, dictionary.clone()).unwrap();
    for (at, text) in TEXTS.iter().enumerate() {
        let mut block = Vec::new();
        packer.pack(text.as_bytes(), &mut block).unwrap();
        let packed = Packed {
            blocks: [block, Vec::new()],
            text_bytes: text.len() as u32,
            files: vec![entry(&format!("file{at}"), text)],
            grams: Finder::new().find(text.as_bytes()),
            ..Packed::default()
        };
        writer.add(packed).unwrap();
    }
    writer.finish(1).unwrap();
}

/// Everything that can be read of a segment, and that it is what was written.
fn check(path: &Path) -> crate::error::Result<()> {
    let segment = Segment::open(path)?;
    assert_eq!((segment.files(), segment.chunks()), (3, 3));
    for (at, expected) in TEXTS.iter().enumerate() {
        let len = segment.chunk(at as u32)?.text_bytes as usize;
        assert_eq!(segment.text(at as u32, 0..len, |bytes| vec![0; bytes])?.text(), expected.as_bytes());
        assert_eq!(segment.group(at as u32)?, [entry(&format!("file{at}"), expected)]);
    }
    for (group, expected) in segment.groups()?.into_iter().zip(0..3) {
        assert_eq!(group?[0].path, format!("file{expected}").as_bytes());
    }
    let mut hundred = vec![0; 3];
    segment.mark(&segment.list(Gram::of(*b"hun").unwrap())?.unwrap(), &mut hundred)?;
    assert!(hundred.iter().map(|&units| units != 0).eq([true, false, true]), "{hundred:?}");
    Ok(())
}

#[test]
fn a_segment_holds_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segment");
    write(&path);
    check(&path).unwrap();
}

#[test]
fn any_flipped_bit_is_noticed_or_harmless_and_any_missing_end_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segment");
    write(&path);
    let whole = std::fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).unwrap();
        match check(&path) {
            Ok(()) | Err(Error::Damaged { .. }) => {}
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert!(matches!(check(&path), Err(Error::Damaged { .. })), "{len} bytes");
    }
}
