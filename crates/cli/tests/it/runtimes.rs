//! Interpreters: their functions have names, and nothing of how they got them remains.

use std::path::Path;
use std::process::{Command, Output};

use faultless_wants as wants;

use crate::{machine, text};

/// Python of at least 3.12, where there is one.
fn python() -> Option<String> {
    let is_new = |name: &&str| {
        let words = ["-c", "import sys; print(sys.version_info >= (3, 12))"];
        let output = Command::new(name).args(words).output();
        output.is_ok_and(|output| output.stdout.starts_with(b"True"))
    };
    let found = ["python3.14", "python3.13", "python3.12", "python3"].into_iter().find(|name| is_new(name));
    if found.is_none() {
        wants::missing_feature("python 3.12", "python3 is older, and tells no functions");
    }
    found.map(str::to_owned)
}

fn faultless(words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command.args(words).current_dir(folder).env_remove("PYTHONPERFSUPPORT").output().unwrap()
}

/// Rows that a function makes, and the number of its process.
const SCRIPT: &str = "
import os, sys
def grow():
    return [bytearray(1 << 20) for _ in range(60)]
def main():
    for _ in range(3):
        grow()
    print(os.getpid(), sys.is_stack_trampoline_active())
main()
";

#[test]
fn functions_of_python_are_sites_and_their_table_is_removed() {
    if !machine::recorder() {
        return;
    }
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("grow.py"), SCRIPT).unwrap();
    let recorded = faultless(&["record", "--", &python, "grow.py"], folder.path());
    let (out, said) = (text(&recorded.stdout), text(&recorded.stderr));
    let (pid, active) = out.trim().split_once(' ').unwrap();
    assert_eq!(active, "True", "{said}");
    assert!(said.contains("--no-python leaves them off"), "{said}");
    assert!(!Path::new(&format!("/tmp/perf-{pid}.map")).exists(), "the table is left");
    let report = text(&faultless(&["report", "--by", "site"], folder.path()).stdout);
    assert!(report.contains("py::grow") && report.contains("grow.py"), "{report}");
    let tree = text(&faultless(&["report", "--tree"], folder.path()).stdout);
    assert!(tree.contains("py::main") && !tree.contains("_PyEval_EvalFrameDefault"), "{tree}");
    let whole = text(&faultless(&["report", "--tree", "--whole"], folder.path()).stdout);
    assert!(whole.contains("_PyEval_EvalFrameDefault"), "{whole}");
}

#[test]
fn python_is_left_alone_where_that_is_asked_for() {
    if !machine::recorder() {
        return;
    }
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("grow.py"), SCRIPT).unwrap();
    let recorded = faultless(&["record", "--no-python", "--", &python, "grow.py"], folder.path());
    assert!(text(&recorded.stdout).trim().ends_with("False"), "{}", text(&recorded.stderr));
    let report = text(&faultless(&["report"], folder.path()).stdout);
    let report: Vec<&str> = report.split_whitespace().collect();
    assert!(report.join(" ").contains("leave out --no-python"), "{report:?}");
}

#[test]
fn functions_of_node_are_named_on_demand_and_missed_otherwise() {
    if !machine::recorder() || !wants::program("node", "nodejs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "
        function rows(n) { const all = []; for (let i = 0; i < n; i++) all.push({ id: i, tags: ['a', String(i)] }); return all; }
        let count = 0;
        for (let i = 0; i < 6; i++) count += JSON.parse(JSON.stringify(rows(40000))).length;
        console.log(process.pid);";
    std::fs::write(folder.path().join("rows.js"), script).unwrap();
    let recorded = faultless(&["record", "--jit", "--", "node", "rows.js"], folder.path());
    let pid = text(&recorded.stdout);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    assert!(!Path::new(&format!("/tmp/perf-{}.map", pid.trim())).exists(), "the table is left");
    let tree = text(&faultless(&["report", "--tree", "--site", "rows"], folder.path()).stdout);
    assert!(tree.contains("rows.js"), "{tree}");
    faultless(&["record", "--", "node", "rows.js"], folder.path());
    let report = text(&faultless(&["report", "--explain"], folder.path()).stdout);
    let report: Vec<&str> = report.split_whitespace().collect();
    assert!(report.join(" ").contains("record --jit gives them"), "{report:?}");
}
