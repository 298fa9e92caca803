//! The last test program of `cargo test`: lists the skips of all others.

use std::process::ExitCode;

fn main() -> ExitCode {
    faultless_wants::summary::main()
}
