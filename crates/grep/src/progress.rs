//! The output of a build or update: a line that tells how far it is while it runs, and one at the end.
//!
//! It draws the line itself: the libraries that draw bars need the C library's mathematics, and to load it takes a
//! sixth of the time of a search that finds nothing.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use faultless_console::Failure;
use faultless_console::sink::{Sink, columns};
use faultless_grepdb::{Progress, UpdateReport};

/// Time between two drawings of the line.
const REDRAW: Duration = Duration::from_millis(100);

/// Runs `work` and prints its report. A line shows the progress if standard error is a terminal.
pub(crate) fn with_line<E: Into<Failure>>(
    what: &'static str,
    work: impl FnOnce(&mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<UpdateReport, E>,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut line = std::io::stderr().is_terminal().then(|| ProgressLine::begin(what));
    let done = work(&mut |progress| {
        if let Some(line) = &mut line {
            line.draw(progress);
        }
        ControlFlow::Continue(())
    });
    drop(line);
    tell(&done.map_err(Into::into)?, Some(begin.elapsed().as_secs_f64()));
    Ok(())
}

/// A line on the terminal that is drawn again and again, and cleared at the end.
struct ProgressLine {
    what: &'static str,
    begin: Instant,
    drawn: Instant,
}

impl ProgressLine {
    fn begin(what: &'static str) -> Self {
        eprint!("{what}: listing files");
        Self { what, begin: Instant::now(), drawn: Instant::now() }
    }

    fn draw(&mut self, progress: Progress) {
        if self.drawn.elapsed() < REDRAW {
            return;
        }
        self.drawn = Instant::now();
        let text = progress_text(self.what, progress, self.begin.elapsed());
        // A line that wraps can't be drawn over.
        let room = columns(Some(&Sink::Stderr)).unwrap_or(80).saturating_sub(1);
        eprint!("\r\x1b[K{}", &text[..text.len().min(room)]);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        eprint!("\r\x1b[K");
    }
}

fn progress_text(what: &str, progress: Progress, elapsed: Duration) -> String {
    let part = progress.bytes as f64 / progress.of_bytes.max(1) as f64;
    let left = if part > 0.0 {
        format!(", {:.0} s left", elapsed.as_secs_f64() * (1.0 - part) / part)
    } else {
        String::new()
    };
    let of = megabytes(progress.of_bytes);
    format!(
        "{what}: {:.0} %, {}, {:.1} of {of}{left}",
        100.0 * part,
        counted(progress.files, "file"),
        progress.bytes as f64 / 1e6
    )
}

/// Prints the line, and what could not be read.
pub(crate) fn tell(done: &UpdateReport, seconds: Option<f64>) {
    let (read, removed, files) = (counted(done.read, "file"), grouped(done.removed), grouped(done.files));
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
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// `1,234,567`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        let all = [0, 999, 1_000, 123_456, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn the_line_says_what_is_done_and_how_long_the_rest_takes() {
        let progress = Progress { files: 1_200, of_files: 4_000, bytes: 25_000_000, of_bytes: 100_000_000 };
        let text = progress_text("build", progress, Duration::from_secs(3));
        assert_eq!(text, "build: 25 %, 1,200 files, 25.0 of 100.0 MB, 9 s left");
        let begun = progress_text("build", Progress::default(), Duration::ZERO);
        assert_eq!(begun, "build: 0 %, 0 files, 0.0 of 0 MB");
    }
}
