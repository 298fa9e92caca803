//! Chunks survive the way through a file, and damage is noticed.

use std::path::Path;

use super::*;
use crate::encoding::checksum;
use crate::error::Error;
use crate::index::trigram::{Trigram, TrigramExtractor};
use crate::store::compression::Compressor;
use crate::store::file_entry::FileEntry;

fn entry(path: &str, text: &str) -> FileEntry {
    FileEntry {
        path: path.into(),
        size_bytes: text.len() as u64,
        mtime_ns: 7,
        text_bytes: text.len() as u64,
        ..FileEntry::default()
    }
}

const TEXTS: [&str; 3] = ["one\nhundred\n", "two\nthousand\n", "three\nmillion hundred\n"];

fn write(path: &Path) {
    let dictionary = b"a dictionary with hundred words".to_vec();
    let mut compressor = Compressor::new(&dictionary).unwrap();
    let mut writer = SegmentWriter::create(path, dictionary.clone()).unwrap();
    for (at, text) in TEXTS.iter().enumerate() {
        let mut block = Vec::new();
        compressor.compress(text.as_bytes(), &mut block).unwrap();
        let packed = PackedChunk {
            blocks: [block, Vec::new()],
            text_bytes: text.len() as u32,
            content: ChunkContent::Files(vec![entry(&format!("file{at}"), text)]),
            trigrams: TrigramExtractor::new().extract(text.as_bytes()),
        };
        writer.add(packed).unwrap();
    }
    writer.finish(1).unwrap();
}

/// Reads everything in a segment, and compares it with what was written.
fn check(path: &Path) -> crate::error::Result<()> {
    let segment = Segment::open(path)?;
    assert_eq!((segment.files(), segment.chunks()), (3, 3));
    for (at, expected) in TEXTS.iter().enumerate() {
        let len = segment.chunk_meta(at as u32)?.text_bytes as usize;
        assert_eq!(segment.text(at as u32, 0..len, |bytes| vec![0; bytes])?.text(), expected.as_bytes());
        assert_eq!(segment.files_of_chunk(at as u32)?, [entry(&format!("file{at}"), expected)]);
    }
    for (entries, expected) in segment.files_by_chunk()?.into_iter().zip(0..3) {
        assert_eq!(entries?[0].path, format!("file{expected}").as_bytes());
    }
    let mut hundred = vec![0; 3];
    segment.mark(&segment.posting_list(Trigram::of(*b"hun").unwrap())?.unwrap(), &mut hundred)?;
    assert!(hundred.iter().map(|&mask| mask != 0).eq([true, false, true]), "{hundred:?}");
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

#[test]
fn another_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segment");
    write(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    let (body, crc) = bytes[..header::HEADER_BYTES].split_last_chunk_mut::<4>().unwrap();
    *crc = checksum(body).to_le_bytes();
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(check(&path), Err(Error::Version { found: 9, .. })));
}
