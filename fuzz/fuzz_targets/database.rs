//! A database of which any bytes are others, with checksums that say nothing: it is opened, checked and searched without a panic, and
//! within the memory that `-malloc_limit_mb` allows.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use faultless_grepdb::{Database, Memory, Needs, Place, Printing, Reading, Rules, Search};
use grep_printer::StandardBuilder;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use libfuzzer_sys::fuzz_target;

/// A small tree, and the files of its database as they were written.
struct Whole {
    tree: tempfile::TempDir,
    parts: Vec<(PathBuf, Vec<u8>)>,
}

static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("folder")).unwrap();
    let put = |name: &str, text: String| fs::write(tree.path().join(name), text).unwrap();
    for n in 0..9 {
        put(&format!("folder/{n}"), format!("{n} needle\nsomething else {}\n", n * n).repeat(n));
    }
    put("large", (0..15_000).map(|n| format!("line {n} of many\n")).collect());
    Database::build(tree.path(), &Rules::default(), 1, &mut |_| {}).unwrap();
    put("folder/3", "a needle later\n".into());
    Database::update(tree.path(), 1, &mut |_| {}).unwrap();
    let files = fs::read_dir(Place::of(tree.path()).folder).unwrap().map(|entry| entry.unwrap().path());
    let mut parts: Vec<_> = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    parts.sort();
    Whole { tree, parts }
});

fuzz_target!(|bytes: &[u8]| {
    let whole = &*WHOLE;
    let mut parts = whole.parts.clone();
    // Which file, where in it counted from its begin or its end, and what is there instead; or the end of the file.
    for edit in bytes.chunks_exact(5) {
        let (_, part) = &mut parts[usize::from(edit[0] >> 2) % whole.parts.len()];
        let at = usize::from(u16::from_le_bytes([edit[1], edit[2]]));
        let at = if edit[0] & 1 == 0 { at } else { part.len().saturating_sub(at) };
        match edit[0] & 2 {
            0 if edit[3] == edit[4] => part.truncate(at),
            _ => part.iter_mut().skip(at).zip(&edit[3..]).for_each(|(old, new)| *old = *new),
        }
    }
    for (path, part) in &parts {
        fs::write(path, part).unwrap();
    }
    let place = Place::of(whole.tree.path());
    let _ = Database::check(&place);
    let Ok(Some(database)) = Database::open_at(&place) else { return };
    for pattern in ["needle", "of many$"] {
        let search = Search {
            matcher: &RegexMatcherBuilder::new().line_terminator(Some(b'\n')).build(pattern).unwrap(),
            needs: Needs::of(&[pattern], Reading::default()).unwrap(),
            searcher: &SearcherBuilder::new(),
            printing: &Printing::Standard(StandardBuilder::new(), None),
            color: false,
            separator: b"",
            follows: false,
            binary: BinaryDetection::none(),
            binary_named: BinaryDetection::none(),
            every_file: false,
            sorted: true,
            within: &[],
            wanted: &|_| true,
            shown: &<[u8]>::to_vec,
            threads: &|| 1,
            memory: Memory::Malloc,
            only_whether: false,
        };
        let _ = search.run(&database, Vec::new());
    }
});
