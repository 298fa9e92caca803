//! Filters between the matches and standard output: a limit of lines, and Visual Studio's format.
//!
//! In: text from ripgrep's printers. Out: the same text, cut or rewritten. This module does not order
//! matches.

use std::io::{self, BufWriter, ErrorKind, Write};

use crate::caller::Stdout;

/// Write size if the output is not a terminal.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, perhaps with a limit.
pub(crate) struct Out {
    file: BufWriter<Stdout>,
    limit: Option<Limit>,
}

/// The number of lines that may still be written.
pub(crate) struct Limit {
    pub(crate) lines: u64,
    /// The byte that ends a line.
    pub(crate) end: u8,
}

impl Out {
    /// Writes into `file`, immediately if `at_once`, else in large pieces.
    pub(crate) fn new(file: Stdout, at_once: bool, limit: Option<Limit>) -> Self {
        let buffer_bytes = if at_once { 0 } else { BUFFER_BYTES };
        Self { file: BufWriter::with_capacity(buffer_bytes, file), limit }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(Limit { lines, end }) = &mut self.limit else { return self.file.write(bytes) };
        let most = usize::try_from(*lines).unwrap_or(usize::MAX);
        let ends = bytes.iter().enumerate().filter(|(_, byte)| *byte == end).take(most);
        let (count, last) = ends.fold((0, 0), |(count, _), (at, _)| (count + 1, at + 1));
        *lines -= count;
        if *lines > 0 {
            self.file.write_all(bytes)?;
            return Ok(bytes.len());
        }
        self.file.write_all(&bytes[..last])?;
        // As if the reader had seen enough: the search ends.
        Err(ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// `path NUL line:text` -> `path(line):text`, line by line.
pub(crate) struct VisualStudio<W> {
    out: W,
    column: bool,
    line: Vec<u8>,
}

impl<W: Write> VisualStudio<W> {
    pub(crate) fn new(out: W, column: bool) -> Self {
        Self { out, column, line: Vec::new() }
    }
}

/// A line in Visual Studio's format. `None` if the line is no match and no context.
fn rewritten(line: &[u8], column: bool) -> Option<Vec<u8>> {
    let nul = line.iter().position(|&byte| byte == 0)?;
    let (path, rest) = (&line[..nul], &line[nul + 1..]);
    let number = |text: &[u8]| text.iter().position(|byte| !byte.is_ascii_digit()).filter(|&end| end > 0);
    let end = number(rest)?;
    let mut place = rest[..end].to_vec();
    let is_match = rest[end] == b':';
    let mut rest = &rest[end + 1..];
    if column
        && is_match
        && let Some(end) = number(rest)
    {
        place.push(b',');
        place.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
    }
    Some([path, b"(", &place, b"):", rest].concat())
}

impl<W: Write> Write for VisualStudio<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 16);
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                match rewritten(&self.line, self.column) {
                    Some(line) => out.extend_from_slice(&line),
                    None => out.extend_from_slice(&self.line),
                }
                self.line.clear();
            }
        }
        self.out.write_all(&out)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visual_studio_gets_path_and_line_in_brackets() {
        let form = |line: &str, column| {
            rewritten(line.as_bytes(), column).map(|line| String::from_utf8(line).unwrap())
        };
        assert_eq!(form("a/b\u{0}12:x:1\n", false).unwrap(), "a/b(12):x:1\n");
        assert_eq!(form("a\u{0}12:3:x\n", true).unwrap(), "a(12,3):x\n");
        assert_eq!(form("a\u{0}12-5:x\n", true).unwrap(), "a(12):5:x\n");
        assert_eq!(form("--\n", false), None);
    }
}
