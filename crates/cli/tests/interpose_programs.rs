//! Real programs under the interposer: the same bytes as without, also when the kernel refuses.
//!
//! Guards against: anything a real allocation pattern finds that a test program does not. A missing program is skipped
//! with its reason printed.

#![allow(clippy::print_stderr, reason = "skips print their reason")]

mod interposed;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use interposed::{Case, run, scratch};

const PYTHON: &str = "import json,hashlib
rows=[{'n':i,'text':'x'*(i%97),'list':list(range(i%13))} for i in range(60000)]
text=json.dumps(rows)
big=[bytes([i%256])*(300000+i*1000) for i in range(100)]
grown=bytearray()
for i in range(200): grown+=bytes([i])*100000
print(len(text),hashlib.sha256(text.encode()).hexdigest(),hashlib.sha256(b''.join(big)).hexdigest())
print(hashlib.sha256(grown).hexdigest(),len(json.loads(text)))";

const SQL: &str = "create table t(a integer, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<150000)
insert into t select (i*7919)%150001, hex(i*i) from n;
create index x on t(b);
select count(*), sum(a), min(b), max(b) from t;
select a,b from t order by b desc limit 5;";

const NODE: &str = "const a=[];for(let i=0;i<300;i++)a.push(Buffer.alloc(200000+i*500,i%256));
const h=require('crypto').createHash('sha256');for(const b of a)h.update(b);
console.log(h.digest('hex'),JSON.parse(JSON.stringify([...Array(100000).keys()])).length)";

/// The program's path, or the reason why the test is skipped on standard error.
fn installed(name: &str) -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// Lines in no order, about 2 MB.
fn lines() -> String {
    let mut text = String::new();
    let mut state = 1_u32;
    for _ in 0..120_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writeln!(text, "{state:010} {:x}", state.rotate_left(7)).unwrap();
    }
    text
}

/// Runs a program without the pool, with it in all ways, and compares standard output.
fn same(name: &str, args: &[&str], directory: Option<&Path>) {
    let Some(program) = installed(name) else { return };
    let at = |case: Case| match directory {
        Some(directory) => case.directory(directory),
        None => case,
    };
    let expected = run(at(Case::plain(&program).args(args))).stdout;
    assert!(!expected.is_empty(), "{name} printed nothing to compare");
    for options in
        [&["--policy", "thp"][..], &["--policy", "base"], &["--retain", "0"], &["--threshold", "16K"]]
    {
        let output = run(at(Case::pooled(&program, options).args(args)));
        assert!(output.stdout == expected, "{name} {options:?}: other output");
    }
    for failure in ["mmap:1", "mprotect:2", "mprotect:3", "madvise:1,mremap:1"] {
        let case = Case::pooled(&program, &["--retain", "1M"]).args(args).env("FAULTLESS_FAIL", failure);
        assert!(run(at(case)).stdout == expected, "{name} with {failure}: other output");
    }
}

#[test]
fn python_prints_the_same() {
    same("python3", &["-c", PYTHON], None);
}

#[test]
fn python_prints_the_same_under_an_address_space_limit() {
    let Some(python) = installed("python3") else { return };
    let plain = run(Case::plain(&python).args(&["-c", PYTHON]).limited("-v", "2000000")).stdout;
    let pooled = run(Case::pooled(&python, &[]).args(&["-c", PYTHON]).limited("-v", "2000000")).stdout;
    assert_eq!(pooled, plain);
}

#[test]
fn sqlite_prints_the_same() {
    same("sqlite3", &[":memory:", SQL], None);
}

#[test]
fn node_prints_the_same() {
    same("node", &["-e", NODE], None);
}

#[test]
fn sort_and_xz_print_the_same() {
    let input = scratch("lines.txt");
    std::fs::write(&input, lines()).unwrap();
    let input = input.to_str().unwrap();
    same("sort", &["--parallel=2", input], None);
    same("sh", &["-c", "xz -T2 -2 -c \"$0\" | sha256sum", input], None);
    std::fs::remove_file(input).unwrap();
}

#[test]
fn git_prints_the_same() {
    if installed("git").is_none() {
        return;
    }
    let directory = scratch("repository");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("big.txt"), lines()).unwrap();
    let script = "git init -q . 2>/dev/null; git add big.txt; git hash-object big.txt; git write-tree;
        git -c gc.auto=0 repack -q -a -d; git ls-files -s; git diff --no-index --stat big.txt /dev/null; git count-objects";
    same("sh", &["-c", script], Some(&directory));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn gcc_makes_the_same_object() {
    if installed("gcc").is_none() {
        return;
    }
    let directory = scratch("gcc");
    std::fs::create_dir_all(&directory).unwrap();
    let mut source = String::from("#include <stdio.h>\n#include <stdlib.h>\n");
    for i in 0..200 {
        let body = "int s=0; for(int i=0;i<n;i++){s+=a[i]*i; if(s&1) s^=a[n-i-1]; else printf(\"%d\", s);} return s;";
        writeln!(source, "int f{i}(int *a, int n) {{ {body} }}").unwrap();
    }
    std::fs::write(directory.join("many.c"), source).unwrap();
    same("sh", &["-c", "gcc -O1 -c many.c -o many.o && sha256sum < many.o"], Some(&directory));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_status_a_signal_and_standard_input_pass_through() {
    let status = |script: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_faultless"));
        command.args(["run", "--", "sh", "-c", script]).status().unwrap()
    };
    assert_eq!(status("exit 7").code(), Some(7));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status("kill -TERM $$")), Some(15));
}

#[test]
fn a_command_that_cannot_run_is_one_line_and_status_2() {
    for command in ["no-such-command-of-faultless", "/etc/passwd", "/", ""] {
        let mut faultless = std::process::Command::new(env!("CARGO_BIN_EXE_faultless"));
        let output = faultless.args(["run", "--", command]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn the_summary_counts_what_the_pool_did_and_children_inherit_it() {
    let Some(program) = installed("sort") else { return };
    let output =
        run(Case::pooled("sh", &["--summary"]).args(&["-c", "\"$0\" /etc/passwd; true"]).args(&[&program]));
    assert!(output.stderr.contains("faultless: sort["), "{}", output.stderr);
    assert!(output.stderr.contains("large blocks"), "{}", output.stderr);
}

#[test]
fn a_static_program_is_run_with_a_word_that_nothing_can_be_done() {
    let directory = scratch("static");
    std::fs::create_dir_all(&directory).unwrap();
    let (source, program) = (directory.join("s.c"), directory.join("s"));
    std::fs::write(&source, "#include <stdio.h>\nint main(void){puts(\"hi\");return 0;}\n").unwrap();
    let built = std::process::Command::new("cc").arg("-static").arg("-o").args([&program, &source]).output();
    if !built.is_ok_and(|built| built.status.success()) {
        eprintln!("skipped: no static C library to link with");
        return;
    }
    let output = run(Case::pooled(&program, &[]));
    assert_eq!(output.stdout, "hi\n");
    assert!(output.stderr.contains("statically linked"), "{}", output.stderr);
    std::fs::remove_dir_all(&directory).unwrap();
}
