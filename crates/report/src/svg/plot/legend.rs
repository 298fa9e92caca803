//! The legend: which mark is which line, in as many rows as it takes.

use super::super::canvas::{Canvas, fit, text_width};
use super::mark::Look;
use super::{MARGIN, Plot, TEXT, WIDTH};

const ROW: f64 = 22.0;
/// Room of a mark, and between two entries.
const MARK: f64 = 20.0;
const GAP: f64 = 16.0;

/// Entries with their places, from the top left corner of the legend.
pub(super) struct Legend {
    entries: Vec<(usize, String, f64, f64)>,
    height: f64,
}

impl Legend {
    /// Lays the names of a picture's lines out; a single line needs none.
    pub(super) fn of(plot: &Plot) -> Self {
        let mut legend = Self { entries: Vec::new(), height: 0.0 };
        if plot.lines.len() < 2 && plot.lines.iter().all(|line| !line.is_document) {
            return legend;
        }
        let room = WIDTH - 2.0 * MARGIN;
        let (mut x, mut y) = (0.0, 0.0);
        for (index, line) in plot.lines.iter().enumerate() {
            let name = match (line.is_document, line.name.as_str()) {
                (true, "") => "the document".to_owned(),
                (true, name) => format!("document: {name}"),
                (false, name) => name.to_owned(),
            };
            let name = fit(&name, room - MARK, TEXT);
            let width = MARK + text_width(&name, TEXT);
            if x > 0.0 && x + width > room {
                (x, y) = (0.0, y + ROW);
            }
            legend.entries.push((index, name, x, y));
            x += width + GAP;
        }
        legend.height = y + ROW;
        legend
    }

    /// Its height; 0 where there is none.
    pub(super) fn height(&self) -> f64 {
        self.height
    }

    /// Draws it below `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, looks: &[Look], top: f64) {
        for (index, name, x, y) in &self.entries {
            let (x, y, look) = (MARGIN + x, top + y + ROW / 2.0, looks[*index]);
            canvas.open(look.class, "");
            look.draw(canvas, (x + 6.0, y));
            canvas.close();
            canvas.text("small", "start", x + MARK, y + 4.5, name);
        }
    }
}
