//! The end of `cargo test`: the records of a run -> a list on stdout, and a failure if too much was skipped.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use crate::allowed::Allowed;
use crate::record::{self, Kind, Record};

/// Prints what was skipped since this `cargo test` began. Fails if `FAULTLESS_TEST_REQUIRE=all` and more was
/// skipped than `missing.txt` allows.
#[must_use]
pub fn main() -> ExitCode {
    // Tools that only ask for test names get none.
    if std::env::args().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let records = record::take();
    print!("{}", text(&records));
    let excess = if crate::requires_all() { excess(&records, &Allowed::committed()) } else { Vec::new() };
    for line in &excess {
        println!("{}=all: {line}", crate::REQUIRE);
    }
    if excess.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A paragraph for each missing thing: a line with the reason, then a line for each test.
fn text(records: &[Record]) -> String {
    let tests: BTreeSet<_> = records.iter().map(test).collect();
    let mut text = match tests.len() {
        0 => "nothing was skipped\n".to_owned(),
        1 => "1 test skipped all or a part of it\n".to_owned(),
        count => format!("{count} tests skipped all or a part of them\n"),
    };
    let mut last = None;
    for record in records {
        let Record { kind, what, package, test, location, why } = record;
        if last != Some((kind, what)) {
            let _ = writeln!(text, "  no {} {what}", kind.word());
            last = Some((kind, what));
        }
        let _ = writeln!(text, "    {package} {test} ({location}): {why}");
    }
    text
}

/// Identifies a test. If all tests share a thread, only the location does.
fn test(record: &Record) -> (&str, &str, &str) {
    let file = record.location.split(':').next().unwrap_or_default();
    let location = if record.test == "a test" { record.location.as_str() } else { file };
    (&record.package, &record.test, location)
}

/// A line for each thing that may not be missing, or is missing in too many tests.
fn excess(records: &[Record], allowed: &Allowed) -> Vec<String> {
    let missing: BTreeSet<_> = records.iter().map(|record| (record.kind, record.what.as_str())).collect();
    let mut lines = Vec::new();
    for (kind, what) in missing.into_iter().filter(|(kind, _)| *kind != Kind::Request) {
        let of_it = records.iter().filter(|record| (record.kind, record.what.as_str()) == (kind, what));
        let tests: BTreeSet<_> = of_it.map(test).collect();
        let most = allowed.tests(kind, what);
        if tests.len() > most {
            let names: Vec<&str> = tests.iter().map(|(_, test, _)| *test).collect();
            lines.push(format!(
                "{} {what} is missing in {} tests, missing.txt allows {most}: {}",
                kind.word(),
                tests.len(),
                names.join(", ")
            ));
        }
    }
    lines
}
