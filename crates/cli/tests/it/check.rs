//! `faultless check` as a user types it.

use std::path::Path;
use std::process::{Command, Output};

use faultless_wants as wants;

use crate::{FAULTLESS, text};

/// A program of ten thousand faults or so. Its second function takes some more on demand.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void usual(void) { char *p = malloc(30 << 20); memset(p, 1, 30 << 20); }
__attribute__((noinline)) void grows(size_t mib) { char *p = malloc(mib << 20); memset(p, 1, mib << 20); }
int main(int argc, char **argv) { usual(); grows(argc > 1 ? atoi(argv[1]) : 10); return argc > 2; }
"#;

fn compiled(folder: &Path) -> bool {
    if !wants::program("cc", "gcc") {
        return false;
    }
    std::fs::write(folder.join("grows.c"), SOURCE).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fno-builtin", "grows.c", "-o", "grows"]).current_dir(folder);
    assert!(cc.status().unwrap().success());
    true
}

fn check(folder: &Path, words: &[&str]) -> Output {
    Command::new(FAULTLESS).arg("check").args(words).current_dir(folder).output().unwrap()
}

fn update(folder: &Path, words: &[&str]) {
    let out = check(folder, &[&["--update", "-r", "4"], words].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("budget of 4 runs"), "{}", text(&out.stderr));
}

#[test]
fn a_program_passes_its_budget_and_a_growth_of_a_twentieth_does_not_and_its_site_is_named() {
    let folder = tempfile::tempdir().unwrap();
    if !compiled(folder.path()) {
        return;
    }
    update(folder.path(), &["--name", "grows", "--", "./grows", "10"]);
    let same = check(folder.path(), &["--name", "grows", "--", "./grows", "10"]);
    assert_eq!(same.status.code(), Some(0), "{}{}", text(&same.stdout), text(&same.stderr));
    assert!(text(&same.stdout).starts_with("Within budget: "), "{}", text(&same.stdout));
    let more = check(folder.path(), &["--name", "grows", "--json", "--", "./grows", "12"]);
    assert_eq!(more.status.code(), Some(1), "{}{}", text(&more.stdout), text(&more.stderr));
    let found: serde_json::Value = serde_json::from_slice(&more.stdout).unwrap();
    assert_eq!(found["over"], true);
    let over = |figure: &serde_json::Value| figure["over"] == true && figure["figure"] == "faults";
    assert!(found["figures"].as_array().unwrap().iter().any(over), "{found}");
    if found["host"]["recorded"] == "none" {
        return wants::missing_feature("perf events", "the sites are not known");
    }
    let site = &found["growth"][0]["site"];
    assert!(site.as_str().unwrap().starts_with("grows"), "{found}");
}

#[test]
fn the_answer_comes_as_markdown_and_as_a_test_report_too() {
    let folder = tempfile::tempdir().unwrap();
    if !compiled(folder.path()) {
        return;
    }
    update(folder.path(), &["--budget", "b.toml", "--name", "a<b", "--", "./grows", "10"]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    std::fs::write(folder.path().join("summary.md"), "# before\n").unwrap();
    let words =
        ["--budget", "b.toml", "--name", "a<b", "--markdown", "summary.md", "--junit", "out.xml", "--"];
    let out = check(folder.path(), &[&words[..], &["./grows", "13"]].concat());
    assert_eq!(out.status.code(), Some(1));
    let page = read("summary.md");
    assert!(page.starts_with("# before\n### ❌ a\\<b\n\nOver budget: faults: "), "{page}");
    assert!(page.contains("| faults | "), "{page}");
    let xml = read("out.xml");
    assert!(
        xml.contains("<testsuite name=\"faultless check: a&lt;b\"")
            && xml.contains("<failure message=\"faults: "),
        "{xml}"
    );
    let out = check(folder.path(), &[&words[..], &["./grows", "10", "fails"]].concat());
    assert_eq!(out.status.code(), Some(2));
    assert!(read("out.xml").contains("errors=\"1\""), "{}", read("out.xml"));
}

#[test]
fn what_gives_no_answer_is_said_in_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let said = |words: &[&str]| {
        let out = check(folder.path(), words);
        assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(2), ""), "{words:?}");
        let said = text(&out.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    assert!(said(&["--", "true"]).contains("faultless.toml: no such file; `faultless check --update`"));
    assert!(
        said(&["--update", "--", "false"]).contains("false ended with status 1, so its counts say nothing")
    );
    assert!(!folder.path().join("faultless.toml").exists());
    update(folder.path(), &["--", "true"]);
    assert!(said(&["--", "sh", "-c", "exit 0"]).contains("no budget for `sh -c exit 0`, only for true"));
    assert!(said(&["--name", "true", "--", "sh", "-c", "echo why >&2; exit 3"]).contains("it says: why"));
    let path = folder.path().join("faultless.toml");
    let own = std::fs::read_to_string(&path).unwrap();
    let kernel = own.lines().find(|line| line.starts_with("kernel = ")).unwrap();
    std::fs::write(&path, own.replace(kernel, "kernel = \"2.4\"")).unwrap();
    let (other, strict) = (check(folder.path(), &["--", "true"]), said(&["--strict", "--", "true"]));
    assert!(
        other.status.success() && text(&other.stdout).contains("instead of 2.4): limits are 10 % higher")
    );
    let other = strict;
    assert!(
        other.contains("of another host: kernel ") && other.contains("instead of 2.4; --update adds"),
        "{other}"
    );
    std::fs::write(&path, own.replace("version = 1", "version = 9")).unwrap();
    assert!(said(&["--", "true"]).contains("version 9 of the budget file"));
    std::fs::write(&path, own.replace("[budget.host]", "[budget.hots]")).unwrap();
    assert!(said(&["--", "true"]).contains("line "), "{}", said(&["--", "true"]));
    assert!(said(&["--update", "--", "true"]).contains("--update"), "a file that is none is not overwritten");
}

#[test]
fn a_file_holds_budgets_of_several_programs_and_an_update_changes_one() {
    let folder = tempfile::tempdir().unwrap();
    update(folder.path(), &["--", "true"]);
    update(folder.path(), &["--", "sh", "-c", "exit 0"]);
    let path = folder.path().join("faultless.toml");
    let both = std::fs::read_to_string(&path).unwrap();
    assert_eq!(both.matches("[[budget]]").count(), 2, "{both}");
    update(folder.path(), &["--", "true"]);
    let again = std::fs::read_to_string(&path).unwrap();
    assert_eq!(again.matches("[[budget]]").count(), 2, "{again}");
    assert!(check(folder.path(), &["--", "sh", "-c", "exit 0"]).status.success());
}
