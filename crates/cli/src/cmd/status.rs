//! The exit of a program as this program's own exit status.

use std::process::ExitCode;

use faultless_trace::observation::Exit;

/// The status as a shell reports it; 0 if unknown.
pub(super) fn of(exit: Exit) -> ExitCode {
    match exit {
        Exit::NotStarted => ExitCode::from(2),
        Exit::Unknown => ExitCode::SUCCESS,
        Exit::Status(status) => ExitCode::from(status as u8),
        Exit::Signal(signal) => ExitCode::from(128_u8.saturating_add(signal as u8)),
    }
}
