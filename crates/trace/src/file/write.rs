//! Lines -> file.

use std::io::{self, Write};

use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};

use super::line::columns;
use super::{FRAME_BYTES, Line, MAGIC, MAGIC_LEN, MARK, VERSION};
use crate::observation::Record;
use crate::recording::{Header, Stacks};

/// Writes a trace file. Lines wait in memory until a frame is full or [`Writer::flush`] is called. Flushed
/// data stays readable even if the process is killed.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    lines: Vec<u8>,
    written_bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins the file. `header` gets its version and columns here.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(mut out: W, header: Header) -> io::Result<Self> {
        let mark = format!("{MARK}{VERSION}\n");
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&(mark.len() as u32).to_le_bytes())?;
        out.write_all(mark.as_bytes())?;
        let mut writer = Self { out, lines: Vec::new(), written_bytes: 8 + mark.len() as u64 };
        let header = Header { version: VERSION, columns: columns(), ..header };
        writer.line(&Line::Header(Box::new(header)))?;
        writer.flush()?;
        Ok(writer)
    }

    /// Goes on behind a trace file that `out` has got already.
    pub fn behind(out: W) -> Self {
        Self { out, lines: Vec::new(), written_bytes: 0 }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Errors of the file, if a frame is written.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.lines, line)?;
        self.lines.push(b'\n');
        if self.lines.len() >= FRAME_BYTES { self.end_frame() } else { Ok(()) }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// As [`Writer::line`].
    pub fn record(&mut self, record: Record) -> io::Result<()> {
        self.line(&record.into())
    }

    /// Adds all modules, frames and stacks of a table that is complete.
    ///
    /// # Errors
    /// As [`Writer::line`].
    pub fn stacks(&mut self, stacks: &Stacks) -> io::Result<()> {
        let modules = stacks.modules.iter().enumerate();
        modules
            .map(|(at, module)| Line::Module(at as u32, module.clone()))
            .try_for_each(|l| self.line(&l))?;
        let frames = stacks.frames.iter().enumerate();
        frames.map(|(at, frame)| Line::Frame(at as u32, frame.clone())).try_for_each(|l| self.line(&l))?;
        let stacks = stacks.stacks.iter().enumerate();
        stacks.map(|(at, stack)| Line::Stack(at as u32, stack.clone())).try_for_each(|l| self.line(&l))
    }

    /// Bytes of the file so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes the waiting lines.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end_frame()?;
        self.out.flush()
    }

    /// Ends the file and returns it.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    fn end_frame(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let mut info = FrameInfo::new().block_size(BlockSize::Max256KB);
        info.content_checksum = true;
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::with_capacity(self.lines.len() / 2));
        encoder.write_all(&self.lines)?;
        let frame = encoder.finish().map_err(io::Error::other)?;
        self.lines.clear();
        self.written_bytes += 12 + frame.len() as u64;
        for word in [MAGIC_LEN, 4, frame.len() as u32] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(&frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read;
    use crate::observation::{Access, What};

    fn record(time_ns: u64) -> Record {
        let what = What::Enter {
            addr: time_ns << 12,
            ip: 7,
            kernel: false,
            access: Some(Access::Write),
            mapped_bytes: None,
        };
        Record { time_ns, pid: 1, tid: 2, what }
    }

    fn file(frames: u64) -> Vec<u8> {
        let mut writer =
            Writer::new(Vec::new(), Header { tool: "test".into(), ..Header::default() }).unwrap();
        for frame in 0..frames {
            (0..100).for_each(|at| writer.record(record(frame * 100 + at)).unwrap());
            writer.flush().unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let found = read(&file(3)).unwrap();
        assert_eq!(found.header.tool, "test");
        assert_eq!(found.observation.records, (0..300).map(record).collect::<Vec<_>>());
        assert_eq!(found.missing.len(), 1, "no footer: {:?}", found.missing);
    }

    #[test]
    fn lines_written_behind_a_file_are_read_with_it() {
        let mut writer = Writer::behind(file(2));
        writer.record(record(900)).unwrap();
        let found = read(&writer.finish().unwrap()).unwrap();
        assert_eq!(found.observation.records.len(), 201);
        assert_eq!(found.observation.records[200], record(900));
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_frames() {
        let whole = file(3);
        let mut most = 0;
        for len in (0..whole.len()).step_by(13) {
            let Ok(found) = read(&whole[..len]) else { continue };
            assert_eq!(found.observation.records.len() % 100, 0, "cut at {len}");
            assert!(found.observation.records.len() >= most);
            most = found.observation.records.len();
        }
        assert_eq!(most, 200);
    }

    #[test]
    fn a_damaged_frame_is_left_out_and_said() {
        let mut bytes = file(3);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        let found = read(&bytes).unwrap();
        assert_eq!(found.observation.records.len(), 200);
        assert!(found.missing.iter().any(|text| text.contains("damaged")), "{:?}", found.missing);
    }
}
