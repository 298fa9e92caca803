//! The container format of perf.data.
//!
//! In: the bytes of a file. Out: its events, sections and raw records.
//!
//! It does not parse the bodies of records.
//!
//! This parser is our own, for two reasons. A file that was cut off, or whose `perf` was killed before it
//! wrote the lengths, must still yield its records. And no length in a file may decide how much memory is
//! allocated.
//!
//! Format: `tools/perf/Documentation/perf.data-file-format.txt` of Linux.

use std::collections::{BTreeMap, HashMap};

use byteorder::LittleEndian;
use linux_perf_event_reader::{Endianness, PerfEventAttr, RecordParseInfo};

use super::Refused;

/// The first bytes of a file from a little-endian machine.
pub(super) const MAGIC: &[u8; 8] = b"PERFILE2";
/// And on big-endian ones.
pub(super) const MAGIC_SWAPPED: &[u8; 8] = b"2ELIFREP";
/// Bytes of the header of a pipe's stream; a file's header is longer.
const PIPE_HEADER_BYTES: u64 = 16;
/// Bytes of `struct perf_event_header`: type, misc, size.
const RECORD_HEADER_BYTES: usize = 8;

/// `PERF_RECORD_HEADER_ATTR`: an event, in a pipe.
const HEADER_ATTR: u32 = 64;
/// `PERF_RECORD_HEADER_TRACING_DATA`, followed by as many bytes as it says.
const HEADER_TRACING_DATA: u32 = 66;
/// `PERF_RECORD_AUXTRACE`, followed by as many bytes as it says.
const AUXTRACE: u32 = 71;
/// `PERF_RECORD_HEADER_FEATURE`: a section, in a pipe.
const HEADER_FEATURE: u32 = 80;
/// `PERF_RECORD_COMPRESSED`.
const COMPRESSED: u32 = 81;
/// `PERF_RECORD_COMPRESSED2`.
const COMPRESSED2: u32 = 83;
/// First type that the kernel does not write.
const USER_TYPES: u32 = 64;

/// An event that was recorded.
pub(super) struct Event {
    pub(super) attr: PerfEventAttr,
    pub(super) info: RecordParseInfo,
}

/// A record of the kernel's.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: &'a [u8],
}

/// What a file holds.
#[derive(Default)]
pub(super) struct Container<'a> {
    pub(super) events: Vec<Event>,
    /// Index into `events` by the ids in their records.
    pub(super) by_id: HashMap<u64, usize>,
    /// Sections by the number of the feature (`HEADER_OSRELEASE` and so on).
    pub(super) features: BTreeMap<u64, &'a [u8]>,
    pub(super) records: Vec<Raw<'a>>,
    /// What the file lacks.
    pub(super) missing: Vec<String>,
}

