//! Searches that `faultless index watch` answers are those that `faultless grep` would have run.
//!
//! To tell them apart, a test takes the text of the database away: the watch has it open, and nobody else finds it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::index::{Sandbox, wait};
use crate::{corpus, queries};

/// A watch of a sandbox. It is killed in the end.
struct Watch {
    process: Child,
    socket: PathBuf,
}

impl Watch {
    fn new(sandbox: &Sandbox) -> Self {
        let log = sandbox.home.join("watch.log");
        let process = sandbox
            .command(&["watch", "--quiet", "1h"])
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let socket = folder(sandbox).join("socket");
        // A client that comes too early searches by itself. The first update could meet a file half written.
        wait(|| fs::read_to_string(&log).unwrap().contains("in the database"));
        assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Self { process, socket }
    }

    /// Runs `of` as if there were no watch.
    fn without<T>(&self, of: impl FnOnce() -> T) -> T {
        let away = self.socket.with_extension("away");
        fs::rename(&self.socket, &away).unwrap();
        let result = of();
        fs::rename(away, &self.socket).unwrap();
        result
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.tree.join(".faultless/grep")
}

/// A tree of one file with a line that matches, and its database.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new(&[("src/a.c", "int fork(void)\n")]);
    sandbox.out(&["init"]);
    sandbox
}

/// Takes the text away that a new process would read.
fn hide_text(folder: &Path) {
    let is_text = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "segment");
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_text) {
        fs::rename(&path, path.with_extension("away")).unwrap();
    }
}

/// Status, and the lines of both streams. The order of files is free.
fn sorted(output: &Output) -> (Option<i32>, Vec<&[u8]>, Vec<&[u8]>) {
    (output.status.code(), lines(&output.stdout), lines(&output.stderr))
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|byte| b"\0\n".contains(byte)).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_watch_answers_searches_of_its_tree_for_its_owner_alone() {
    let sandbox = sandbox();
    let watch = Watch::new(&sandbox);
    assert_eq!(fs::metadata(&watch.socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(sandbox.out(&["fork"]), "src/a.c:int fork(void)\n");
    hide_text(&folder(&sandbox));
    assert_eq!(sandbox.out(&["fork"]), "src/a.c:int fork(void)\n");
    assert_eq!(sandbox.out(&["-n", "--column", "fork"]), "src/a.c:1:5:int fork(void)\n");
    let below = sandbox.command(&["fork"]).current_dir(sandbox.tree.join("src")).output().unwrap();
    assert_eq!(below.stdout, b"a.c:int fork(void)\n");
    assert_eq!(sandbox.run(&["spoon"]).status.code(), Some(1));
    let wrong = sandbox.run(&["("]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("faultless: "), "{wrong:?}");
    // What needs files of the client's folder is no search for the watch.
    let named = sandbox.run(&["fork", "src"]);
    assert!(String::from_utf8_lossy(&named.stderr).contains("segment"), "{named:?}");
}

#[test]
fn answers_are_what_a_search_alone_prints() {
    let sandbox = Sandbox::new(&[]);
    let rng = &mut Rng::with_seed(21);
    corpus::write(&sandbox.tree, rng);
    sandbox.out(&["init"]);
    let watch = Watch::new(&sandbox);
    for _ in 0..70 {
        let words = queries::query(rng);
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.push("-g!/long");
        if words.contains(&"--stats") {
            continue;
        }
        let answered = sandbox.run(&words);
        let alone = watch.without(|| sandbox.run(&words));
        if words.contains(&"--json") {
            assert_eq!(answered.status, alone.status, "{words:?}");
            continue;
        }
        assert_eq!(sorted(&answered), sorted(&alone), "{words:?}");
    }
}

#[test]
fn a_search_goes_on_alone_where_nobody_answers() {
    let sandbox = sandbox();
    let path = folder(&sandbox).join("socket");
    let expected = "src/a.c:int fork(void)\n";
    // A watch was killed.
    drop(UnixListener::bind(&path).unwrap());
    assert_eq!(sandbox.out(&["fork"]), expected);
    fs::remove_file(&path).unwrap();
    // Another version, which closes; and one that says nothing.
    let listener = UnixListener::bind(&path).unwrap();
    let other = std::thread::spawn(move || {
        drop(listener.accept().unwrap());
        let silent = listener.accept().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        drop(silent);
    });
    let output = sandbox.run(&["fork"]);
    assert_eq!((output.stdout, output.stderr), (expected.into(), Vec::new()));
    let begin = Instant::now();
    let output = sandbox.run(&["fork"]);
    assert_eq!((output.stdout, output.stderr), (expected.into(), Vec::new()));
    assert!(begin.elapsed() >= Duration::from_millis(500), "it waited for an answer");
    other.join().unwrap();
}

#[test]
fn a_search_whose_watch_is_killed_says_that_lines_may_be_missing() {
    let sandbox = Sandbox::new(&[("a", &"fork\n".repeat(1_000_000))]);
    sandbox.out(&["init"]);
    let watch = Watch::new(&sandbox);
    let mut search =
        sandbox.command(&["fork"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = search.stdout.take().unwrap();
    // It has begun, and waits for us to read on.
    out.read_exact(&mut [0; 100]).unwrap();
    drop(watch);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < 7_000_000, "it was cut");
    let output = search.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("lines may be missing"), "{said}");
    assert_eq!(sandbox.out(&["-c", "fork"]), "a:1000000\n");
}

#[test]
fn a_watch_survives_clients_that_are_killed_or_send_nonsense() {
    let sandbox = Sandbox::new(&[("a", &"fork\n".repeat(1_000_000))]);
    sandbox.out(&["init"]);
    let watch = Watch::new(&sandbox);
    let rng = &mut Rng::with_seed(4);
    for turn in 0..30 {
        let mut client = std::os::unix::net::UnixStream::connect(&watch.socket).unwrap();
        let length = rng.u32(..2_000) + if turn % 3 == 0 { 1 << 30 } else { 0 };
        let nonsense: Vec<u8> = (0..rng.usize(..2_000)).map(|_| rng.u8(..)).collect();
        let _ = client.write_all(&length.to_le_bytes()).and_then(|()| client.write_all(&nonsense));
        let mut search = sandbox.command(&["fork"]).stdout(Stdio::piped()).spawn().unwrap();
        search.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        search.kill().unwrap();
        search.wait().unwrap();
    }
    hide_text(&folder(&sandbox));
    assert_eq!(sandbox.out(&["-c", "fork"]), "a:1000000\n");
}

#[test]
fn an_answer_has_the_newest_line_of_a_file_that_changes() {
    let sandbox = sandbox();
    let _watch = Watch::new(&sandbox);
    for number in 0..200 {
        fs::write(sandbox.tree.join("src/a.c"), format!("int fork({number})\n")).unwrap();
        assert_eq!(sandbox.out(&["fork"]), format!("src/a.c:int fork({number})\n"));
    }
}
