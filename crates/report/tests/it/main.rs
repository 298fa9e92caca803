//! Golden texts, documents and pictures of fixed observations.

mod advice;
mod change;
mod golden;
mod lab;
mod pipeline;
mod profile;
#[path = "../../../trace/tests/it/recorded.rs"]
mod recorded;
#[path = "../../../trace/tests/it/runs.rs"]
mod runs;
#[path = "../../../trace/tests/it/scenario.rs"]
mod scenario;
mod spread;
mod timeline;
mod views;
