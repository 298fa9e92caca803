//! Checks the dependency rules of ARCHITECTURE.md: dependencies between crates and between modules, unsafe code,
//! printing. Also checks that links and paths in the documents exist.
//!
//! Guards against dependencies that bypass a layer because they compile, and against outdated documents.

use std::fs;
use std::path::{Path, PathBuf};

/// A row of the table of dependencies in ARCHITECTURE.md.
struct Rule {
    name: String,
    /// Our crates that it may depend on.
    depends_on: Vec<String>,
    may_use_libc: bool,
    /// Files and folders that may hold `unsafe`; `all` for every file.
    unsafe_in: Vec<String>,
    /// Files and folders that may print; `yes` for every file.
    prints: Vec<String>,
}

/// The rules of the table.
fn rules() -> Vec<Rule> {
    let text = fs::read_to_string(crates().parent().unwrap().join("ARCHITECTURE.md")).unwrap();
    let table = text.split("| crate | may depend on |").nth(1).expect("the table of dependencies");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let words = |cell: &str| -> Vec<String> {
        let words = cell.split_whitespace().map(|word| word.trim_matches('`').to_owned());
        words.filter(|word| word != "-" && word != "no").collect()
    };
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, depends_on, libc, unsafe_in, _, prints] = cells[..] else { panic!("six cells: {row}") };
        Rule {
            name: name.trim_matches('`').to_owned(),
            depends_on: words(depends_on),
            may_use_libc: libc == "yes",
            unsafe_in: words(unsafe_in),
            prints: words(prints),
        }
    })
    .collect()
}

/// Whether a cell names this file.
fn is_in(path: &Path, named: &[String]) -> bool {
    named.iter().any(|named| match named.strip_suffix('/') {
        Some(folder) => path.components().any(|part| part.as_os_str() == folder),
        None => {
            named == "all" || named == "yes" || path.file_name().is_some_and(|name| name == named.as_str())
        }
    })
}

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

/// Lines of code without comments and without the unit tests at the bottom.
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
    let mut ruled: Vec<String> = rules().into_iter().map(|rule| rule.name).collect();
    ruled.sort();
    assert_eq!(found, ruled);
}

#[test]
fn crates_depend_only_on_what_their_layer_allows() {
    for Rule { name, depends_on, may_use_libc, .. } in rules() {
        let manifest = fs::read_to_string(crates().join(&name).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or("");
        let dependencies = dependencies.split("\n[").next().unwrap();
        for line in dependencies.lines() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap();
            if let Some(ours) = dependency.strip_prefix("faultless-") {
                assert!(
                    depends_on.iter().any(|allowed| allowed == ours),
                    "{name} depends on {ours}; allowed: {depends_on:?}"
                );
            }
            assert!(dependency != "libc" || may_use_libc, "{name} depends on libc: that is for os to wrap");
        }
    }
}

#[test]
fn unsafe_stays_where_it_is_allowed() {
    for Rule { name, unsafe_in, .. } in rules() {
        for path in
            sources(&crates().join(&name).join("src")).into_iter().filter(|path| !is_in(path, &unsafe_in))
        {
            let code = code(&path);
            let found = code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
            assert!(!found, "unsafe in {}", path.display());
        }
    }
}

#[test]
fn only_programs_print() {
    for Rule { name, prints, .. } in rules() {
        for path in
            sources(&crates().join(&name).join("src")).into_iter().filter(|path| !is_in(path, &prints))
        {
            let code = code(&path);
            let said =
                ["println!", "print!", "dbg!", "process::exit"].into_iter().find(|word| code.contains(word));
            assert_eq!(said, None, "{}", path.display());
        }
    }
}

#[test]
fn the_page_size_is_asked_and_never_written_down() {
    for Rule { name, .. } in rules() {
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
    for Rule { name, .. } in rules() {
        for path in sources(&crates().join(name)) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines: split it", path.display());
        }
    }
}

