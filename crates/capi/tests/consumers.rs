//! The C and C++ interface as users get it: installed by `install.sh`, then programs are compiled, linked and run.
//!
//! Guards against: a header that differs from the library, arguments that crash instead of being refused, and build files
//! that only work in the source tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use faultless_pool::tuning;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the installed interface; built once, with the profile of the tests.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let mut install = Command::new(here().join("install.sh"));
        run(install.arg(&folder).arg("dev").env("CARGO", env!("CARGO")));
        folder
    })
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    output
}

/// Whether a tool is installed; if not, the test skips.
#[track_caller]
fn has(tool: &str) -> bool {
    let package = match tool {
        "cc" => "gcc",
        "c++" => "g++",
        "nm" => "binutils",
        tool => tool,
    };
    faultless_wants::program(tool, package)
}

/// pkg-config's answer about the installation.
fn flags(options: &[&str]) -> Vec<String> {
    let output = run(Command::new("pkg-config")
        .args(options)
        .arg("faultless")
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Compiles a source with strict warnings and runs it. Returns its output.
fn compiled_and_run(compiler: &str, standard: &str, source: &Path, link: &[String]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    run(Command::new(compiler)
        .args([standard, "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags(&["--cflags"]))
        .args(link));
    // Nothing tells the loader where the library is but what pkg-config said.
    let output = run(Command::new(&program).env_remove("LD_LIBRARY_PATH"));
    String::from_utf8(output.stdout).unwrap()
}

fn shared() -> Vec<String> {
    flags(&["--libs"])
}

fn fixed() -> Vec<String> {
    let mut link = vec![prefix().join("lib/libfaultless.a").display().to_string()];
    link.extend(flags(&["--libs", "--static"]).into_iter().filter(|flag| flag != "-lfaultless"));
    link
}

#[test]
fn every_function_answers_right_and_wrong_arguments() {
    if !has("cc") || !has("pkg-config") {
        return;
    }
    let source = here().join("tests/abi.c");
    let expected = format!("policy 80 stat 32 version {}\n", env!("CARGO_PKG_VERSION"));
    let whole = [vec!["-static".to_owned()], flags(&["--libs", "--static"])].concat();
    for (standard, link) in [("-std=c99", shared()), ("-std=c11", fixed()), ("-std=c11", whole)] {
        assert_eq!(compiled_and_run("cc", standard, &source, &link), expected);
    }
}

#[test]
fn containers_work_in_every_standard_of_cpp() {
    if !has("c++") || !has("pkg-config") {
        return;
    }
    for standard in ["-std=c++11", "-std=c++20"] {
        let source = here().join("tests/abi.cpp");
        assert_eq!(compiled_and_run("c++", standard, &source, &shared()), "ok\n");
    }
}

#[test]
fn the_examples_run_and_their_faults_are_gone() {
    if !has("cc") || !has("c++") || !has("pkg-config") {
        return;
    }
    let source = here().join("examples/temporaries.c");
    let printed = compiled_and_run("cc", "-std=c99", &source, &shared());
    let pool = printed.lines().find_map(|line| line.strip_prefix("pool:")).unwrap();
    let faults: u64 = pool.split_whitespace().next().unwrap().parse().unwrap();
    // Two blocks of 160 pages, and tables. Each round that faulted would add 320.
    assert!(faults < 1000, "{printed}");
    let source = here().join("examples/containers.cpp");
    assert!(compiled_and_run("c++", "-std=c++17", &source, &shared()).starts_with("sum "));
}

/// The example in the header's first comment, without the comment's stars.
fn example_in(header: &str) -> String {
    let lines = header.lines().map(|line| line.strip_prefix(" *").unwrap_or(line));
    let from_include = lines.skip_while(|line| !line.trim_start().starts_with("#include"));
    let example: Vec<_> = from_include.take_while(|line| !line.contains("$(")).collect();
    example.join("\n")
}

/// The programs in a document, of one language.
fn programs_in(document: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    document.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn the_programs_in_the_documents_run_as_written() {
    if !has("cc") || !has("c++") || !has("pkg-config") {
        return;
    }
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let documents = [read(here().join("README.md")), read(here().join("../../README.md"))];
    let folder = tempfile::tempdir().unwrap();
    let mut ran = 0;
    for (compiler, standard, language) in [("cc", "-std=c99", "c"), ("c++", "-std=c++17", "cpp")] {
        let header = example_in(&read(here().join("include/faultless.h")));
        let all = documents.iter().flat_map(|document| programs_in(document, language));
        for program in all.chain((language == "c").then_some(header)) {
            let source = folder.path().join(format!("program.{language}"));
            std::fs::write(&source, program).unwrap();
            compiled_and_run(compiler, standard, &source, &shared());
            ran += 1;
        }
    }
    assert!(ran >= 3, "one in the header, one of each language in the documents");
}

/// The words with our prefix before an opening bracket.
fn declared(header: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code: String = header.split("*/").filter_map(|part| part.split("/*").next()).collect();
    let before_brackets = code.split('(').filter_map(|part| part.rsplit(|c| !is_word(c)).next());
    before_brackets.filter(|word| word.starts_with("faultless_")).map(str::to_owned).collect()
}

#[test]
fn the_header_declares_what_the_library_exports() {
    if !has("nm") {
        return;
    }
    let header = std::fs::read_to_string(here().join("include/faultless.h")).unwrap();
    let library = prefix().join("lib/libfaultless.so");
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().last());
    // Beside the functions there is a symbol for the version itself.
    let exported: BTreeSet<&str> = names.filter(|name| *name != "FAULTLESS_0").collect();
    let expected: BTreeSet<String> =
        declared(&header).iter().map(|name| format!("{name}@@FAULTLESS_0")).collect();
    assert_eq!(expected, exported.iter().map(|name| (*name).to_owned()).collect());
    assert!(exported.len() > 10);
}

#[test]
fn the_header_knows_the_granule_and_the_version() {
    let header = std::fs::read_to_string(here().join("include/faultless.h")).unwrap();
    let granule = format!("FAULTLESS_GRANULE_BYTES ((size_t){} << 10)", tuning::GRANULE_BYTES >> 10);
    assert!(header.contains(&granule), "{granule}");
    for (part, value) in ["MAJOR", "MINOR", "PATCH"].iter().zip(env!("CARGO_PKG_VERSION").split('.')) {
        assert!(header.contains(&format!("FAULTLESS_VERSION_{part} {value}\n")), "{part}");
    }
    let cpp = std::fs::read_to_string(here().join("include/faultless.hpp")).unwrap();
    let threshold = format!("threshold = std::size_t({}) << 10;", tuning::THRESHOLD_BYTES >> 10);
    assert!(cpp.contains(&threshold), "{threshold}");
}

#[test]
fn a_cmake_project_finds_both_libraries_in_a_moved_installation() {
    if !has("cmake") || !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let moved: PathBuf = folder.path().join("elsewhere");
    run(Command::new("cp").arg("-a").arg(prefix()).arg(&moved));
    let example = here().join("examples/temporaries.c");
    let project = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(consumer C)\nfind_package(faultless {} REQUIRED)\n\
         foreach(kind faultless static)\n  add_executable(${{kind}} {})\n  \
         target_link_libraries(${{kind}} PRIVATE faultless::${{kind}})\nendforeach()\n",
        env!("CARGO_PKG_VERSION"),
        example.display(),
    );
    std::fs::write(folder.path().join("CMakeLists.txt"), project).unwrap();
    let build = folder.path().join("build");
    let arguments: [&OsStr; 4] = ["-S".as_ref(), folder.path().as_ref(), "-B".as_ref(), build.as_ref()];
    run(Command::new("cmake").args(arguments).arg(format!("-DCMAKE_PREFIX_PATH={}", moved.display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["faultless", "static"] {
        let output = run(&mut Command::new(build.join(program)));
        assert!(String::from_utf8_lossy(&output.stdout).contains("pool:"), "{program}");
    }
}
