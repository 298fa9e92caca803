//! File -> recording. Any bytes at all give a recording or one clear refusal.

use std::io::Read;

use lz4_flex::frame::FrameDecoder;

use super::{FRAME_BYTES_MAX, Line, MAGIC, MAGIC_LEN, MARK, VERSION};
use crate::observation::Observation;
use crate::recording::{Header, Recording};

/// First bytes of the skippable frame with a frame's length.
const FRAME: [u8; 4] = MAGIC_LEN.to_le_bytes();

/// Whether `bytes` begin like a trace file.
fn is_trace(bytes: &[u8]) -> bool {
    bytes.get(..4) == Some(&MAGIC.to_le_bytes())
        && bytes.get(8..).is_some_and(|rest| rest.starts_with(MARK.as_bytes()))
}

/// Reads a whole trace file. Unreadable parts are left out and named in [`Recording::missing`].
///
/// # Errors
/// The file is no trace, was written by a newer version, or has no readable header.
pub fn read(bytes: &[u8]) -> Result<Recording, String> {
    if bytes.is_empty() {
        return Err("an empty file: nothing was recorded into it; record again".to_owned());
    }
    if !is_trace(bytes) {
        return Err("no trace file; `faultless record` writes one".to_owned());
    }
    let mark_bytes = bytes.get(4..8).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes);
    let frames = 8_usize.saturating_add(mark_bytes as usize).min(bytes.len());
    let version = String::from_utf8_lossy(&bytes[8 + MARK.len()..frames.max(8 + MARK.len())]);
    let version = version.trim();
    if version.parse::<u32>().is_ok_and(|version| version > VERSION) {
        return Err(format!(
            "a trace of version {version}, and this program reads up to {VERSION}; use a newer faultless"
        ));
    }
    let mut reader = Reader {
        header: None,
        recording: Recording::default(),
        unreadable_bytes: 0,
        unknown_lines: 0,
        gaps: GAPS_MAX,
    };
    let mut at = frames;
    while let Some(begin) = find(bytes, at) {
        reader.unreadable_bytes += (begin - at) as u64;
        at = match frame(&bytes[begin..]) {
            Some((lines, len)) => {
                reader.lines(&lines);
                begin + len
            }
            None => {
                reader.unreadable_bytes += 4;
                begin + 4
            }
        };
    }
    reader.unreadable_bytes += (bytes.len() - at) as u64;
    reader.finish()
}

/// The position of the next frame's length.
fn find(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(FRAME.len()).position(|window| window == FRAME).map(|at| from + at)
}

/// The lines of the frame after the length at the start of `bytes`, and the length of both.
fn frame(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let len = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?) as usize;
    let frame = bytes.get(12..12_usize.checked_add(len)?)?;
    let mut lines = Vec::new();
    FrameDecoder::new(frame).take(FRAME_BYTES_MAX).read_to_end(&mut lines).ok()?;
    ((lines.len() as u64) < FRAME_BYTES_MAX).then_some((lines, 12 + len))
}

/// The most numbers that may be missing from a file with lost frames; corrupt numbers must not fill memory.
const GAPS_MAX: usize = 1 << 20;

/// Stores `value` at `number`. Missing entries before it are empty, up to `gaps` of them.
fn put<T: Clone + Default>(table: &mut Vec<T>, number: u32, value: T, gaps: &mut usize) {
    let number = number as usize;
    let missing = number.saturating_sub(table.len());
    if number >= table.len() && missing <= *gaps {
        *gaps -= missing;
        table.resize(number + 1, T::default());
    }
    if let Some(place) = table.get_mut(number) {
        *place = value;
    }
}

struct Reader {
    header: Option<Header>,
    recording: Recording,
    unreadable_bytes: u64,
    unknown_lines: u64,
    /// How many more numbers may be missing.
    gaps: usize,
}

impl Reader {
    fn lines(&mut self, lines: &[u8]) {
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(line) => self.line(line),
                Err(_) => self.unknown_lines += 1,
            }
        }
    }

    fn line(&mut self, line: Line) {
        let line = match line.into_record() {
            Ok(record) => return self.recording.observation.records.push(record),
            Err(line) => line,
        };
        let recording = &mut self.recording;
        match line {
            Line::Header(header) => self.header = Some(*header),
            Line::Module(number, module) => {
                put(&mut recording.stacks.modules, number, module, &mut self.gaps)
            }
            Line::Frame(number, frame) => put(&mut recording.stacks.frames, number, frame, &mut self.gaps),
            Line::Stack(number, stack) => put(&mut recording.stacks.stacks, number, stack, &mut self.gaps),
            Line::Symbol(frame, names) => {
                if let Some(frame) = recording.stacks.frames.get_mut(frame as usize) {
                    frame.names = names;
                }
            }
            Line::Window(window) => recording.observation.windows.push(window),
            Line::Level(level) => recording.observation.levels.push(level),
            Line::Loss(loss) => recording.losses.push(loss),
            Line::Footer(footer) => recording.footer = Some(*footer),
            _ => self.unknown_lines += 1,
        }
    }

    fn finish(self) -> Result<Recording, String> {
        let Self { header, mut recording, unreadable_bytes, unknown_lines, .. } = self;
        let header = header
            .ok_or("a trace file without a readable header: nothing was written into it; record again")?;
        if unreadable_bytes > 0 {
            recording.missing.push(format!("{unreadable_bytes} bytes of the file are damaged or cut off"));
        }
        if unknown_lines > 0 {
            recording.missing.push(format!("{unknown_lines} lines of the file are of an unknown kind"));
        }
        let footer = recording.footer.clone();
        if footer.is_none() {
            recording.missing.push("the end: the recorder was killed or ran out of space".to_owned());
        }
        let footer = footer.unwrap_or_default();
        recording.observation = Observation {
            command: header.command.clone(),
            attached: header.settings.attached,
            host: header.host.clone(),
            calibration: footer.calibration.or(header.calibration),
            exit: footer.exit,
            usage: footer.usage,
            counts: footer.counts,
            machine: footer.machine,
            kernel: footer.kernel,
            in_kernel: footer.in_kernel,
            event_losses: footer.event_losses,
            sources: footer.sources,
            ..recording.observation
        };
        recording.observation.records.sort_by_key(|record| record.time_ns);
        recording.header = header;
        Ok(recording)
    }
}
