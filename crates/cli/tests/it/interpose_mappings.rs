//! Programs that map memory for themselves, under `run --mappings`.
//!
//! Guards against mappings that are not as the kernel's: with old content, with pages that the program had protected or
//! unmapped, in a place that the program uses otherwise; and against memory that never goes back.

use std::path::PathBuf;

use crate::interposed::{Case, compile, run};

/// Options that a program which maps for itself runs under.
const MAPPINGS: [&[&str]; 5] = [
    &["--mappings", "thp"],
    &["--mappings", "recycle"],
    &["--mappings", "recycle", "--policy", "base", "--decay", "20ms"],
    &["--mappings", "recycle", "--retain", "0"],
    &["--mappings", "recycle", "--prefault", "populate", "--threshold", "16K"],
];

fn program() -> Option<PathBuf> {
    compile("mappings.c", &["-pthread"])
}

#[test]
fn mappings_are_as_those_of_the_kernel() {
    let Some(program) = program() else { return };
    for way in ["rounds", "parts", "altered", "moved", "again", "seen", "threads", "forks", "limit", "locked"]
    {
        assert_eq!(run(Case::plain(&program).args(&[way])).stdout, "done\n", "{way}: the program is right");
        for options in MAPPINGS {
            assert_eq!(
                run(Case::pooled(&program, options).args(&[way])).stdout,
                "done\n",
                "{way} {options:?}"
            );
        }
    }
}

/// The numbers that the program prints.
fn numbers(options: &[&str], words: &[&str]) -> Option<[i64; 2]> {
    let output = run(Case::pooled(program()?, options).args(words));
    let line = output.stdout.lines().next().unwrap_or_default();
    let found: Vec<i64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    Some(found.try_into().unwrap())
}

#[test]
fn a_mapping_that_is_made_again_and_again_faults_once() {
    let recycle: &[&str] = &["--mappings", "recycle", "--policy", "base"];
    for len in ["64", "260", "1024", "2048", "16384"] {
        let Some([off, pages]) = numbers(&["--mappings", "off", "--policy", "base"], &["faults", len, len])
        else {
            return;
        };
        let [kept, _] = numbers(recycle, &["faults", len, len]).unwrap();
        assert!(off > pages / 20, "{len}: {off} faults of {pages} pages");
        assert!(kept * 20 < pages, "{len}: {kept} faults of {pages} pages");
        // Zeroing all of a mapping must not cost more faults than it has touches.
        let [sparse, touches] = numbers(recycle, &["faults", len, "4"]).unwrap();
        assert!(sparse < 4 * touches, "{len}: {sparse} faults of {touches} touches");
    }
}

#[test]
fn the_pages_of_mappings_go_back() {
    let Some([begin, end]) = numbers(&["--mappings", "recycle", "--decay", "100ms"], &["rests"]) else {
        return;
    };
    assert!(begin > 100 && end <= 40, "{begin} MiB, then {end} MiB");
}

#[test]
fn the_report_says_how_many_mappings_were_served() {
    let Some(program) = program() else { return };
    let options = ["--mappings", "recycle", "--summary-format", "json"];
    let said = run(Case::pooled(&program, &options).args(&["faults", "256", "256"])).stderr;
    let report: serde_json::Value = serde_json::from_str(said.lines().last().unwrap_or_default()).unwrap();
    assert_eq!(report["mappings"], 100, "{said}");
    let text =
        run(Case::pooled(&program, &["--mappings", "recycle", "--summary"]).args(&["faults", "256", "4"]));
    assert!(text.stderr.contains(" 100 mappings from the pool"), "{}", text.stderr);
}
