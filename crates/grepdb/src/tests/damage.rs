//! Damaged databases. A search finds the right lines or says that it can't, and an update repairs the database.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{
    Lines, PATTERNS, Pattern, assert_same, build, files, same_lines, scanned, searched, searched_in, update,
    write,
};
use crate::engine::{Database, Location};
use crate::{DamagedPart, Error};

/// A tree of some MB with large and small files, in several segments.
fn tree(root: &Path) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut age = 1_000_000;
    let mut text = |len: usize| {
        const WORDS: [&str; 9] =
            ["alpha ", "beta ", "needle\n", "foo_bar\n", "int x\n", "gamma ", "größer\n", "\n", "  Nadel\n"];
        let mut text = Vec::new();
        while text.len() < len {
            match rng.usize(..400) {
                at if at < WORDS.len() => text.extend_from_slice(WORDS[at].as_bytes()),
                _ => text.extend((0..rng.usize(1..9)).map(|_| rng.lowercase() as u8).chain([b' '])),
            }
            if text.len() % 7 == 0 {
                text.push(b'\n');
            }
        }
        text
    };
    let mut put = |path: String, text: &[u8]| {
        age -= 1;
        write(root, path.as_bytes(), text, age);
    };
    for n in 0..3 {
        put(format!("large/{n}"), &text(280_000));
    }
    for n in 0..40 {
        put(format!("small/{n}"), &text(n * 500));
    }
    build(root);
    for round in 0..3 {
        for n in 0..5 {
            put(format!("later{round}/{n}"), &text(2_000));
        }
        put(format!("small/{round}"), &text(5_000));
        fs::remove_file(root.join(format!("small/{}", 10 + round))).unwrap();
        update(root);
    }
}

/// The files of the database.
fn parts(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(Location::in_tree(root).folder).unwrap().flatten().map(|entry| entry.path());
    let mut parts: Vec<_> = entries.filter(|path| path.file_name().unwrap() != "lock").collect();
    parts.sort();
    parts
}

/// Path and bytes of the first segment.
fn first_segment(root: &Path) -> (PathBuf, Vec<u8>) {
    let path = Location::in_tree(root).folder.join("00000001.segment");
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

fn truths(root: &Path) -> Vec<(Pattern, Lines)> {
    PATTERNS.into_iter().map(|pattern| (pattern, scanned(root, pattern))).collect()
}

/// Whether the database can be searched, with `fresh` after a refresh. If so, asserts that the lines are right.
fn is_searched(root: &Path, truth: &(Pattern, Lines), fresh: bool) -> bool {
    let search = || {
        let mut database = Database::open(&Location::in_tree(root))?.expect("a database");
        if fresh {
            database.refresh(2)?;
        }
        searched_in(&database, truth.0)
    };
    match search() {
        Ok((lines, searched)) => {
            assert!(searched.trouble.iter().all(Error::is_damage), "{:?}", searched.trouble);
            assert_same(&lines, &truth.1, truth.0);
            true
        }
        Err(Error::Damaged { part: DamagedPart::Manifest | DamagedPart::Segment, .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

/// Number of damaged positions: FAULTLESS_TEST_DAMAGE, or few enough for a quick test.
fn places() -> usize {
    std::env::var("FAULTLESS_TEST_DAMAGE").ok().and_then(|places| places.parse().ok()).unwrap_or(30)
}

#[test]
fn a_search_of_a_database_with_a_damaged_byte_is_right_or_says_what_it_needs_and_an_update_mends_it() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let truths = truths(root.path());
    let whole: Vec<(PathBuf, Vec<u8>)> =
        parts(root.path()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    assert!(whole.len() >= 5, "{} files", whole.len());
    let mut rng = fastrand::Rng::with_seed(11);
    let mut tells = truths.iter().cycle();
    let (mut unsearched, mut built) = (0, 0);
    for place in 0..places() {
        let (path, bytes) = &whole[rng.usize(..whole.len())];
        // Half of them lie near either end, which holds little text.
        let at = match place % 4 {
            0 => rng.usize(..bytes.len().min(192)),
            1 => bytes.len() - 1 - rng.usize(..bytes.len() / 5),
            _ => rng.usize(..bytes.len()),
        };
        let mut damaged = bytes.clone();
        damaged[at] ^= rng.u8(1..);
        fs::write(path, &damaged).unwrap();
        let mut all = true;
        for truth in tells.by_ref().take(3) {
            all &= is_searched(root.path(), truth, place % 2 == 1);
        }
        unsearched += usize::from(!all);
        if !all || place % 10 == 0 {
            if Database::check(&Location::in_tree(root.path())).is_err()
                || Database::update(&Location::in_tree(root.path()), None, 2, &mut |_| {
                    ControlFlow::Continue(())
                })
                .is_err()
            {
                built += 1;
                build(root.path());
            }
            assert_eq!(
                Database::check(&Location::in_tree(root.path())).unwrap().len(),
                0,
                "{} byte {at}",
                path.display()
            );
            same_lines(root.path(), tells.by_ref().take(2).map(|truth| truth.0));
        }
        parts(root.path()).iter().for_each(|path| fs::remove_file(path).unwrap());
        whole.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    }
    assert!(unsearched < places() / 2 && built < places() / 3, "{unsearched} not searched, {built} built");
}

#[test]
fn files_whose_names_are_lost_are_searched_once_though_all_files_are_looked_at() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let (first, mut bytes) = first_segment(root.path());
    // The first name of a file table is stored without compression.
    let name = |path: &PathBuf| memchr::memmem::find(&bytes, path.as_os_str().as_encoded_bytes());
    let at = files(root.path()).iter().find_map(name).expect("a name");
    bytes[at] ^= 1;
    fs::write(&first, &bytes).unwrap();
    for truth in truths(root.path()) {
        assert!(is_searched(root.path(), &truth, true));
    }
}

#[test]
fn what_a_search_found_damaged_the_next_update_mends() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let (first, mut bytes) = first_segment(root.path());
    bytes[300] ^= 1;
    fs::write(&first, &bytes).unwrap();
    let (_, found) = searched(root.path(), PATTERNS[6]).unwrap();
    assert_eq!(
        found.trouble[0].to_string(),
        format!(
            "{}: chunk 0 is damaged; its files are searched in the tree; `faultless index update` makes it anew",
            first.display()
        )
    );
    assert!(Location::in_tree(root.path()).folder.join("damaged").exists());
    let updated = update(root.path());
    assert!(
        (1..=3).contains(&updated.read),
        "the file of that chunk, and its segment is worn: {}",
        updated.read
    );
    same_lines(root.path(), PATTERNS.into_iter());
    assert!(!Location::in_tree(root.path()).folder.join("damaged").exists());
}

#[test]
fn a_segment_that_is_gone_is_named_and_made_anew() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    fs::remove_file(Location::in_tree(root.path()).folder.join("00000001.segment")).unwrap();
    let error = searched(root.path(), PATTERNS[0]).unwrap_err().to_string();
    assert!(error.ends_with("the segment is damaged; `faultless index update` makes it anew"), "{error}");
    update(root.path());
    same_lines(root.path(), PATTERNS.into_iter());
}

#[test]
fn a_segment_of_another_database_is_not_taken_for_its_own() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let part = |n: u32| Location::in_tree(root.path()).folder.join(format!("{n:08}.segment"));
    fs::copy(part(2), part(1)).unwrap();
    assert!(searched(root.path(), PATTERNS[0]).unwrap_err().is_damage());
}
