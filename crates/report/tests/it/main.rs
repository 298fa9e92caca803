//! Golden texts, documents and pictures of fixed observations.

mod advice;
mod change;
mod check;
mod golden;
mod lab;
mod profile;
#[path = "../../../trace/tests/it/recorded.rs"]
mod recorded;
#[path = "../../../trace/tests/it/runs.rs"]
mod runs;
#[path = "../../../trace/tests/it/scenario.rs"]
mod scenario;
mod timeline;
mod views;

/// A coloured text without its styles.
fn unstyled(coloured: &str) -> String {
    assert!(coloured.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = coloured;
    while let Some((before, style)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = style.split_once('m').unwrap().1;
    }
    plain + rest
}
