//! `faultless compare` as a user types it.

use std::process::{Command, Output};

use crate::{FAULTLESS, text};

fn compare(words: &[&str]) -> Output {
    Command::new(FAULTLESS).arg("compare").args(words).output().unwrap()
}

#[test]
fn a_command_with_more_faults_is_told_from_one_with_fewer() {
    let touch = |mib: u32| format!("'{FAULTLESS}' workload --quiet touch-once --mib {mib}");
    let out = compare(&["-n", "8", "--json", &touch(4), &touch(16)]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(found["rounds"], 8);
    let [few, many] = [0, 1].map(|index| &found["commands"][index]);
    assert!(few["faults"]["ratio"].is_null());
    let ratio = |end: &str| many["faults"]["ratio"][end].as_f64().unwrap();
    assert!(ratio("low") > 1.5 && ratio("value") <= ratio("high"), "{}", many["faults"]);
    let rss = many["peak_rss_bytes"]["ratio"]["low"].as_f64().unwrap();
    assert!(rss > 1.2, "{rss}");
}

#[test]
fn the_text_names_each_command_by_a_letter_and_the_picture_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("compare.svg");
    let out = compare(&["-n", "8", "--svg", svg.to_str().unwrap(), "true", "true;true"]);
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(said.contains("\n  A  true\n  B  true;true\n") && said.contains("peak RSS"), "{said}");
    assert!(
        said.starts_with("B ") || said.starts_with("No difference in time is shown between B and A"),
        "{said}"
    );
    assert!(std::fs::read_to_string(svg).unwrap().contains("8 rounds"));
}

#[test]
fn a_failing_command_has_no_ratio_and_is_told() {
    let out = compare(&["-n", "8", "true", "false"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stdout)
            .starts_with("B: no verdict, for 8 of 8 runs ended with status 1, those of A with status 0."),
        "{}",
        text(&out.stdout)
    );
    assert!(text(&out.stderr).contains("false ends with"), "{}", text(&out.stderr));
    assert!(
        text(&out.stdout).contains("warning: 8 of 8 runs of B ended with status 1"),
        "{}",
        text(&out.stdout)
    );
}

#[test]
fn commands_that_print_different_things_are_compared_and_the_user_told() {
    let said = text(&compare(&["-n", "8", "echo a", "echo b"]).stdout);
    assert!(said.contains("\nnote: B does not print what A prints") && said.contains(" times ("), "{said}");
}

#[test]
fn what_cannot_be_compared_is_said_in_one_line() {
    let said = |words: &[&str]| {
        let out = compare(words);
        assert_eq!(out.status.code(), Some(2), "{words:?}");
        text(&out.stderr)
    };
    assert!(said(&["true"]).contains("COMMAND"));
    assert!(said(&["true", "echo 'a"]).contains("a quote is not closed"));
    assert!(said(&["-n", "3", "true", "true"]).contains("from 8 to 1000"));
    let four = said(&["-n", "8", "true", "true", "true", "true"]);
    assert!(four.contains("4 commands need 10 rounds or more"), "{four}");
}

#[test]
fn three_others_are_compared_in_ten_rounds_and_their_time_is_told() {
    let out = compare(&["-n", "10", "--json", "true", "true", "true", "true"]);
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!((1..4).all(|at| found["commands"][at]["wall_ns"]["ratio"].is_object()), "{found}");
    let said = text(&out.stderr);
    assert!(said.starts_with("faultless: 4 commands: 10 rounds, at most about "), "{said}");
}
