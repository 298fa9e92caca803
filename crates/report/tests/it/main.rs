//! Golden texts, documents and pictures of fixed observations.

mod golden;
#[path = "../../../trace/tests/it/scenario.rs"]
mod scenario;
