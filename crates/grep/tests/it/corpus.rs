//! A tree of odd files: every encoding, line end, name and length that can trip a search.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use fastrand::Rng;

/// The words of lines: common beginnings, differing case, non-ASCII letters, punctuation.
pub(crate) const WORDS: &[&str] = &[
    "foo",
    "foobar",
    "Foobar",
    "FOO",
    "fooo",
    "bar",
    "barfoo",
    "int",
    "printf",
    "print",
    "lock",
    "mutex_lock",
    "spin_lock_irq",
    "struct",
    "static",
    "return",
    "x",
    "a",
    "ab",
    "abc",
    "0x1f",
    "1234",
    "größe",
    "GRÖßE",
    "straße",
    "naïve",
    "δέλτα",
    "Δ",
    "日本語",
    "ſharp",
    "K",
    "TODO",
    "the",
    "The",
    "and",
    "->",
    "==",
    "{",
    "}",
    "();",
    "/*",
    "*/",
    "\t",
    "  ",
    "foo-bar",
    "foo.bar",
    "e-mail",
];

fn line(rng: &mut Rng) -> String {
    let words: Vec<&str> = (0..rng.usize(0..9)).map(|_| WORDS[rng.usize(..WORDS.len())]).collect();
    words.join(if rng.u8(..4) == 0 { "" } else { " " })
}

fn lines(rng: &mut Rng, count: usize, end: &str) -> String {
    (0..count).map(|_| line(rng) + end).collect()
}

/// Writes `bytes` to `path` below `root`, and creates folders.
pub(crate) fn put(root: &Path, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Writes the tree.
pub(crate) fn write(root: &Path, rng: &mut Rng) {
    put(root, ".git/HEAD", "ref: refs/heads/main\n");
    for number in 0..300 {
        let count = rng.usize(0..60);
        put(
            root,
            format!("src/{}/file{number}.{}", number % 17, ["c", "h", "rs", "txt"][number % 4]),
            lines(rng, count, "\n"),
        );
    }
    put(root, "ends/crlf.txt", lines(rng, 200, "\r\n"));
    put(root, "ends/mixed.txt", lines(rng, 50, "\n") + &lines(rng, 50, "\r\n") + &lines(rng, 50, "\r"));
    for number in 0..4 {
        put(root, format!("ends/open{number}"), lines(rng, 5, "\n") + "foo bar");
    }
    put(root, "ends/only_ends", "\n\n\n\n");
    put(root, "ends/one_end", "\n");
    for number in 0..3 {
        put(root, format!("empty/{number}"), "");
    }
    nul(root, rng);
    encodings(root, rng);
    put(root, "long/one_line", lines(rng, 30_000, " ") + "foobar at the end\n");
    put(root, "long/lines", lines(rng, 20_000, "\n"));
    put(root, "long/long_lines", (0..12).map(|_| lines(rng, 700, " ") + "\n").collect::<String>());
    names(root, rng);
    ignored(root, rng);
    symlink("../src", root.join("long/link")).unwrap();
    symlink("..", root.join("long/loop")).unwrap();
    symlink("nowhere", root.join("long/dangling")).unwrap();
    symlink("lines", root.join("long/other_name")).unwrap();
    put(root, "closed", lines(rng, 10, "\n"));
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
}

/// A NUL byte at the beginning, at the end, and near the end of ripgrep's first buffer.
fn nul(root: &Path, rng: &mut Rng) {
    for (name, count) in [("first", 0), ("early", 10), ("edge", 2_700), ("late", 6_000), ("later", 15_000)] {
        // Ripgrep looks for a byte order mark in three bytes, and for NUL bytes after their first line end.
        let text = "begin\n".to_owned() + &lines(rng, count, "\n") + "foo\0bar\n" + &lines(rng, 100, "\n");
        put(root, format!("nul/{name}"), text);
    }
}

fn encodings(root: &Path, rng: &mut Rng) {
    let text = lines(rng, 100, "\n");
    put(root, "encoding/utf8_mark", "\u{feff}".to_owned() + &text);
    let utf16: Vec<u16> = ("\u{feff}".to_owned() + &text).encode_utf16().collect();
    put(root, "encoding/utf16le", utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<_>>());
    put(root, "encoding/utf16be", utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect::<Vec<_>>());
    let latin1 = |char: char| u8::try_from(u32::from(char)).unwrap_or(b'?');
    put(root, "encoding/latin1", text.chars().map(latin1).collect::<Vec<_>>());
    let broken: Vec<u8> =
        text.bytes().map(|byte| if rng.u8(..9) == 0 { byte | 0x80 } else { byte }).collect();
    put(root, "encoding/broken", broken);
}

fn names(root: &Path, rng: &mut Rng) {
    for name in [
        "names/with space",
        "names/-dash",
        "names/größe.c",
        "names/a:1:b",
        "names/a-b",
        "names/a/b",
        "names/a.b",
    ] {
        put(root, name, lines(rng, 10, "\n"));
    }
    put(root, "names/new\nline", "foobar\n");
    put(root, Path::new("names").join(OsStr::from_bytes(b"no\xffutf8")), "foobar\n");
}

fn ignored(root: &Path, rng: &mut Rng) {
    put(root, ".gitignore", "*.log\nbuild/\n/names/a.b\n");
    put(root, "src/3/.gitignore", "*.txt\n!file3.txt\n");
    put(root, "src/4/.ignore", "*.h\n");
    put(root, "src/5/.rgignore", "file5*\n");
    for name in
        ["x.log", "src/y.log", "build/out.c", "build/deep/er.c", ".hidden", ".dir/inside", "src/.dir/.file"]
    {
        put(root, name, lines(rng, 20, "\n"));
    }
}

/// Changes some files: new text, removed, added.
pub(crate) fn change(root: &Path, rng: &mut Rng) {
    for number in (0..300).step_by(7) {
        let path = format!("src/{}/file{number}.{}", number % 17, ["c", "h", "rs", "txt"][number % 4]);
        match number % 3 {
            0 => put(root, path, lines(rng, 30, "\n")),
            1 => fs::remove_file(root.join(path)).unwrap(),
            _ => put(root, path + ".new.c", lines(rng, 30, "\n")),
        }
    }
    put(root, "nul/early", "begin\n".to_owned() + &lines(rng, 20, "\n"));
}
