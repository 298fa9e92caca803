//! Real programs to try the interposer on, each with work that prints comparable output.

use std::fmt::Write;
use std::path::PathBuf;

use faultless_wants as wants;

use super::{Case, scratch};

pub(crate) const PYTHON: &str = "import json,hashlib
rows=[{'n':i,'text':'x'*(i%97),'list':list(range(i%13))} for i in range(20000)]
text=json.dumps(rows)
big=[bytes([i%256])*(300000+i*1000) for i in range(40)]
grown=bytearray()
for i in range(80): grown+=bytes([i])*100000
print(len(text),hashlib.sha256(text.encode()).hexdigest(),hashlib.sha256(b''.join(big)).hexdigest())
print(hashlib.sha256(grown).hexdigest(),len(json.loads(text)))";

const SQL: &str = "create table t(a integer, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<50000)
insert into t select (i*7919)%50021, hex(i*i) from n;
create index x on t(b);
select count(*), sum(a), min(b), max(b) from t;
select a,b from t order by b desc limit 5;";

const NODE: &str = "const a=[];for(let i=0;i<100;i++)a.push(Buffer.alloc(200000+i*500,i%256));
const h=require('crypto').createHash('sha256');for(const b of a)h.update(b);
console.log(h.digest('hex'),JSON.parse(JSON.stringify([...Array(30000).keys()])).length)";

const SHELL: Option<&str> = Some("/bin/sh");

/// An installed program, its arguments, and a directory that is removed on drop.
pub(crate) struct Real {
    pub(crate) name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    directory: PathBuf,
}

impl Real {
    /// `needed` is a program and its package; `None` if it is not installed. `by` is the shell, if that
    /// starts it.
    #[track_caller]
    fn new(
        needed: [&'static str; 2],
        by: Option<&str>,
        args: &[&str],
        files: &[(&str, String)],
    ) -> Option<Self> {
        let [name, package] = needed;
        let program = wants::path_of(name, package)?;
        let program = by.map_or(program, PathBuf::from);
        let directory = scratch(name);
        std::fs::create_dir_all(&directory).unwrap();
        for (file, text) in files {
            std::fs::write(directory.join(file), text).unwrap();
        }
        Some(Self { name, program, args: args.iter().map(|arg| (*arg).into()).collect(), directory })
    }

    /// An unchanged run.
    pub(crate) fn plain(&self) -> Case {
        Case::plain(&self.program).args(&self.args).directory(&self.directory)
    }

    /// A run under `faultless run`.
    pub(crate) fn pooled(&self, options: &[&str]) -> Case {
        Case::pooled(&self.program, options).args(&self.args).directory(&self.directory)
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[track_caller]
pub(crate) fn python() -> Option<Real> {
    Real::new(["python3", "python3"], None, &["-c", PYTHON], &[])
}

#[track_caller]
pub(crate) fn sqlite() -> Option<Real> {
    Real::new(["sqlite3", "sqlite3"], None, &[":memory:", SQL], &[])
}

#[track_caller]
pub(crate) fn node() -> Option<Real> {
    Real::new(["node", "nodejs"], None, &["-e", NODE], &[])
}

#[track_caller]
pub(crate) fn sort() -> Option<Real> {
    Real::new(["sort", "coreutils"], None, &["--parallel=2", "lines.txt"], &[("lines.txt", lines())])
}

#[track_caller]
pub(crate) fn xz() -> Option<Real> {
    // The fastest level: its blocks are the shortest, so both threads have some.
    let script = "xz -T2 -0 -c lines.txt | sha256sum";
    Real::new(["xz", "xz-utils"], SHELL, &["-c", script], &[("lines.txt", lines())])
}

#[track_caller]
pub(crate) fn git() -> Option<Real> {
    let script = "git init -q . 2>/dev/null; git add big.txt; git hash-object big.txt; git write-tree;
        git -c gc.auto=0 repack -q -a -d; git ls-files -s; git diff --no-index --stat big.txt /dev/null; git count-objects";
    Real::new(["git", "git"], SHELL, &["-c", script], &[("big.txt", lines())])
}

#[track_caller]
pub(crate) fn gcc() -> Option<Real> {
    let mut source = String::from("#include <stdio.h>\n#include <stdlib.h>\n");
    for i in 0..60 {
        let body = "int s=0; for(int i=0;i<n;i++){s+=a[i]*i; if(s&1) s^=a[n-i-1]; else printf(\"%d\", s);} return s;";
        writeln!(source, "int f{i}(int *a, int n) {{ {body} }}").unwrap();
    }
    let script = "gcc -O1 -c many.c -o many.o && sha256sum < many.o";
    Real::new(["gcc", "gcc"], SHELL, &["-c", script], &[("many.c", source)])
}

/// About 1.6 MB of unsorted lines.
fn lines() -> String {
    let mut text = String::new();
    let mut state = 1_u32;
    for _ in 0..80_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writeln!(text, "{state:010} {:x}", state.rotate_left(7)).unwrap();
    }
    text
}
