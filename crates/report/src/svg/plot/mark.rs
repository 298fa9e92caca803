//! Marks: what tells lines apart without colour.

use super::super::canvas::Canvas;
use super::{Line, Plot};

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Its class, which is its colour.
    pub(super) class: &'static str,
    /// The shape of its marks, by number.
    shape: usize,
    is_document: bool,
    /// Whether its line is broken: the document's, and beyond as many lines as there are colours.
    pub(super) is_dashed: bool,
}

const CLASSES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];
/// Half of a mark's height.
const HALF: f64 = 4.2;

/// The looks of all lines: a document's line has the shape of the measured line of its name.
pub(super) fn looks(plot: &Plot) -> Vec<Look> {
    let measured: Vec<&Line> = plot.lines.iter().filter(|line| !line.is_document).collect();
    let (mut ours, mut others) = (0, measured.len());
    let next = |counter: &mut usize| std::mem::replace(counter, *counter + 1);
    let mut look = |line: &Line| {
        if !line.is_document {
            let index = next(&mut ours);
            let (class, is_dashed) = (CLASSES[index % CLASSES.len()], index >= CLASSES.len());
            return Look { class, shape: index, is_document: false, is_dashed };
        }
        let same = measured.iter().position(|found| found.name == line.name);
        let shape = same.unwrap_or_else(|| next(&mut others));
        Look { class: "doc", shape, is_document: true, is_dashed: true }
    };
    plot.lines.iter().map(&mut look).collect()
}

impl Look {
    /// Draws one mark.
    pub(super) fn draw(self, canvas: &mut Canvas, (x, y): (f64, f64)) {
        let h = HALF;
        let class = if self.is_document { "point hollow" } else { "point" };
        let points: &[(f64, f64)] = match self.shape % 6 {
            0 => return canvas.disc(class, (x, y), h),
            1 => &[(-h, -h), (h, -h), (h, h), (-h, h)],
            2 => &[(0.0, -h - 1.0), (h + 0.6, h), (-h - 0.6, h)],
            3 => &[(0.0, -h - 1.4), (h + 1.4, 0.0), (0.0, h + 1.4), (-h - 1.4, 0.0)],
            4 => &[(-h - 0.6, -h), (h + 0.6, -h), (0.0, h + 1.0)],
            _ => &[(-h - 1.4, -1.8), (h + 1.4, -1.8), (h + 1.4, 1.8), (-h - 1.4, 1.8)],
        };
        canvas.path(class, points.iter().map(|(dx, dy)| (x + dx, y + dy)), true);
    }
}
