//! The output of a build or update: a bar while it runs, and a line at the end.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Instant;

use faultless_grepdb::{Progress, UpdateReport};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use faultless_console::Failure;

/// Runs `work` and prints its report. A bar shows the progress if standard error is a terminal.
pub(crate) fn with_bar<E: Into<Failure>>(
    what: &'static str,
    work: impl FnOnce(&mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<UpdateReport, E>,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg} {bytes}/{total_bytes} {eta}").ok();
    let bar = style.filter(|_| std::io::stderr().is_terminal()).map(|style| {
        ProgressBar::new(0)
            .with_style(style.progress_chars("=> "))
            .with_prefix(what)
            .with_message("listing files")
    });
    let done = work(&mut |progress| {
        if let Some(bar) = &bar {
            bar.set_length(progress.of_bytes);
            bar.set_position(progress.bytes);
            bar.set_message(counted(progress.files, "file"));
        }
        ControlFlow::Continue(())
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    tell(&done.map_err(Into::into)?, Some(begin.elapsed().as_secs_f64()));
    Ok(())
}

/// Prints the line, and what could not be read.
pub(crate) fn tell(done: &UpdateReport, seconds: Option<f64>) {
    let (read, removed, files) =
        (counted(done.read, "file"), HumanCount(done.removed), HumanCount(done.files));
    let seconds = seconds.map_or_else(String::new, |seconds| format!("; {seconds:.2} s"));
    eprintln!(
        "{read} read, {removed} removed, {files} in the database; {} of text; {} written{seconds}",
        megabytes(done.text_bytes),
        megabytes(done.written_bytes)
    );
    for trouble in &done.trouble {
        eprintln!("faultless: {trouble}; it is left out");
    }
}

/// `1 file`, `2 files`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(count), if count == 1 { "" } else { "s" })
}

/// Bytes in MB.
pub(crate) fn megabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    match bytes {
        0 => "0 MB".into(),
        1..1_000_000 => format!("{megabytes:.3} MB"),
        _ => format!("{megabytes:.1} MB"),
    }
}
