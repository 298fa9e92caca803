//! `faultless lab`, `grep`, `index` and `agent` become other programs. Guards against words that
//! are parsed twice, an installed program that is not found, and a missing one that is not named.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::{FAULTLESS, text};

/// A folder with this program alone.
fn alone() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_faultless"), folder.path().join("faultless")).unwrap();
    folder
}

/// A program that prints its name and its words.
fn write_program(path: &Path) {
    fs::write(path, "#!/bin/sh\necho \"${0##*/}\" \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn run(folder: &Path, path: &str, words: &[&str]) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Output { status, stdout, stderr } =
        Command::new(folder.join("faultless")).env("PATH", path).args(words).output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn a_program_beside_this_one_is_started_with_all_words_as_they_are() {
    let folder = alone();
    write_program(&folder.path().join("faultless-grep"));
    write_program(&folder.path().join("faultless-lab"));
    write_program(&folder.path().join("faultless-agent"));
    for (words, said) in [
        (&["grep", "--help", "-e", "update"][..], "faultless-grep --help -e update\n"),
        (&["grep"], "faultless-grep\n"),
        (&["index", "update", "--json"], "faultless-grep update --json\n"),
        (&["lab", "--nonsense"], "faultless-lab --nonsense\n"),
        (&["agent", "--interval", "x"], "faultless-agent --interval x\n"),
        (&["help", "lab"], "faultless-lab --help\n"),
    ] {
        assert_eq!(run(folder.path(), "/bin:/usr/bin", words), (Some(7), said.into(), String::new()));
    }
}

#[test]
fn a_program_on_the_path_is_found_and_one_beside_comes_first() {
    let (folder, elsewhere) = (alone(), tempfile::tempdir().unwrap());
    let path = format!("{}:/bin:/usr/bin", elsewhere.path().display());
    write_program(&elsewhere.path().join("faultless-lab"));
    assert_eq!(run(folder.path(), &path, &["lab", "x"]).1, "faultless-lab x\n");
    write_program(&folder.path().join("faultless-lab"));
    fs::remove_file(elsewhere.path().join("faultless-lab")).unwrap();
    assert_eq!(run(folder.path(), &path, &["lab", "y"]).1, "faultless-lab y\n");
}

#[test]
fn a_program_in_place_of_a_verb_is_led_to_advise() {
    let folder = alone();
    let file = folder.path().join("faultless");
    for word in ["sh", file.to_str().unwrap()] {
        for words in [&[word, "-c", "true"][..], &["--", word, "-c", "true"]] {
            let (code, out, said) = run(folder.path(), "/nowhere:/bin", words);
            assert_eq!((code, out.as_str()), (Some(2), ""));
            assert!(said.contains(&format!("`faultless advise -- {word} -c true`")), "{said}");
        }
    }
    let (_, _, said) = run(folder.path(), "/nowhere", &["sh"]);
    assert!(said.contains("there are doctor, stat, "), "{said}");
}

#[test]
fn a_program_that_is_not_installed_is_named_with_the_command_that_installs_it() {
    let folder = alone();
    let programs =
        [("lab", "crates/lab"), ("grep", "crates/grep"), ("index", "crates/grep"), ("agent", "crates/agent")];
    for (verb, package) in programs {
        let (code, out, said) = run(folder.path(), "/nowhere", &[verb, "x"]);
        assert_eq!((code, out.as_str(), said.lines().count()), (Some(2), "", 1), "{said}");
        assert!(
            said.contains("is not installed") && said.contains(&format!("cargo install --path {package}")),
            "{said}"
        );
    }
}

#[test]
fn help_and_the_manual_name_all_programs() {
    let folder = alone();
    let help = run(folder.path(), "/nowhere", &["--help"]).1;
    assert!(
        ["lab", "grep", "index", "agent"].iter().all(|verb| help.contains(&format!("\n  {verb} "))),
        "{help}"
    );
    let pages = folder.path().join("pages");
    fs::create_dir(&pages).unwrap();
    let (code, _, said) = run(folder.path(), "/nowhere", &["man", "--dir", pages.to_str().unwrap()]);
    assert_eq!((code, said.lines().count()), (Some(0), 3), "{said}");
    assert!(pages.join("faultless-lab.1").exists() && pages.join("faultless-stat.1").exists());
    for page in fs::read_dir(&pages).unwrap().map(|page| page.unwrap().path()) {
        let text = fs::read_to_string(&page).unwrap();
        assert!(!text.contains("EXTRA"), "{}", page.display());
        let own = !["lab", "grep", "index", "agent"]
            .iter()
            .any(|other| page.ends_with(format!("faultless-{other}.1")));
        let is_verb =
            own && !text.contains(".SH SUBCOMMANDS") && !page.to_string_lossy().contains("workload-");
        assert!(!is_verb || text.contains(".SH EXAMPLES"), "{}", page.display());
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let help = Command::new(FAULTLESS).arg("--help").stdout(full).output().unwrap();
    assert_eq!((help.status.code(), text(&help.stderr).lines().count()), (Some(2), 1));
}
