//! A pager between a report and a terminal.
//!
//! In: a report. Out: the same on standard output, through `FAULTLESS_PAGER`, else `PAGER`, else less. Only a
//! terminal gets a pager, as with git.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) use faultless_console::sink::columns;
use faultless_console::{Outcome, deliver, emit, sink::Sink};

/// The shell's status when it can't run a command, from here on.
const CANNOT_RUN: i32 = 126;

/// Writes a report into its file, or to standard output: through a pager if that is a terminal.
///
/// # Errors
/// The file or standard output can't be written.
pub(crate) fn page(report: &str, file: Option<Sink>, is_wanted: bool) -> Outcome {
    if file.is_some() || !is_wanted || !io::stdout().is_terminal() {
        return deliver(report, file);
    }
    let Some(pager) = chosen(|name| std::env::var(name).ok()) else { return deliver(report, None) };
    match through(&pager, report) {
        true => Ok(ExitCode::SUCCESS),
        false => emit(report.as_bytes(), ExitCode::SUCCESS),
    }
}

/// The pager's command line; `None`: the reader wants none.
fn chosen(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let pager =
        variable("FAULTLESS_PAGER").or_else(|| variable("PAGER")).unwrap_or_else(|| "less".to_owned());
    let pager = pager.trim();
    (!pager.is_empty() && pager != "cat").then(|| pager.to_owned())
}

/// Whether the pager showed the text.
fn through(pager: &str, text: &str) -> bool {
    // Ctrl-C is for the pager; this process waits for it.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)));
    let mut command = Command::new("sh");
    command.args(["-c", pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Short texts don't wait, colours pass, and the text stays on the screen. As git does.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A pager that was left early has read enough.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = child.wait().ok().and_then(|status| status.code());
    status.is_none_or(|code| code < CANNOT_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pager_is_chosen_as_git_chooses_it() {
        let with = |ours: Option<&str>, pager: Option<&str>| {
            let value = |value: Option<&str>| value.map(str::to_owned);
            chosen(|name| if name == "FAULTLESS_PAGER" { value(ours) } else { value(pager) })
        };
        assert_eq!(with(None, None), Some("less".to_owned()));
        assert_eq!(with(None, Some("more")), Some("more".to_owned()));
        assert_eq!(with(Some("less -S"), Some("more")), Some("less -S".to_owned()));
        assert_eq!((with(Some(""), Some("more")), with(None, Some("cat"))), (None, None));
    }
}
