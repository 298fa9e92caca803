//! The manual and the completions as other programs read them. Guards against missing pages, groff warnings,
//! and completions that a shell refuses.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use faultless_wants as wants;

fn faultless(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_faultless")).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A program's output (both streams) for some input; `None` if it is not installed.
#[track_caller]
fn piped(program: &str, package: &str, words: &[&str], input: &str) -> Option<String> {
    if !wants::program(program, package) {
        return None;
    }
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some(format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn every_page_that_is_named_exists_and_none_makes_groff_warn() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(faultless(&["man", "--dir", folder.path().to_str().unwrap()]), "");
    let mut found = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        for named in page.lines().filter_map(|line| line.strip_suffix("(1)")) {
            let named = named.replace('\\', "");
            assert!(folder.path().join(format!("{named}.1")).exists(), "{named}, in {}", path.display());
            found += 1;
        }
        // Formats without output, so only warnings appear.
        if let Some(said) = piped("groff", "groff-base", &["-man", "-Tutf8", "-ww", "-z"], &page) {
            assert_eq!(said, "", "{}", path.display());
        }
    }
    assert!(found > 10, "{found} names of other pages");
    let first = fs::read_to_string(folder.path().join("faultless.1")).unwrap();
    assert_eq!(first, faultless(&["man"]), "printed and written pages are the same");
}

#[test]
fn bash_completes_verbs_options_values_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.svg");
    fs::write(&file, "").unwrap();
    let begun = format!("{}/rep", folder.path().display());
    let asked = [
        (vec!["st"], "stat"),
        (vec!["stat", "--out"], "--output"),
        (vec!["run", "--policy", "b"], "base"),
        (vec!["workload", "chunk"], "chunk-pipeline"),
        (vec!["stat", "-o", &begun], file.to_str().unwrap()),
        (vec!["advise", "--svg", &begun], file.to_str().unwrap()),
    ];
    let mut script = faultless(&["completions", "bash"]);
    for (words, _) in &asked {
        script += &format!("COMP_WORDS=(faultless {}); COMP_CWORD={}; ", words.join(" "), words.len());
        script += "_faultless faultless \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; ";
        script += "echo \"${COMPREPLY[*]}\"\n";
    }
    let Some(found) = piped("bash", "bash", &["--norc", "-s"], &script) else { return };
    let expected: Vec<&str> = asked.iter().map(|(_, answer)| *answer).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn zsh_and_fish_accept_their_completions() {
    for (shell, check) in [("zsh", &["-n", "-s"][..]), ("fish", &["--no-execute"])] {
        if let Some(said) = piped(shell, shell, check, &faultless(&["completions", shell])) {
            assert_eq!(said, "", "{shell}");
        }
    }
}
