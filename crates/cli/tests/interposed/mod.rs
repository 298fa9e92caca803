//! Compiling test programs and running commands with and without the pool, with a time limit.
//!
//! `FAULTLESS_TEST_BINARY` names another `faultless` to test, such as an older build.

#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) mod group;

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest a program may take; beyond, it hangs.
#[allow(dead_code, reason = "only some of the test files use it")]
const TIME_LIMIT: Duration = Duration::from_secs(240);

/// The longest that a program which was just copied may be open for writing.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Policies that every program of the tests runs under.
#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) const POLICIES: [&[&str]; 6] = [
    &["--policy", "thp"],
    &["--policy", "base"],
    &["--retain", "0"],
    &["--retain", "5M", "--policy", "base"],
    &["--threshold", "16K", "--retain", "20M"],
    &["--prefault", "populate"],
];

/// Policies with a keeper at work, and the other ways to get pages.
#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) const MORE_POLICIES: [&[&str]; 8] = [
    &["--prefault", "touch", "--decay", "20ms"],
    &["--prefault", "memset", "--policy", "base", "--scrub", "on-free"],
    &["--prefault", "map-populate"],
    &["--prefault", "map-populate", "--policy", "base", "--retain", "5M"],
    &["--prefault", "ahead", "--scrub", "ahead", "--stock", "4M-24M", "--decay", "30ms"],
    &["--prewarm", "48M", "--scrub", "ahead", "--decay", "never"],
    &["--policy", "mthp-64K", "--scrub", "on-free"],
    &["--policy", "hugetlb", "--decay", "50ms"],
];

/// A command with its surroundings.
#[derive(Clone)]
pub(crate) struct Case {
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    limit: Option<[String; 2]>,
    directory: Option<PathBuf>,
    group: Option<PathBuf>,
}

/// What a finished command left.
pub(crate) struct Output {
    pub(crate) stdout: String,
    #[allow(dead_code, reason = "only some of the test files look at it")]
    pub(crate) stderr: String,
    /// The exit status, or the signal that ended it as a negative number.
    #[allow(dead_code, reason = "only some of the test files look at it")]
    pub(crate) status: i32,
}

/// The program under test.
pub(crate) fn faultless() -> OsString {
    std::env::var_os("FAULTLESS_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_faultless").into())
}

impl Case {
    /// A command as it is.
    pub(crate) fn plain(program: impl Into<OsString>) -> Self {
        let command = vec![program.into()];
        Self { command, environment: Vec::new(), limit: None, directory: None, group: None }
    }

    /// A command under `faultless run OPTIONS --`.
    pub(crate) fn pooled(program: impl Into<OsString>, options: &[&str]) -> Self {
        let mut case = Self::plain(faultless());
        case.command.push("run".into());
        case.command.extend(options.iter().map(OsString::from));
        case.command.extend(["--".into(), program.into()]);
        case
    }

    pub(crate) fn args<T: AsRef<std::ffi::OsStr>>(mut self, args: &[T]) -> Self {
        self.command.extend(args.iter().map(|arg| arg.as_ref().into()));
        self
    }

    #[allow(dead_code, reason = "only some of the test files use it")]
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Under `ulimit FLAG VALUE`.
    #[allow(dead_code, reason = "only some of the test files use it")]
    pub(crate) fn limited(mut self, flag: &str, value: &str) -> Self {
        self.limit = Some([flag.into(), value.into()]);
        self
    }

    /// In a control group: see `group::MemoryGroup`.
    #[allow(dead_code, reason = "only some of the test files use it")]
    pub(crate) fn group(mut self, group: &Path) -> Self {
        self.group = Some(group.into());
        self
    }

    #[allow(dead_code, reason = "only some of the test files use it")]
    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.into());
        self
    }
}

/// A place of this test process's own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}-{name}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Compiles a program of `tests/programs`, or of elsewhere by its whole path; `None`, with the reason printed, without a compiler.
#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) fn compile(source: &str, flags: &[&str]) -> Option<PathBuf> {
    compile_with(if source.ends_with(".cpp") { "c++" } else { "cc" }, source, flags)
}

/// The same by another compiler, or with flags that not every machine can link.
#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) fn compile_with(compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let program = scratch(&path.file_stem().unwrap_or_default().to_string_lossy());
    let status = Command::new(compiler)
        .args(["-O1", "-fno-builtin", "-w"])
        .args(flags)
        .arg("-o")
        .args([&program, &path])
        .status();
    match status {
        Ok(status) if status.success() => Some(program),
        Ok(_) if ["cc", "c++"].contains(&compiler) && !flags.contains(&"-static") => {
            panic!("{source} does not compile")
        }
        other => {
            eprintln!("skipped: {compiler} {flags:?} {source}: {other:?}");
            None
        }
    }
}

/// Runs a command to its end and demands success.
#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) fn run(case: Case) -> Output {
    let words = case.command.clone();
    let (status, output) = finish(case, TIME_LIMIT);
    let Output { stdout, stderr, .. } = &output;
    let Some(status) = status else { panic!("{words:?} hangs\n{stdout}\n{stderr}") };
    let signal = status.signal();
    assert!(status.success(), "{words:?}: {status}, signal {signal:?}\n{stdout}\n{stderr}");
    output
}

/// Runs a command to its end, or kills it and all that it started: then there is no status.
pub(crate) fn finish(case: Case, limit: Duration) -> (Option<ExitStatus>, Output) {
    let (out, err) = (scratch("stdout"), scratch("stderr"));
    let mut command = case.into_command();
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let begin = Instant::now();
    let mut child = loop {
        match command.spawn() {
            Ok(child) => break child,
            // A child that another test forks while this one copies a program has it open for writing until its exec.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && begin.elapsed() < BUSY_LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{command:?}: {error}"),
        }
    };
    let mut pause = Duration::from_micros(500);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begin.elapsed() > limit => {
                kill(&mut child);
                break None;
            }
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(5));
    };
    let text = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let number = |status: ExitStatus| status.code().or_else(|| status.signal().map(|signal| -signal));
    let output = Output {
        stdout: text(&out),
        stderr: text(&err),
        status: status.and_then(number).unwrap_or(i32::MIN),
    };
    (status, output)
}

/// The command's own process group goes with it.
fn kill(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.kill();
    let _ = child.wait();
}

impl Case {
    fn into_command(self) -> Command {
        let mut words = self.command;
        if let Some([flag, value]) = &self.limit {
            let script = format!("ulimit {flag} {value} && exec \"$0\" \"$@\"");
            words.splice(0..0, ["sh".into(), "-c".into(), script.into()]);
        }
        if let Some(group) = &self.group {
            let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
            words.splice(0..0, ["sh".into(), "-c".into(), script.into(), group.into()]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(self.environment).stdin(Stdio::null()).process_group(0);
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        command
    }
}

/// Runs a command to its end, whatever that is.
#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) fn ended(case: Case) -> Output {
    let words = case.command.clone();
    let (status, output) = finish(case, TIME_LIMIT);
    assert!(status.is_some(), "{words:?} hangs\n{}\n{}", output.stdout, output.stderr);
    output
}

/// Demands the same lines, and shows those that differ.
#[allow(dead_code, reason = "only some of the test files use it")]
pub(crate) fn same_lines(expected: &str, found: &str, what: &str) {
    let pairs = expected.lines().zip(found.lines());
    let differ: Vec<_> = pairs.filter(|(expected, found)| expected != found).take(10).collect();
    assert!(differ.is_empty(), "{what}: expected and found: {differ:#?}");
    assert_eq!(expected.lines().count(), found.lines().count(), "{what}: lines");
}
