//! Golden texts, documents and pictures of fixed observations.

mod change;
mod golden;
mod lab;
mod pipeline;
#[path = "../../../trace/tests/it/runs.rs"]
mod runs;
#[path = "../../../trace/tests/it/scenario.rs"]
mod scenario;
mod timeline;
