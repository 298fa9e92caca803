//! Compiles test programs and runs commands with and without the pool, with a time limit.
//!
//! `FAULTLESS_TEST_BINARY` names another `faultless` to test, such as an older build.

pub(crate) mod group;
pub(crate) mod real;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use faultless_wants as wants;

/// The longest a program may take, on a machine as busy as it may be; beyond, it hangs.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// The longest that a program which was just copied may be open for writing.
const BUSY_LIMIT: Duration = Duration::from_secs(60);

/// Policies for every test program.
pub(crate) const POLICIES: [&[&str]; 6] = [
    &["--policy", "thp"],
    &["--policy", "base"],
    &["--retain", "0"],
    &["--retain", "5M", "--policy", "base"],
    &["--threshold", "16K", "--retain", "20M"],
    &["--prefault", "populate"],
];

/// mimalloc for small blocks.
pub(crate) const SMALL: &[&str] = &["--small=mimalloc"];

/// The same, with small blocks of other sizes.
pub(crate) const SMALL_POLICIES: [&[&str]; 3] =
    [SMALL, &["--small=mimalloc", "--threshold", "16K"], &["--small=mimalloc", "--threshold", "1G"]];

/// Policies with a background thread at work, and with other pages.
pub(crate) const MORE_POLICIES: [&[&str]; 7] = [
    &["--prefault", "populate", "--decay", "20ms"],
    &["--prefault", "populate", "--policy", "base", "--scrub", "on-free"],
    &["--prefault", "populate", "--policy", "base", "--retain", "5M"],
    &["--prefault", "ahead", "--scrub", "ahead", "--stock", "4M-24M", "--decay", "30ms"],
    &["--prewarm", "48M", "--scrub", "ahead", "--decay", "never"],
    &["--policy", "mthp-64K", "--scrub", "on-free"],
    &["--policy", "hugetlb", "--decay", "50ms"],
];

/// A command and its environment.
#[derive(Clone)]
pub(crate) struct Case {
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    limit: Option<[String; 2]>,
    directory: Option<PathBuf>,
    group: Option<PathBuf>,
}

/// The result of a finished command.
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The exit status, or the terminating signal as a negative number.
    pub(crate) status: i32,
}

/// The program under test.
pub(crate) fn faultless() -> OsString {
    std::env::var_os("FAULTLESS_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_faultless").into())
}

impl Case {
    /// An unchanged command.
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

    /// This command with an interposer whose pool fails as `failure` says, such as "mmap:1". The shipped
    /// interposer cannot inject failures.
    pub(crate) fn failing(self, failure: &str) -> Self {
        self.preloaded(&[failing_interposer()]).env("FAULTLESS_FAIL", failure)
    }

    /// The same with the small-object allocator behind the interposer.
    pub(crate) fn failing_with_small(self, failure: &str) -> Self {
        self.preloaded(&[failing_interposer(), Path::new(env!("FAULTLESS_SMALL"))])
            .env("FAULTLESS_FAIL", failure)
    }

    fn preloaded(self, libraries: &[&Path]) -> Self {
        let libraries: Vec<_> = libraries.iter().map(|path| path.to_str().unwrap()).collect();
        self.env("LD_PRELOAD", &libraries.join(":"))
    }

    pub(crate) fn args<T: AsRef<std::ffi::OsStr>>(mut self, args: &[T]) -> Self {
        self.command.extend(args.iter().map(|arg| arg.as_ref().into()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Under `ulimit FLAG VALUE`.
    pub(crate) fn limited(mut self, flag: &str, value: &str) -> Self {
        self.limit = Some([flag.into(), value.into()]);
        self
    }

    /// In a control group; see `group::MemoryGroup`.
    pub(crate) fn group(mut self, group: &Path) -> Self {
        self.group = Some(group.into());
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.into());
        self
    }
}

/// The interposer with the feature `inject-failures`, built by the first test that needs it.
fn failing_interposer() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failing");
        let preload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload");
        let status = Command::new(env!("CARGO"))
            .args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--profile", "preload"])
            .args(["--features", "inject-failures"])
            .arg("--manifest-path")
            .arg(preload.join("Cargo.toml"))
            .arg("--config")
            .arg(preload.join("profile.toml"))
            // Its speed does not matter.
            .args(["--config", "profile.preload.lto='off'"])
            .arg("--target-dir")
            .arg(&target)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .status()
            .unwrap();
        assert!(status.success(), "the interposer with injected failures: {status}");
        target.join("preload/libfaultless_preload.so")
    })
}

