//! The dependency rules of ARCHITECTURE.md, checked: who may depend on whom, who may be unsafe, who may print; and that
//! what the documents point to is there.
//!
//! Guards against the mistake of reaching across a layer because it compiles, and against documents left behind.

use std::fs;
use std::path::{Path, PathBuf};

/// Crate, what it may depend on of ours, files that may hold `unsafe` (`*`: all).
const RULES: &[(&str, &[&str], &[&str])] = &[
    ("os", &[], &["*"]),
    ("pool", &["os"], &["allocator.rs", "block.rs", "global.rs", "kernel.rs"]),
    ("capi", &["os", "pool"], &["*"]),
    ("preload", &["os", "pool"], &["*"]),
    ("small", &[], &["*"]),
    ("trace", &[], &[]),
    ("math", &[], &["*"]),
    ("prof", &["os", "trace"], &[]),
    ("lab", &["os", "pool", "prof", "trace"], &[]),
    ("grepdb", &["os", "pool"], &[]),
    ("report", &["trace"], &[]),
    ("cli", &["grepdb", "lab", "math", "os", "pool", "prof", "report", "trace"], &[]),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name == "tests.rs") {
            continue; // unit tests that fill a file of their own
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

/// Lines of code with comments and doc comments cut off, and the unit tests at the bottom left out.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("mod tests {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_crate_has_a_rule() {
    let mut found: Vec<String> = fs::read_dir(crates())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let mut ruled: Vec<String> = RULES.iter().map(|rule| rule.0.to_owned()).collect();
    ruled.sort();
    assert_eq!(found, ruled);
}

#[test]
fn crates_depend_only_on_what_their_layer_allows() {
    for (name, allowed, _) in RULES {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or("");
        let dependencies = dependencies.split("\n[").next().unwrap();
        for line in dependencies.lines() {
            if let Some(ours) = line.strip_prefix("faultless-") {
                let ours = ours.split(['.', ' ', '=']).next().unwrap();
                assert!(allowed.contains(&ours), "{name} depends on {ours}; allowed: {allowed:?}");
            }
            if line.starts_with("libc") {
                assert!(
                    ["os", "preload", "small"].contains(name),
                    "{name} depends on libc: that is for os to wrap"
                );
            }
        }
    }
}

#[test]
fn unsafe_stays_where_it_is_allowed() {
    for (name, _, files) in RULES {
        for path in sources(&crates().join(name).join("src")) {
            let file = path.file_name().unwrap().to_str().unwrap();
            if files.contains(&"*") || files.contains(&file) {
                continue;
            }
            let code = code(&path);
            let found = code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
            assert!(!found, "unsafe in {}", path.display());
        }
    }
}

#[test]
fn only_the_command_line_prints() {
    for (name, _, _) in RULES {
        for path in sources(&crates().join(name).join("src")) {
            let code = code(&path);
            let prints = ["println!", "print!", "dbg!"].iter().any(|mac| code.contains(mac));
            assert!(*name == "cli" || !prints, "{} prints", path.display());
            assert!(!code.contains("process::exit") || *name == "cli", "{} exits", path.display());
        }
    }
}

#[test]
fn the_page_size_is_asked_and_never_written_down() {
    for (name, _, _) in RULES {
        for path in sources(&crates().join(name).join("src")) {
            let code = code(&path);
            let literal = code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| {
                let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
                digits == "4096" || word == "0x1000"
            });
            assert!(!literal, "a literal page size in {}", path.display());
        }
    }
}

#[test]
fn files_are_short_enough_to_read() {
    for (name, _, _) in RULES {
        for path in sources(&crates().join(name)) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines: split it", path.display());
        }
    }
}

/// The documents of the project, wherever they lie.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !["target", ".git", "corpus"].contains(&name) {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// What a document points to inside the tree: targets of links, and paths in backquotes that begin with a folder of
/// the project. Not what has a placeholder in it.
fn pointers(text: &str) -> Vec<&str> {
    const FOLDERS: [&str; 4] = ["crates/", "record/", "fuzz/", ".ci/"];
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let links = links.filter(|link| !link.is_empty() && !link.contains("://"));
    let quoted = text.split('`').skip(1).step_by(2).filter(|word| {
        FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains(['<', '*', '{', ' '])
    });
    links.chain(quoted).collect()
}

#[test]
fn what_the_documents_point_to_is_there() {
    assert_eq!(pointers("[a](b.md#c), [d](https://e), `record/f`, `g/h`"), ["b.md", "record/f"]);
    let root = crates().parent().unwrap().to_path_buf();
    let mut found = Vec::new();
    documents(&root, &mut found);
    assert!(found.iter().any(|path| path.ends_with("README.md")));
    for path in found {
        for to in pointers(&fs::read_to_string(&path).unwrap()) {
            let there = path.parent().unwrap().join(to).exists() || root.join(to).exists();
            assert!(there, "{} points to {to}, which does not exist", path.display());
        }
    }
}
