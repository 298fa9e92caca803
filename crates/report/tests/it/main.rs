//! Golden texts, documents and pictures of fixed observations.

mod golden;
mod lab;
#[path = "../../../trace/tests/it/scenario.rs"]
mod scenario;
