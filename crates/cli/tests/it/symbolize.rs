//! `symbolize`: a stripped program, recorded without names, has the names of the program that was not stripped, from a
//! folder of debug files and from a server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use faultless_trace::recording::{Name, Recording};
use faultless_wants as wants;

use crate::{FAULTLESS, machine, text};

/// Faults in two functions, one of them inlined into the other.
const SOURCE: &str = "\
#include <stdlib.h>
static inline __attribute__((always_inline)) void touch(volatile char *at) { *at = 1; }
__attribute__((noinline)) static void fill_it(volatile char *p, long len) {
    for (long i = 0; i < len; i += 4096)
        touch(p + i);
}
int main(void) { fill_it(malloc(4l << 20), 4l << 20); }
";

fn load(path: &Path) -> Recording {
    faultless_trace::file::read(&fs::read(path).unwrap()).unwrap()
}

/// The names of the program's places, by their addresses.
fn names(recording: &Recording) -> BTreeMap<u64, Vec<Name>> {
    let stacks = &recording.stacks;
    let is_program = |module: u32| stacks.modules[module as usize].path.ends_with("/program");
    let frames = stacks.frames.iter().filter(|frame| frame.module.is_some_and(is_program));
    frames.map(|frame| (frame.address, frame.names.clone())).collect()
}

/// A folder with the trace `named` of a whole program, and the trace `bare` of it stripped.
struct Recorded {
    folder: tempfile::TempDir,
    build_id: String,
}

impl Recorded {
    /// `None`: the machine can't do it.
    fn new() -> Option<Self> {
        if !machine::recorder() || !wants::program("cc", "gcc") || !wants::program("strip", "binutils") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.c"), SOURCE).unwrap();
        let run = |words: &str| {
            let out = Command::new("sh").args(["-c", words, FAULTLESS]).current_dir(folder.path()).output();
            let out = out.unwrap();
            assert!(out.status.success(), "{words}: {}", text(&out.stderr));
            text(&out.stderr)
        };
        run("cc -g -O1 -Wl,--build-id -o program a.c && objcopy --only-keep-debug program program.debug");
        run("\"$0\" record --all -o named -- ./program");
        run("strip program");
        let said = run("\"$0\" record --all --no-symbols -o bare -- ./program");
        let is_told = said.contains("faultless symbolize --debuginfod URL|DIR bare");
        assert!(is_told || !said.contains("faultless report"), "{said}");
        let recording = load(&at("named"));
        if !machine::events(&recording) {
            return None;
        }
        let module = recording.stacks.modules.iter().find(|module| module.path.ends_with("/program"));
        let build_id = module.unwrap().build_id.clone().unwrap();
        // Nothing of the program is left on this machine.
        fs::remove_file(at("program")).unwrap();
        fs::remove_file(at("a.c")).unwrap();
        Some(Self { folder, build_id })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Moves the debug file to a place below the folder.
    fn debug_file_to(&self, place: &str) {
        let to = self.at(place);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(self.at("program.debug"), to).unwrap();
    }

    /// Status and stderr of `symbolize`.
    fn symbolize(&self, words: &str) -> (Option<i32>, String) {
        let mut command = Command::new(FAULTLESS);
        command.arg("symbolize").args(words.split_whitespace()).current_dir(self.folder.path());
        command.env("DEBUGINFOD_CACHE_PATH", self.at("cache"));
        let out = command.output().unwrap();
        (out.status.code(), text(&out.stderr))
    }

    /// A trace has the names of the run that was not stripped.
    fn is_named(&self, trace: &str, said: &str) {
        let (named, after) = (names(&load(&self.at("named"))), names(&load(&self.at(trace))));
        let both = after.iter().filter(|(address, _)| named.contains_key(address));
        let both: Vec<_> = both.map(|(address, names)| (names, &named[address])).collect();
        assert!(both.len() >= 2, "{after:?} {named:?}");
        for (after, named) in both {
            assert_eq!(after, named, "{said}");
        }
        let functions: Vec<&str> = after.values().flatten().map(|name| name.function.as_str()).collect();
        assert!(["touch", "fill_it", "main"].iter().all(|name| functions.contains(name)), "{functions:?}");
    }
}

#[test]
fn a_trace_without_names_is_named_from_a_folder_of_debug_files() {
    let Some(recorded) = Recorded::new() else { return };
    let before = fs::read(recorded.at("bare")).unwrap();
    assert!(names(&load(&recorded.at("bare"))).values().all(Vec::is_empty), "without names");
    let (status, said) = recorded.symbolize("bare");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("/program: ") && said.contains(&recorded.build_id), "{said}");
    let (begin, rest) = recorded.build_id.split_at(2);
    recorded.debug_file_to(&format!("debug/.build-id/{begin}/{rest}.debug"));
    let (_, said) = recorded.symbolize("--debuginfod debug -o copy bare");
    assert!(said.contains("places have names, ") && !said.contains("/program: "), "{said}");
    recorded.is_named("copy", &said);
    assert!(fs::read(recorded.at("copy")).unwrap().starts_with(&before), "names are added behind");
    recorded.symbolize("--debuginfod debug bare");
    recorded.is_named("bare", "in place");
    let mut report = Command::new(FAULTLESS);
    report.args(["report", "--by", "site", "bare"]).current_dir(recorded.folder.path());
    assert!(text(&report.output().unwrap().stdout).contains("touch"), "the views use them");
}

