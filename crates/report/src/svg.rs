//! Pictures as SVG, one string each: no fonts, scripts or files from elsewhere. The same input gives the same
//! bytes.
//!
//! Colours follow the viewer's light or dark mode; light is the default. Bounds and intervals are always
//! drawn.

mod avoidable;
mod bars;
mod canvas;
mod plot;

pub use avoidable::avoidable;
pub use bars::{Bar, bars};
pub(crate) use canvas::escape;
pub use plot::{Line, Plot, Point, csv, plot};
pub(crate) use plot::{inline, quoted, style};
