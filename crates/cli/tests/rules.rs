//! The dependency rules of ARCHITECTURE.md, checked: who may depend on whom, who may be unsafe, who may print.
//!
//! Guards against the mistake of reaching across a layer because it compiles.

use std::fs;
use std::path::{Path, PathBuf};

/// Crate, what it may depend on of ours, files that may hold `unsafe` (`*`: all).
const RULES: &[(&str, &[&str], &[&str])] = &[
    ("os", &[], &["*"]),
    ("pool", &["os"], &["block.rs", "kernel.rs"]),
    ("preload", &["os", "pool"], &["*"]),
    ("trace", &[], &[]),
    ("prof", &["os", "trace"], &[]),
    ("report", &["trace"], &[]),
    ("cli", &["os", "pool", "prof", "report", "trace"], &[]),
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
                assert!(["os", "preload"].contains(name), "{name} depends on libc: that is for os to wrap");
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