/// A server of the debuginfod protocol on this machine, with one file; and the requests that it gets.
fn server(build_id: &str, content: Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (seen, has) = (Arc::clone(&asked), format!("/buildid/{build_id}/debuginfo"));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The reader may close early.
            let _ = answer(stream, &has, &content, &seen);
        }
    });
    (url, asked)
}

fn answer(stream: TcpStream, has: &str, content: &[u8], seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut stream = stream;
    let (status, body) = if path == has { ("200 OK", content) } else { ("404 Not Found", &b"not found"[..]) };
    seen.lock().unwrap().push(path);
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

#[test]
fn a_trace_without_names_is_named_by_a_server_and_its_file_is_kept() {
    let Some(recorded) = Recorded::new() else { return };
    let content = fs::read(recorded.at("program.debug")).unwrap();
    let bytes = content.len();
    let (url, asked) = server(&recorded.build_id, content);
    let (_, said) = recorded.symbolize(&format!("--debuginfod {url}/ -o first bare"));
    recorded.is_named("first", &said);
    assert!(said.contains("fetched the debug file of "), "{bytes} bytes: {said}");
    let path = format!("/buildid/{}/debuginfo", recorded.build_id);
    assert!(asked.lock().unwrap().contains(&path), "{asked:?}");
    asked.lock().unwrap().clear();
    let (_, said) = recorded.symbolize(&format!("--debuginfod {url} -o second bare"));
    recorded.is_named("second", &said);
    assert!(!asked.lock().unwrap().contains(&path), "it is in the cache of debuginfod's clients");
    let (_, said) = recorded.symbolize("--debuginfod cache -o third bare");
    recorded.is_named("third", &said);
}

#[test]
fn a_server_that_lies_or_is_down_is_named_and_the_trace_stays() {
    let Some(recorded) = Recorded::new() else { return };
    let before = fs::read(recorded.at("bare")).unwrap();
    let (url, _) = server(&recorded.build_id, b"noise".to_vec());
    let (status, said) = recorded.symbolize(&format!("--debuginfod {url} -o copy bare"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("not the debug file of this build id"), "{said}");
    assert!(!recorded.at("cache").join(&recorded.build_id).join("debuginfo").exists());
    // A port that was just free.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (status, said) = recorded.symbolize(&format!("--debuginfod http://127.0.0.1:{port} -o copy bare"));
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("asked no more")).count(), 1, "{said}");
    assert_eq!(fs::read(recorded.at("bare")).unwrap(), before);
}

#[test]
fn wrong_words_are_one_line_with_a_remedy() {
    let traces = crate::traced::Traces::new();
    fs::write(traces.path("text"), "hello").unwrap();
    fs::write(traces.path("perf.data"), "PERFILE2").unwrap();
    for (words, remedy) in [
        ("nowhere", "name a trace FILE"),
        ("text", "no trace file"),
        ("perf.data", "faultless record"),
        ("--debuginfod nowhere old", "name a DIR"),
        ("--debuginfod ftp://x old", "begins with http"),
        ("-o missing/x old", "name a FILE"),
    ] {
        let said = traces.refused(&format!("symbolize {words}"));
        assert!(said.contains(remedy), "{words}: {said}");
    }
}