/// The paths of a `use` tree without white space: `a::{b, c::{d, e}}` -> `a::b`, `a::c::d`, `a::c::e`.
fn use_paths(tree: &str, paths: &mut Vec<String>) {
    let Some((before, rest)) = tree.split_once('{') else {
        paths.push(tree.to_owned());
        return;
    };
    let rest = rest.strip_suffix('}').expect("braces in pairs");
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in rest.char_indices().chain([(rest.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 && begin < at => use_paths(&format!("{before}{}", &rest[begin..at]), paths),
            _ => {}
        }
        if c == ',' && depth == 0 {
            begin = at + 1;
        }
    }
}

/// The paths that begin with `crate` or `super`.
fn paths_in(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let visible = line.trim_start();
        let item =
            visible.strip_prefix("pub").and_then(|rest| Some(rest.split_once(' ')?.1)).unwrap_or(visible);
        if let Some(first) = item.strip_prefix("use ") {
            let mut tree = first.to_owned();
            while !tree.ends_with(';') {
                tree.push_str(lines.next().expect("a statement ends"));
            }
            use_paths(&tree.trim_end_matches(';').split_whitespace().collect::<String>(), &mut paths);
        }
    }
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    paths.extend(words.map(|word| word.trim_matches(':').to_owned()));
    paths.retain(|path| path.starts_with("crate::") || path.starts_with("super::"));
    paths
}

/// Imports between modules with the same parent, as (module, imported module). What lies below a module counts as
/// part of it.
fn imports_between_siblings(files: &[(Vec<String>, String)]) -> Vec<(String, String)> {
    let mut imports = Vec::new();
    for (module, code) in files {
        for path in paths_in(code) {
            let mut words = path.split("::").peekable();
            let mut to = if words.next_if_eq(&"crate").is_some() { Vec::new() } else { module.clone() };
            while words.next_if_eq(&"super").is_some() {
                to.pop();
            }
            to.extend(words.map(str::to_owned));
            while !files.iter().any(|(module, _)| *module == to) {
                to.pop(); // an item of the module
            }
            let shared = to.iter().zip(module).take_while(|(to, module)| to == module).count();
            if shared < to.len().min(module.len()) {
                imports.push((module[..=shared].join("::"), to[..=shared].join("::")));
            }
        }
    }
    imports.sort();
    imports.dedup();
    imports
}

/// The modules that import themselves by way of others.
fn in_a_circle(imports: &[(String, String)]) -> Vec<&str> {
    let reached = |from: &str| {
        let mut reached: Vec<&str> = Vec::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for (_, to) in imports.iter().filter(|(from, _)| from == module) {
                if !reached.contains(&to.as_str()) {
                    reached.push(to);
                    next.push(to);
                }
            }
        }
        reached
    };
    let mut circle: Vec<&str> = imports.iter().map(|import| import.0.as_str()).collect();
    circle.dedup();
    circle.retain(|module| reached(module).contains(module));
    circle
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let file = |module: &str, code: &str| {
        (module.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect(), code.to_owned())
    };
    let made_up = [
        file("", "mod a; mod b; mod c;"),
        file("a", "use crate::{b::Item, c};"),
        file("a::d", "use super::super::b;"),
        file("b", "fn f() -> crate::c::Item {}"),
        file("c", ""),
    ];
    assert_eq!(in_a_circle(&imports_between_siblings(&made_up)), [""; 0]);
    let mut circular = made_up.to_vec();
    circular[4].1 = "use crate::a::d::Other;".to_owned();
    assert_eq!(in_a_circle(&imports_between_siblings(&circular)), ["a", "b", "c"]);

    for Rule { name, .. } in rules() {
        let src = crates().join(&name).join("src");
        let program = |path: &PathBuf| path.strip_prefix(&src).unwrap().starts_with("bin");
        let files: Vec<(Vec<String>, String)> = sources(&src)
            .into_iter()
            .filter(|path| !program(path))
            .map(|path| {
                let module = path.strip_prefix(&src).unwrap().with_extension("");
                let words = module.iter().map(|word| word.to_str().unwrap().to_owned());
                (words.filter(|word| !["lib", "main", "mod"].contains(&word.as_str())).collect(), code(&path))
            })
            .collect();
        let imports = imports_between_siblings(&files);
        assert_eq!(in_a_circle(&imports), [""; 0], "{name}: of {imports:?}");
    }
}

/// The documents of the project.
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

/// The targets in a document: its links, and its backquoted paths that begin with a folder of the project.
/// Paths with a placeholder are skipped.
fn pointers(text: &str) -> Vec<&str> {
    const FOLDERS: [&str; 6] = ["crates/", "record/", "bench/", "fuzz/", "kernel/", ".ci/"];
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
