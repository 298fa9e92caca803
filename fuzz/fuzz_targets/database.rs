//! Opens, checks and searches a database with arbitrary changes. It must not panic, and must stay within the memory that
//! `-malloc_limit_mb` allows. Checksums are off.
#![no_main]

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::LazyLock;

use faultless_grepdb::Rules;
use faultless_grepdb::engine::{
    BlockSource, Database, LineMatcher, Location, OutputFormat, PatternOptions, QueryPlan, Search,
};
use grep_printer::StandardBuilder;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use libfuzzer_sys::fuzz_target;

/// A small tree, and the intact files of its database.
struct Whole {
    tree: tempfile::TempDir,
    parts: Vec<(PathBuf, Vec<u8>)>,
}

static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let tree = tempfile::tempdir().unwrap();
    let location = Location::in_tree(tree.path());
    fs::create_dir(tree.path().join("folder")).unwrap();
    let put = |name: &str, text: String| fs::write(tree.path().join(name), text).unwrap();
    for n in 0..9 {
        put(&format!("folder/{n}"), format!("{n} needle\nsomething else {}\n", n * n).repeat(n));
    }
    put("large", (0..15_000).map(|n| format!("line {n} of many\n")).collect());
    Database::build(&location, &Rules::default(), 1, &mut |_| ControlFlow::Continue(())).unwrap();
    put("folder/3", "a needle later\n".into());
    Database::update(&location, None, 1, &mut |_| ControlFlow::Continue(())).unwrap();
    let files = fs::read_dir(&location.folder).unwrap().map(|entry| entry.unwrap().path());
    let mut parts: Vec<_> = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    parts.sort();
    Whole { tree, parts }
});

fuzz_target!(|bytes: &[u8]| {
    let whole = &*WHOLE;
    let mut parts = whole.parts.clone();
    // An edit names a file, a position from its beginning or its end, and two new bytes. Equal bytes truncate the file instead.
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
    let location = Location::in_tree(whole.tree.path());
    let _ = Database::check(&location);
    let Ok(Some(database)) = Database::open(&location) else { return };
    for pattern in ["needle", "of many$"] {
        let mut builder = RegexMatcherBuilder::new();
        builder.line_terminator(Some(b'\n'));
        let search = Search {
            matcher: &LineMatcher::with_ascii(builder, &[pattern]).unwrap(),
            plan: QueryPlan::new(&[pattern], PatternOptions::default()).unwrap(),
            searcher: &SearcherBuilder::new(),
            format: &OutputFormat::Standard { builder: StandardBuilder::new(), color: false },
            separator: b"",
            follows_output: false,
            at_once: false,
            binary: BinaryDetection::none(),
            binary_named: BinaryDetection::none(),
            every_file: false,
            sorted: true,
            folders: &[],
            is_wanted: &|_| true,
            display_path: &<[u8]>::to_vec,
            threads: &|| 1,
            block_source: BlockSource::Malloc,
            first_match_only: false,
            cancel: None,
        };
        let _ = search.run(&database, None, Vec::new());
    }
});
