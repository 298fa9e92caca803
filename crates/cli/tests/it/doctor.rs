//! `faultless doctor` as a user runs it. Guards against output that a reader or a script cannot use.

use std::process::Command;

use faultless_wants as wants;

use crate::machine;

/// Seconds of a `1m2.3s` of a shell's.
fn seconds(time: &str) -> f64 {
    let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
}

#[test]
fn text_begins_with_the_verdict_and_comes_within_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let times = folder.path().join("times");
    // The shell tells the CPU time of its children: how long they wait for a processor is not theirs to say.
    let script = "\"$0\" doctor; code=$?; times >\"$1\"; exit $code";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_faultless"), times.to_str().unwrap()])
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let times = std::fs::read_to_string(times).unwrap();
    let seconds: f64 = times.lines().nth(1).unwrap().split_whitespace().map(seconds).sum();
    assert!(seconds > 0.0 && seconds < 15.0, "{times}");
    assert!(output.stderr.is_empty(), "no bar without a terminal");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("A first touch costs "), "{text}");
    for part in ["Prices", "What faultless can do here", "first touch (write) of a base page"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "a line is too long in\n{text}");
}

#[test]
fn a_narrow_terminal_gets_narrow_text() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_faultless")).arg("doctor").env("COLUMNS", "40").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Names and paths are not wrapped, so that they can be pasted.
    let long = |line: &&str| line.chars().count() > 40 && line.split(' ').all(|word| word.len() < 18);
    assert_eq!(text.lines().find(long), None, "in\n{text}");
}

#[test]
fn json_has_a_version_prices_settings_and_capabilities() {
    let output = Command::new(env!("CARGO_BIN_EXE_faultless")).args(["doctor", "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let prices = json["prices"].as_array().unwrap();
    let touch = prices.iter().find(|price| price["id"] == "first_touch").unwrap();
    assert!(touch["median_ns"].as_f64().is_some_and(|ns| ns > 50.0), "{touch}");
    for price in prices {
        assert_ne!(price["median_ns"].is_null(), price["cannot_say"].is_null(), "{price}");
        assert_eq!(price["median_ns"].is_null(), price["resolution_ns"].is_null(), "{price}");
    }
    let capabilities = json["capabilities"].as_array().unwrap();
    assert!(!capabilities.is_empty());
    for capability in capabilities {
        assert_eq!(capability["here"].as_bool().unwrap(), capability["change"].is_null(), "{capability}");
    }
    assert!(!json["settings"].as_array().unwrap().is_empty());
}

#[test]
fn a_check_says_of_a_program_that_times_itself_what_the_measuring_verbs_say() {
    if !machine::recorder() || !machine::sigint() {
        return;
    }
    // The rounds until Ctrl-C are a check too, of fewer intervals.
    let checked = |seconds: &str| {
        let words =
            ["--signal=INT", seconds, env!("CARGO_BIN_EXE_faultless"), "doctor", "--check=20 ms", "--json"];
        let output = Command::new("timeout").args(words).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let is_long = |json: &serde_json::Value| json["programs"][0]["record"]["intervals"].as_u64() >= Some(2);
    let json = ["6", "30", "120"].into_iter().map(checked).find(is_long).expect("two rounds in two minutes");
    let [row] = &json["programs"].as_array().unwrap()[..] else { panic!("one program: {json}") };
    // 8 rounds of 2048 pages, each touched once. The kernel may have mapped a few of them early.
    let faults = row["faults"][0][1].as_u64().unwrap();
    assert!((16_300..=16_384).contains(&faults), "{row}");
    let truth_ns = row["truth_ns"].as_f64().unwrap();
    assert!((50.0..100_000.0).contains(&(truth_ns / faults as f64)), "{row}");
    for verb in ["stat", "record"] {
        if row[verb]["ratio"].is_null() {
            wants::missing_feature("perf events", format_args!("{verb} can time no faults"));
            continue;
        }
        let ratio = row[verb]["ratio"]["value"].as_f64().unwrap();
        assert!((0.3..4.0).contains(&ratio), "{row}");
    }
}

#[test]
fn a_check_of_no_program_names_those_that_there_are() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_faultless")).args(["doctor", "--check=nothing"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.lines().count() == 1 && said.contains("there are: first touch, 20 ms;"), "{said}");
}
