//! Parses any text as a project file. The result is rules, or an error that names the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let path = Path::new("/projects/a.project");
    if let Err(error) = faultless_grepdb::engine::parse_project(path, text) {
        let said = error.to_string();
        assert!(said.contains("a.project") && !said.trim_end().is_empty());
    }
});
