//! The legend: mark and kind of each line, in as many rows as needed.

use super::super::canvas::{Canvas, text_width, wrap};
use super::mark::Style;
use super::{Line, MARGIN, Plot, TEXT, WIDTH};

const ROW: f64 = 22.0;
/// Line height of a name.
const LINE: f64 = 16.0;
/// Width of a mark alone, of a mark on a piece of line, and between two entries.
const MARK: f64 = 20.0;
const PIECE: f64 = 36.0;
const GAP: f64 = 16.0;

/// Entries with their positions, relative to the top left corner of the legend.
pub(super) struct Legend {
    entries: Vec<Entry>,
    mark: f64,
    height: f64,
}

struct Entry {
    /// The index of the line in the picture.
    index: usize,
    name: Vec<String>,
    is_joined: bool,
    at: (f64, f64),
}

impl Legend {
    /// Lays out the names. A single line needs no legend. `joins` says whether points are joined at all.
    pub(super) fn of(plot: &Plot, joins: bool) -> Self {
        let is_joined = |line: &Line| joins && line.points.len() > 1;
        let mark = if plot.lines.iter().any(is_joined) { PIECE } else { MARK };
        let mut legend = Self { entries: Vec::new(), mark, height: 0.0 };
        if plot.lines.len() < 2 && plot.lines.iter().all(|line| !line.is_document) {
            return legend;
        }
        let room = WIDTH - 2.0 * MARGIN;
        let (mut x, mut y, mut row) = (0.0, 0.0, 0.0);
        for (index, line) in plot.lines.iter().enumerate() {
            let name = match (line.is_document, line.name.as_str()) {
                (true, "") => "the document".to_owned(),
                (true, name) => format!("document: {name}"),
                (false, name) => name.to_owned(),
            };
            let name = wrap(&name, room - mark, TEXT);
            let width = mark + name.iter().map(|part| text_width(part, TEXT)).fold(0.0, f64::max);
            if x > 0.0 && x + width > room {
                (x, y, row) = (0.0, y + row, 0.0);
            }
            row = f64::max(row, ROW + LINE * name.len().saturating_sub(1) as f64);
            legend.entries.push(Entry { index, name, is_joined: is_joined(line), at: (x, y) });
            x += width + GAP;
        }
        legend.height = y + row;
        legend
    }

    /// The height; 0 if there is no legend.
    pub(super) fn height(&self) -> f64 {
        self.height
    }

    /// Draws the legend below `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, styles: &[Style], top: f64) {
        for Entry { index, name, is_joined, at } in &self.entries {
            let (x, y, style) = (MARGIN + at.0, top + at.1 + ROW / 2.0, styles[*index]);
            let end = x + self.mark - 8.0;
            canvas.open(style.class, "");
            if *is_joined {
                canvas.line(style.line(), (x, y), (end, y));
            }
            style.draw(canvas, (f64::midpoint(x, end), y));
            canvas.close();
            for (part, text) in name.iter().enumerate() {
                canvas.text("small", "start", x + self.mark, y + 4.5 + LINE * part as f64, text);
            }
        }
    }
}
