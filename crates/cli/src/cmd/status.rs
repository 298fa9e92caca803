//! The exit of a program as this program's own exit status.

use std::process::ExitCode;

use faultless_console::Outcome;
use faultless_prof::Failure;
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

/// The end of a verb whose program did not start, in a shell's terms: 127 for no such command, 126 for one that can't
/// be executed. Other failures are ours.
pub(super) fn not_started(failure: Failure) -> Outcome {
    let status = match failure {
        Failure::NotFound(_) => NOT_FOUND,
        Failure::NotExecutable(_) | Failure::Folder(_) | Failure::NoInterpreter(_) | Failure::Exec(..) => {
            NOT_EXECUTABLE
        }
        failure => return Err(failure.into()),
    };
    eprintln!("faultless: {failure}");
    Ok(ExitCode::from(status))
}

/// No such command, as shells say it (exit status of a command, POSIX sh 2.8.2).
const NOT_FOUND: u8 = 127;
/// A command that can't be executed.
const NOT_EXECUTABLE: u8 = 126;
