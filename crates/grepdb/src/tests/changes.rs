//! Trees that change, with files of every awkward length. The database and a plain scan find the same lines.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{PATTERNS, build, same_lines, update, write};
use crate::path::disk_path;
use crate::tuning::{CHUNK_BYTES, SUBCHUNKS};

/// The shape of a file.
#[derive(Clone, Debug)]
struct Shape {
    len: usize,
    /// Length of its lines, bytes.
    line: usize,
    /// Positions of text that a pattern matches, and the text.
    finds: Vec<(usize, &'static str)>,
    /// Its last bytes.
    end: &'static str,
    seed: u64,
}

impl Shape {
    fn text(&self) -> Vec<u8> {
        const WORDS: [&str; 8] = ["alpha ", "beta(", "gamma ", "x", "größer ", "_lock", "int ", "}"];
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let mut text = Vec::with_capacity(self.len + 16);
        let mut line = 0;
        while text.len() < self.len {
            let word = WORDS[rng.usize(..WORDS.len())];
            text.extend_from_slice(word.as_bytes());
            line += word.len();
            if line >= self.line {
                text.push(b'\n');
                line = 0;
            }
        }
        text.truncate(self.len);
        for &(at, find) in &self.finds {
            if let Some(place) = text.get_mut(at..at + find.len()) {
                place.copy_from_slice(find.as_bytes());
            }
        }
        let begin = text.len().saturating_sub(self.end.len());
        text[begin..].copy_from_slice(&self.end.as_bytes()[..self.len.min(self.end.len())]);
        text
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let len = prop_oneof![
        2 => Just(0_usize),
        6 => 1_usize..200,
        4 => 200_usize..30_000,
        // About one or two chunks, give or take a few bytes.
        3 => (1..=2_usize, -4..=4_isize).prop_map(|(chunks, more)| (chunks * CHUNK_BYTES).saturating_add_signed(more)),
        1 => 2 * CHUNK_BYTES..5 * CHUNK_BYTES / 2,
    ];
    let line = prop_oneof![4 => 1_usize..120, 1 => 5_000_usize..70_000, 1 => Just(3 * CHUNK_BYTES / 2), 1 => Just(usize::MAX)];
    let place = prop_oneof![
        3 => any::<proptest::sample::Index>().prop_map(|index| index.index(CHUNK_BYTES)),
        // Near the borders of subchunks and chunks.
        3 => (0..=2 * SUBCHUNKS, -12..=3_isize).prop_map(|(subchunk, more)| (subchunk * (CHUNK_BYTES / SUBCHUNKS)).saturating_add_signed(more)),
        2 => 0..150_usize,
    ];
    let find = proptest::sample::select(
        &[
            "needle",
            "\nneedle\n",
            "needle\nfoo_bar",
            "foo_bar",
            "Nadel",
            "nADEL",
            "zzz",
            "alpha\n  Nadel",
            "\n\n",
            "needle\0",
        ][..],
    );
    let end = proptest::sample::select(
        &["\n", "\n", "\n", "z", "needle", "needle\n", "\nneedle", "\n\n", "Nadel"][..],
    );
    (len, line, vec((place, find), 0..4), end, any::<u64>()).prop_map(|(len, line, finds, end, seed)| Shape {
        len,
        line,
        finds,
        end,
        seed,
    })
}

/// A change of the tree or the database.
#[derive(Clone, Debug)]
enum Step {
    Write(u8, Shape),
    /// Many small files in one folder.
    Many(u8, u8),
    Remove(u8),
    /// The same content with a new time.
    Touch(u8),
    Update,
    Build,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..40_u8, shape()).prop_map(|(file, shape)| Step::Write(file, shape)),
        1 => (0..4_u8, 1..150_u8).prop_map(|(folder, count)| Step::Many(folder, count)),
        2 => (0..40_u8).prop_map(Step::Remove),
        1 => (0..40_u8).prop_map(Step::Touch),
        5 => Just(Step::Update),
        1 => Just(Step::Build),
    ]
}

/// Names in a few folders whose path order differs from their byte order.
fn path(file: u8) -> Vec<u8> {
    const FOLDERS: [&str; 4] = ["", "a/", "a-b/", "a/b/c/"];
    format!("{}f{}", FOLDERS[usize::from(file % 4)], file / 4).into_bytes()
}

fn take(root: &std::path::Path, step: &Step, age: u64) {
    match step {
        Step::Write(file, shape) => write(root, &path(*file), &shape.text(), age),
        Step::Many(folder, count) => (0..*count).for_each(|n| {
            let text: &[u8] = match n % 5 {
                0 => b"",
                1 => b"needle",
                2 => b"\n",
                3 => b"foo_bar\nz",
                _ => b"needle\nfoo_bar\n",
            };
            write(root, format!("many{folder}/{n}").as_bytes(), text, age);
        }),
        Step::Remove(file) => {
            let _ = std::fs::remove_file(disk_path(root, &path(*file)));
        }
        Step::Touch(file) => {
            let at = disk_path(root, &path(*file));
            if let Ok(text) = std::fs::read(&at) {
                write(root, &path(*file), &text, age);
            }
        }
        Step::Update => {
            update(root);
        }
        Step::Build => {
            build(root);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Each case is a tree of some MB, searched a hundred times.
        cases: ProptestConfig::default().cases / 32,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_search_finds_what_a_plain_scan_finds_however_the_tree_came_about(
        before in vec(step(), 0..12), after in vec(step(), 0..40),
    ) {
        let root = tempfile::tempdir().unwrap();
        let mut age = 1_000_000;
        let mut step = |step: &Step| {
            age -= 1;
            take(root.path(), step, age);
        };
        before.iter().filter(|step| !matches!(step, Step::Update)).for_each(&mut step);
        step(&Step::Build);
        let mut patterns = PATTERNS.into_iter().cycle();
        same_lines(root.path(), patterns.by_ref().take(4));
        for one in &after {
            step(one);
            if matches!(one, Step::Update | Step::Build) {
                same_lines(root.path(), patterns.by_ref().take(4));
            }
        }
    }
}