/// A path in this test process's own folder.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}-{name}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Compiles a program of `tests/programs`, or one with an absolute path. `None` without a compiler.
#[track_caller]
pub(crate) fn compile(source: &str, flags: &[&str]) -> Option<PathBuf> {
    compile_with(if source.ends_with(".cpp") { "c++" } else { "cc" }, source, flags)
}

/// Like [`compile`], with another compiler, or with flags that not every machine can link.
#[track_caller]
pub(crate) fn compile_with(compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    /// A program, or why there is none. Tests that need the same one wait for the first of them.
    type Compiled = Arc<OnceLock<Result<PathBuf, String>>>;
    static COMPILED: Mutex<BTreeMap<Vec<String>, Compiled>> = Mutex::new(BTreeMap::new());
    let words = [compiler, source].into_iter().chain(flags.iter().copied()).map(String::from).collect();
    let compiled =
        Arc::clone(COMPILED.lock().unwrap_or_else(PoisonError::into_inner).entry(words).or_default());
    match compiled.get_or_init(|| compile_anew(compiler, source, flags)) {
        Ok(program) => Some(program.clone()),
        Err(why) => {
            wants::missing_package(
                package(compiler, flags),
                format_args!("{compiler} {flags:?} {source}: {why}"),
            );
            None
        }
    }
}

fn compile_anew(compiler: &str, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let program = scratch(&path.file_stem().unwrap_or_default().to_string_lossy());
    let mut command = Command::new(compiler);
    command.args(["-O1", "-fno-builtin", "-w"]).args(flags).arg("-o").args([&program, &path]);
    let out = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.success() {
        return Ok(program);
    }
    let may_fail = !["cc", "c++"].contains(&compiler) || flags.contains(&"-static");
    assert!(may_fail, "{source} does not compile: {said}");
    Err(said.lines().next().unwrap_or_default().to_owned())
}

/// The package to install for a compiler, or for a library in the flags.
fn package<'a>(compiler: &'a str, flags: &[&str]) -> &'a str {
    const LIBRARIES: [(&str, &str); 4] = [
        ("jemalloc", "libjemalloc-dev"),
        ("tcmalloc", "libgoogle-perftools-dev"),
        ("mimalloc", "libmimalloc-dev"),
        ("-static", "libc6-dev"),
    ];
    let links = |library: &str| flags.iter().any(|flag| flag.starts_with('-') && flag.contains(library));
    let library = LIBRARIES.into_iter().find(|(library, _)| links(library));
    match (compiler, library) {
        (_, Some((_, package))) => package,
        ("cc", _) => "gcc",
        ("c++", _) => "g++",
        ("musl-gcc", _) => "musl-tools",
        ("clang", _) if flags.iter().any(|flag| flag.starts_with("-fsanitize")) => "libclang-rt-dev",
        (compiler, _) => compiler,
    }
}

/// Runs a command to its end, and requires success.
pub(crate) fn run(case: Case) -> Output {
    let words = case.command.clone();
    let (status, output) = finish(case, TIME_LIMIT);
    let Output { stdout, stderr, .. } = &output;
    let Some(status) = status else { panic!("{words:?} hangs\n{stdout}\n{stderr}") };
    let signal = status.signal();
    assert!(status.success(), "{words:?}: {status}, signal {signal:?}\n{stdout}\n{stderr}");
    output
}

/// Runs a command to its end. After the time limit, kills it with all its children; then there is no status.
pub(crate) fn finish(case: Case, limit: Duration) -> (Option<ExitStatus>, Output) {
    let (out, err) = (scratch("stdout"), scratch("stderr"));
    let mut command = case.into_command();
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let begin = Instant::now();
    let mut child = loop {
        match command.spawn() {
            Ok(child) => break child,
            // A child that another test forks during a copy holds the program open for writing until its
            // exec.
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

/// How a command ended.
pub(crate) fn how(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        None => "hangs".into(),
        Some((Some(code), _)) => format!("status {code}"),
        Some((None, signal)) => format!("signal {}", signal.unwrap_or(0)),
    }
}

/// Kills the command's whole process group.
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

/// Runs a command to its end, successful or not.
pub(crate) fn ended(case: Case) -> Output {
    let words = case.command.clone();
    let (status, output) = finish(case, TIME_LIMIT);
    assert!(status.is_some(), "{words:?} hangs\n{}\n{}", output.stdout, output.stderr);
    output
}

/// Requires the same lines, and shows those that differ.
pub(crate) fn same_lines(expected: &str, found: &str, what: &str) {
    let pairs = expected.lines().zip(found.lines());
    let differ: Vec<_> = pairs.filter(|(expected, found)| expected != found).take(10).collect();
    assert!(differ.is_empty(), "{what}: expected and found: {differ:#?}");
    assert_eq!(expected.lines().count(), found.lines().count(), "{what}: lines");
}
