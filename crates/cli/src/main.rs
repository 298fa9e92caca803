//! `faultless`: find, measure and remove the time that programs lose to page faults.
//!
//! One match from verb to function. Exit status: 0 yes, 1 no, 2 wrong input or no way to do it; a verb that runs a
//! program passes the program's own status through.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// As the standard library's, which panics where standard error can't be written: to have nobody to tell is no reason to lose what
/// was measured, or a program's own status.
macro_rules! eprint {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($words)*);
    }};
}

/// [`eprint`] with the end of a line.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod cmd;

use std::process::ExitCode;

// Nothing of it is named here: it defines what C's mathematical library would.
use faultless_math as _;

fn main() -> ExitCode {
    match cmd::parse().and_then(cmd::run) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("faultless: {error}");
            ExitCode::from(2)
        }
    }
}
