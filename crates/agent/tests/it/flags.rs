//! What the agent refuses to start with, in one line that says what to change.

use std::net::TcpListener;
use std::process::Command;

use crate::agent::{Agent, PROGRAM, talk};

fn refused(words: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(words).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{words:?}: {said}");
    assert!(said.starts_with("faultless: "), "{said}");
    said
}

#[test]
fn wrong_flags_are_named_with_what_they_take() {
    for (words, why) in [
        (&["--interval", "500ms"][..], "1s to 300s"),
        (&["--interval", "15"], "200ms or 1s"),
        (&["--top", "0"], "from 1 to 1000"),
        (&["--budget", "0"], "above 0"),
        (&["--listen", "nowhere"], "--listen"),
        (&["--otlp", "collector:4318"], "http://HOST:PORT"),
        (&["--tls-cert", "cert.pem"], "--tls-key"),
        (&["--push-token-file", "token"], "--otlp"),
        (&["--pprof", "http://pyroscope:4040"], "--record"),
        (&["--once", "--listen", "127.0.0.1:0"], "--listen"),
        (&["--nonsense"], "--nonsense"),
    ] {
        let said = refused(words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
}

#[test]
fn beyond_this_machine_it_wants_a_token_and_tls() {
    for words in [&["--listen", "0.0.0.0:0"][..], &["--listen", "[::]:0", "--token-file", "/nowhere"]] {
        let said = refused(words);
        assert!(said.contains("--token-file") && said.contains("--tls-cert"), "{said}");
    }
}

#[test]
fn files_that_are_missing_or_hold_something_else_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("empty"), "\n").unwrap();
    std::fs::write(path("two"), "a b").unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    for (words, why) in [
        (["--token-file", &path("none"), "", ""], "No such file"),
        (["--token-file", &path("empty"), "", ""], "no token"),
        (["--token-file", &path("two"), "", ""], "no token"),
        (["--record", &path("empty/below"), "", ""], "--record DIR"),
        (["--tls-cert", &path("none"), "--tls-key", &path("none")], "No such file"),
        (["--tls-cert", &path("empty"), "--tls-key", &path("empty")], "certificate chain in PEM"),
        (["--otlp", "https://localhost:1", "--ca-file", &path("empty")], "no certificate in it"),
    ] {
        let words: Vec<&str> =
            listen.into_iter().chain(words.into_iter().filter(|word| !word.is_empty())).collect();
        let said = refused(&words);
        assert!(said.contains(why) && said.contains(folder.path().to_str().unwrap()), "{words:?}: {said}");
    }
}

#[test]
fn a_port_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let said = refused(&["--listen", &taken.local_addr().unwrap().to_string()]);
    assert!(said.contains("in use") && said.contains("choose another"), "{said}");
}

#[test]
fn with_a_token_only_its_bearer_sees_metrics() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "s3cret\n").unwrap();
    let agent = Agent::start(&["--token-file", file.path().to_str().unwrap()]);
    assert_eq!(agent.get("/metrics", "").status, 401);
    assert_eq!(agent.get("/metrics", "Authorization: Bearer s3cre\r\n").status, 401);
    assert_eq!(agent.get("/metrics", "Authorization: Bearer s3cret\r\n").status, 200);
    assert_eq!(agent.get("/healthz", "").status, 200);
}

#[test]
fn garbage_and_silence_leave_it_answering() {
    let agent = Agent::start(&[]);
    let answer = String::from_utf8(talk(agent.address, b"\x16\x03\x01 this is no HTTP\r\n\r\n")).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    // More silent connections than it serves at a time: they end by themselves, in ten seconds at most.
    let silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(agent.address).unwrap()).collect();
    drop(silent);
    crate::agent::until("an answer", || {
        talk(agent.address, b"GET /healthz HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 200")
    });
}

#[test]
fn the_manual_and_the_completions_are_made() {
    for words in [&["man"][..], &["completions", "bash"]] {
        let output = Command::new(PROGRAM).args(words).output().unwrap();
        assert!(output.status.success() && output.stdout.len() > 500, "{words:?}");
    }
}