impl<'a> Container<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Refused> {
        if bytes.starts_with(MAGIC_SWAPPED) {
            return Err(Refused::BigEndian);
        }
        if !bytes.starts_with(MAGIC) {
            return Err(Refused::NotPerfData);
        }
        let mut found = Self::default();
        if word(bytes, 8) == Some(PIPE_HEADER_BYTES) {
            found.records(bytes.get(PIPE_HEADER_BYTES as usize..).unwrap_or_default())?;
        } else {
            found.file(bytes)?;
        }
        if found.events.is_empty() {
            return Err(Refused::NoEvents);
        }
        Ok(found)
    }

    /// The file with sections. Header words: size, length of an event, locations of events, data and event
    /// types, feature bits.
    fn file(&mut self, bytes: &'a [u8]) -> Result<(), Refused> {
        let word = |at: usize| word(bytes, at).unwrap_or(0);
        let (attr_bytes, attrs) = (word(16), section(bytes, word(24), word(32)));
        let (data_begin, data_bytes) = (word(40), word(48));
        let data = section(bytes, data_begin, data_bytes).unwrap_or_default();
        let ids_bytes = 16;
        for entry in attrs.unwrap_or_default().chunks_exact(usize::try_from(attr_bytes).unwrap_or(0).max(1)) {
            let Some(split) = entry.len().checked_sub(ids_bytes) else { break };
            let (attr, ids) = entry.split_at(split);
            let field = |at| self::word(ids, at).unwrap_or(0);
            self.event(attr, section(bytes, field(0), field(8)).unwrap_or_default());
        }
        // A killed recorder has written neither the length of the data nor the sections behind them.
        let killed = data_bytes == 0;
        let rest = bytes.get(usize::try_from(data_begin).unwrap_or(usize::MAX)..).unwrap_or_default();
        if killed {
            self.missing.push("the end: perf record was killed".to_owned());
        } else if data.len() as u64 != data_bytes {
            self.missing.push("the end: the file is cut off".to_owned());
        } else {
            let places = data_begin.saturating_add(data_bytes);
            let features =
                (0..256_u64).filter(|bit| word(72 + (bit / 64) as usize * 8) >> (bit % 64) & 1 == 1);
            for (at, feature) in features.enumerate() {
                let place = usize::try_from(places).unwrap_or(usize::MAX).saturating_add(at * 16);
                if let (Some(begin), Some(len)) =
                    (self::word(bytes, place), self::word(bytes, place.saturating_add(8)))
                    && let Some(section) = section(bytes, begin, len)
                {
                    self.features.insert(feature, section);
                }
            }
        }
        self.records(if data.len() as u64 == data_bytes && !killed { data } else { rest })
    }

    fn event(&mut self, attr: &[u8], ids: &[u8]) {
        // An unknown kind of event: its records are left out.
        let Ok((attr, _)) = PerfEventAttr::parse::<_, LittleEndian>(attr) else { return };
        let index = self.events.len();
        let info = RecordParseInfo::new(&attr, Endianness::LittleEndian);
        self.events.push(Event { attr, info });
        self.by_id.extend(ids.chunks_exact(8).filter_map(|id| word(id, 0)).map(|id| (id, index)));
    }

    fn records(&mut self, data: &'a [u8]) -> Result<(), Refused> {
        let mut at = 0_usize;
        while let Some(head) = data.get(at..at.saturating_add(RECORD_HEADER_BYTES)) {
            let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let misc = u16::from_le_bytes([head[4], head[5]]);
            let len = usize::from(u16::from_le_bytes([head[6], head[7]]));
            let Some(body) = data.get(at + RECORD_HEADER_BYTES..at + len) else { break };
            at += len;
            match kind {
                COMPRESSED | COMPRESSED2 => return Err(Refused::Compressed),
                HEADER_ATTR => {
                    let own =
                        body.get(4..8).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes);
                    let (attr, ids) = body.split_at(body.len().min(own as usize));
                    self.event(attr, ids);
                }
                HEADER_FEATURE => {
                    if let (Some(feature), Some(section)) = (word(body, 0), body.get(8..)) {
                        self.features.insert(feature, section);
                    }
                }
                AUXTRACE => {
                    at = at.saturating_add(usize::try_from(word(body, 0).unwrap_or(0)).unwrap_or(usize::MAX))
                }
                HEADER_TRACING_DATA => {
                    let len = body.get(..4).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes);
                    at = at.saturating_add((len as usize).saturating_add(7) & !7);
                }
                kind if kind < USER_TYPES => self.records.push(Raw { kind, misc, body }),
                _ => {}
            }
        }
        if at < data.len() {
            self.missing.push(format!("{} bytes of the file are damaged or cut off", data.len() - at));
        }
        Ok(())
    }

    /// A section that holds one text: its length, the text, zeros.
    pub(super) fn text(&self, feature: u64) -> Option<String> {
        self.texts(self.features.get(&feature)?).next()
    }

    /// A section that holds a number of texts.
    pub(super) fn list(&self, feature: u64) -> Vec<String> {
        let section = self.features.get(&feature).and_then(|section| section.get(4..));
        section.map_or_else(Vec::new, |texts| self.texts(texts).collect())
    }

    fn texts(&self, mut bytes: &'a [u8]) -> impl Iterator<Item = String> + use<'a> {
        std::iter::from_fn(move || {
            let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
            let text = bytes.get(4..len.checked_add(4)?)?;
            bytes = &bytes[4 + len..];
            Some(lossy(text))
        })
    }
}

/// Text up to the first zero, with invalid UTF-8 replaced.
pub(super) fn lossy(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The little-endian word at `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn section(bytes: &[u8], begin: u64, len: u64) -> Option<&[u8]> {
    let begin = usize::try_from(begin).ok()?;
    bytes.get(begin..begin.checked_add(usize::try_from(len).ok()?)?)
}
