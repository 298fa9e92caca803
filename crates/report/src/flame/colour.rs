//! The origin of a frame -> its colour, the same in every picture.

use inferno::flamegraph::color::Color;

/// Where a frame's code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The program's own file.
    Program,
    /// A library.
    Library,
    /// The kernel.
    Kernel,
    /// Faultless.
    Faultless,
    /// Code made at run time, and addresses in no known file.
    Other,
    /// Not a function.
    Marker,
}

impl Origin {
    /// By the last part of the file's path and of the command.
    pub(super) fn of_file(file: &str, program: &str) -> Self {
        match file {
            "[kernel]" => Self::Kernel,
            _ if file.contains("faultless") => Self::Faultless,
            _ if file == program => Self::Program,
            _ if file.contains(".so") || file.starts_with("ld-") || file == "[vdso]" => Self::Library,
            _ if file == "unknown" || file.starts_with('[') => Self::Other,
            _ => Self::Program,
        }
    }

    fn colour(self) -> [u8; 3] {
        match self {
            Self::Program => [242, 160, 88],
            Self::Library => [236, 211, 120],
            Self::Kernel => [132, 174, 222],
            Self::Faultless => [136, 199, 140],
            Self::Other => [201, 170, 216],
            Self::Marker => [200, 204, 209],
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Library => "libraries",
            Self::Kernel => "kernel",
            Self::Faultless => "faultless",
            Self::Other => "generated or unknown",
            Self::Marker => "no function",
        }
    }
}

/// Colours and their meaning.
#[derive(Clone, Debug)]
pub(super) struct Legend(pub(super) Vec<([u8; 3], &'static str)>);

/// The legend of all origins that occur.
pub(super) fn legend(origins: impl Iterator<Item = Origin>) -> Legend {
    let mut origins: Vec<Origin> = origins.collect();
    origins.sort_unstable();
    origins.dedup();
    Legend(origins.into_iter().map(|origin| (origin.colour(), origin.word())).collect())
}

/// A shade of the origin's colour, chosen by name, so that neighbours differ.
pub(super) fn of_frame(name: &str, origin: Origin) -> Color {
    const SHADES: u32 = 24;
    // FNV-1a.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let lighter = if origin == Origin::Marker { 0 } else { ((hash >> 8) % SHADES) as u8 };
    let [r, g, b] = origin.colour().map(|part| part.saturating_add(lighter));
    Color { r, g, b }
}
