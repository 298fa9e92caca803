//! Lines that are longer than a chunk: nothing in them is missed, and the index still answers for them.

use super::{PATTERNS, Pattern, build, same_lines, searched, searched_as, searched_in, write};
use crate::engine::{Database, Location, OutputFormat, PlainFormat};
use crate::tuning::CHUNK_BYTES;

/// Text of a piece of a large file.
const PIECE: usize = CHUNK_BYTES - 1;

/// A line of `len` bytes with `words`, each at a place.
fn line(len: usize, words: &[(usize, &str)]) -> Vec<u8> {
    let mut line = vec![b'-'; len];
    for (at, word) in words {
        line[*at..][..word.len()].copy_from_slice(word.as_bytes());
    }
    line.push(b'\n');
    line
}

#[test]
fn words_are_found_wherever_a_long_line_is_cut() {
    let root = tempfile::tempdir().unwrap();
    for shift in 0..8 {
        let words = [(PIECE + 1 - shift, "needle"), (3 * PIECE - shift, "foo_bar"), (4 * PIECE, "alpha")];
        let text = line(9 * PIECE / 2, &words);
        write(root.path(), format!("{shift}").as_bytes(), &text, 100);
        let around = [&b"Nadel\n\nneedle\n"[..], &text, b"alpha\nneedle\nfoo_bar\nalpha Nadel\n"].concat();
        let around = [&around[..], &around, b"needle"].concat();
        write(root.path(), format!("around/{shift}").as_bytes(), &around, 100);
        // The chunk before it is full of short lines.
        let behind =
            [&b"short\n".repeat(PIECE / 3)[..], &text, &b"short\n".repeat(PIECE / 3), &text].concat();
        write(root.path(), format!("behind/{shift}").as_bytes(), &behind, 100);
    }
    write(root.path(), b"marked", &[&b"\xef\xbb\xbfq\n"[..], &line(PIECE, &[(9, "Nadel")])].concat(), 100);
    write(root.path(), b"exact", &line(2 * PIECE - 1, &[(PIECE - 2, "zz")]), 100);
    write(root.path(), b"open", &line(2 * PIECE, &[(PIECE - 2, "zz")])[..2 * PIECE], 100);
    build(root.path());
    assert!(Database::check(&Location::in_tree(root.path())).unwrap().is_empty());
    same_lines(root.path(), PATTERNS.into_iter());
}

#[test]
fn the_index_answers_for_long_lines() {
    let root = tempfile::tempdir().unwrap();
    let words = [(0, "needle"), (2 * PIECE, "alpha"), (5 * PIECE, "foo_bar")];
    write(root.path(), b"long", &line(6 * PIECE, &words), 100);
    write(root.path(), b"other", &[line(3 * PIECE, &[]), b"needle\n".repeat(9)].concat(), 100);
    build(root.path());
    let chunks = |text, multi_line| {
        let pattern = Pattern { text, ignore_case: false, multi_line };
        same_lines(root.path(), [pattern].into_iter());
        let (lines, searched) = searched(root.path(), pattern).unwrap();
        (lines.len(), searched.chunks, searched.of_chunks)
    };
    for multi_line in [false, true] {
        assert_eq!(chunks("nowhere", multi_line), (0, 0, 11));
        assert_eq!(chunks("needle", multi_line), (2, 11, 11));
        assert_eq!(chunks("needle.*foo_bar", multi_line), (1, 7, 11), "parts of one line");
        assert_eq!(chunks("needle.*nowhere", multi_line), (0, 0, 11));
    }
}

#[test]
fn the_begin_of_a_line_tells_only_what_the_rest_can_not_undo() {
    let root = tempfile::tempdir().unwrap();
    let begins = ["needle", "needlé", "fooneedles", "need\nneedle"];
    for (number, begin) in begins.into_iter().enumerate() {
        // At both ends of the line, and around the end of its first chunk.
        let places = [0, 10 * PIECE - begin.len(), PIECE - begin.len(), PIECE - 3, PIECE + 1];
        for (place, at) in places.into_iter().enumerate() {
            let text = line(10 * PIECE, &[(at, begin)]);
            write(root.path(), format!("{number}/{place}").as_bytes(), &text, 100);
        }
    }
    write(root.path(), b"short", b"needle-\n", 100);
    build(root.path());
    let database = Database::open(&Location::in_tree(root.path())).unwrap().unwrap();
    let paths = OutputFormat::Plain(PlainFormat::Path);
    let searched = |text| {
        let pattern = Pattern { text, ignore_case: false, multi_line: false };
        let (lines, all) = searched_in(&database, pattern).unwrap();
        let (found, few) = searched_as(&database, pattern, &paths, None).unwrap();
        assert!(found.keys().eq(lines.keys()), "{text}: {:?} {:?}", found.keys(), lines.keys());
        assert!(!found.is_empty() && few.trouble.is_empty(), "{text}");
        (few.text_bytes, all.text_bytes)
    };
    for text in
        ["needle", r"\bneedle\b", r"needle\B", "needle$", "^needle", "n.*e", "dle.*", r"dl\w", "-$", "é"]
    {
        searched(text);
    }
    let (few, all) = searched("-");
    assert!(few * 5 < all, "{few} of {all} bytes");
}

#[test]
fn a_file_in_utf_16_is_not_taken_for_its_text_though_both_have_the_same_size() {
    let root = tempfile::tempdir().unwrap();
    // In each part as many characters of three bytes as of one, and two more for the mark.
    let text = format!("\u{feff}€€{}{}needle\n", "€€a\n".repeat(CHUNK_BYTES / 6), "€".repeat(7));
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(bytes.len(), text.len() - "\u{feff}".len());
    write(root.path(), b"file", &bytes, 100);
    build(root.path());
    let (lines, searched) = searched(root.path(), PATTERNS[0]).unwrap();
    assert_eq!((lines["file"].len(), searched.of_chunks), (1, 2));
    assert!(lines["file"][0].ends_with("€€needle"), "{lines:?}");
}
