//! `faultless lab predict` from outside: its answers, its pages, and its refusals.

use std::fs;
use std::process::{Command, Stdio};

fn predict(words: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_faultless-lab")).arg("predict").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const SMALL: [&str; 6] = ["--threads", "1..4", "--nodes", "1,2", "--samples", "4"];

#[test]
fn a_forecast_is_a_table_of_ranges_and_repeats() {
    let (code, text, said) = predict(&SMALL);
    assert_eq!(code, Some(0), "{said}");
    let rows: Vec<_> = text.lines().filter(|line| line.trim_start().starts_with(['1', '2'])).collect();
    assert_eq!(rows.len(), 6, "{text}");
    assert!(rows.iter().all(|row| row.contains(" to ")), "{text}");
    assert!(text.contains("It is a model's, not measured."), "{text}");
    assert_eq!(predict(&SMALL).1, text);
    let (_, other, _) = predict(&[&SMALL[..], &["--seed", "2"]].concat());
    assert_ne!(other, text);
}

#[test]
fn json_and_the_page_hold_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let words = [&SMALL[..], &["--json", "-o", page.to_str().unwrap()]].concat();
    let (code, json, said) = predict(&words);
    assert_eq!(code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["schema"].as_u64(), json["forecasts"].as_array().map(Vec::len)), (Some(1), Some(6)));
    assert!(json["parameters"]["batch"].is_array(), "{json}");
    let gain = &json["forecasts"][0]["stocked_gain"];
    assert!(gain["low"].as_f64().unwrap() <= gain["high"].as_f64().unwrap(), "{json}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && page.contains("2 nodes"));
}

#[test]
fn the_printed_defaults_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(&file, predict(&["--defaults"]).1).unwrap();
    let mine = predict(&[&SMALL[..], &["--parameters", file.to_str().unwrap()]].concat());
    assert_eq!(mine, predict(&SMALL));
}

#[test]
fn wrong_words_and_files_are_answered_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(&file, "btach = 63\n").unwrap();
    for (words, expected) in [
        (&["--threads", "none"][..], "expected numbers from 1 to 2048"),
        (&["--threads", "512", "--nodes", "1"][..], "fewer --threads"),
        (&["--samples", "1"][..], "expected a number from 4 to 10000"),
        (&["--parameters", file.to_str().unwrap()][..], "there is no parameter btach"),
        (&["--parameters", "/nowhere"][..], "name a file like that of `faultless lab predict --defaults`"),
        (&["-o", "/proc/page.html"][..], "name a FILE that can be written"),
        (&["--validate", "--this-host"][..], "cannot be used with"),
        (&["--threds", "1"][..], "--threads"),
    ] {
        let (code, _, said) = predict(words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{words:?}: {said}");
    }
}

#[test]
fn help_fits_a_screen() {
    let (code, help, _) = predict(&["-h"]);
    assert_eq!(code, Some(0));
    assert!(help.lines().count() <= 50, "{help}");
}

#[test]
fn an_interrupted_forecast_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let child = Command::new(env!("CARGO_BIN_EXE_faultless-lab"))
        .args(["predict", "--samples", "10000", "-o", page.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
