//! Pictures as SVG: one string each, no fonts, scripts or files from elsewhere, the same input the same bytes.
//!
//! Colours follow the viewer's light or dark scheme (a viewer that knows none shows light). Bounds and intervals are
//! always drawn, never only the value.

mod avoidable;
mod bars;
mod canvas;
mod plot;

pub use avoidable::avoidable;
pub use bars::{Bar, bars};
pub use plot::{Line, Plot, Point, csv, plot};
pub(crate) use plot::{inline, quoted, style};
