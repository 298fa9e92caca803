//! The last test program of `cargo test`: lists what the others skipped.

use std::process::ExitCode;

fn main() -> ExitCode {
    faultless_wants::summary::main()
}
