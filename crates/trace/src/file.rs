//! The trace file: what `faultless record` writes and every view reads.
//!
//! ```text
//! 5F 2A 4D 18  len:u32le  "faultless trace 1\n"    a skippable LZ4 frame: the magic number and the version
//! 5E 2A 4D 18  04 00 00 00  len:u32le              a skippable frame: the length of the frame behind it
//! LZ4 frame                                        a standard frame with checksum, of whole lines of JSON
//! ...                                              and so on, in twos
//! ```
//!
//! So `lz4 -dc FILE | jq` reads it. Every line is an object with one member, named after its kind. The first
//! line is the `header`, which names the fields of the kinds that are arrays (`columns`). The last is the
//! `footer`; `faultless symbolize` adds `symbol` lines behind it. A line that refers to a stack, frame or
//! module by number follows its definition. Readers skip and count kinds that they do not know: a newer
//! version may add kinds and fields, but never change them. A damaged or cut file yields the contents of its
//! whole frames. Times are ns of CLOCK_MONOTONIC.
//!
//! LZ4 frames: <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>.

mod line;
mod read;
mod write;

pub use line::Line;
pub use read::read;
pub use write::Writer;

/// Version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// Magic number of the skippable frame at the begin (LZ4 leaves 0x184D2A50 to 0x184D2A5F to applications).
const MAGIC: u32 = 0x184D_2A5F;
/// Magic number of the skippable frame before each frame of lines.
const MAGIC_LEN: u32 = 0x184D_2A5E;
/// Contents of the first frame before the version.
const MARK: &str = "faultless trace ";
/// Bytes of lines in a frame: few enough to lose little with one, enough to compress well.
const FRAME_BYTES: usize = 256 << 10;
/// Most bytes of lines in a frame that a reader takes: a damaged length must not fill the memory.
const FRAME_BYTES_MAX: u64 = 64 << 20;
