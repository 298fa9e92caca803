//! Compiling test programs and running commands with and without the pool, with a time limit.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest a program may take; beyond, it hangs.
const TIME_LIMIT: Duration = Duration::from_secs(240);

/// A command with its surroundings.
pub(crate) struct Case {
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    limit: Option<[String; 2]>,
    directory: Option<PathBuf>,
}

/// What a finished command left.
pub(crate) struct Output {
    pub(crate) stdout: String,
    #[allow(dead_code, reason = "only some of the test files look at it")]
    pub(crate) stderr: String,
}

impl Case {
    /// A command as it is.
    pub(crate) fn plain(program: impl Into<OsString>) -> Self {
        Self { command: vec![program.into()], environment: Vec::new(), limit: None, directory: None }
    }

    /// A command under `faultless run OPTIONS --`.
    pub(crate) fn pooled(program: impl Into<OsString>, options: &[&str]) -> Self {
        let mut case = Self::plain(env!("CARGO_BIN_EXE_faultless"));
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
pub(crate) fn run(case: Case) -> Output {
    let mut words = case.command.clone();
    if let Some([flag, value]) = &case.limit {
        let script = format!("ulimit {flag} {value} && exec \"$0\" \"$@\"");
        words.splice(0..0, ["sh".into(), "-c".into(), script.into()]);
    }
    let (out, err) = (scratch("stdout"), scratch("stderr"));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(case.environment).stdin(Stdio::null());
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    if let Some(directory) = case.directory {
        command.current_dir(directory);
    }
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > TIME_LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{words:?} hangs");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let output = Output { stdout: text(&out), stderr: text(&err) };
    let signal = status.signal();
    assert!(status.success(), "{words:?}: {status}, signal {signal:?}\n{}\n{}", output.stdout, output.stderr);
    output
}
