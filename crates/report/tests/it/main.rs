//! Golden texts, documents and pictures of fixed observations.

mod golden;
mod lab;
mod profile;
#[path = "../../../trace/tests/it/recorded.rs"]
mod recorded;
#[path = "../../../trace/tests/it/scenario.rs"]
mod scenario;
