//! Marks: they distinguish lines without colour.

use super::super::canvas::Canvas;
use super::{Line, Plot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// The CSS class, which sets the colour.
    pub(super) class: &'static str,
    /// The index of the mark's shape.
    shape: usize,
    is_document: bool,
    /// Lines of documents are dashed, and so are lines beyond the number of colours.
    is_dashed: bool,
}

const CLASSES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];

/// The styles of all lines. A document's line has the shape of the measured line with the same name.
pub(super) fn styles(plot: &Plot) -> Vec<Style> {
    let measured: Vec<&Line> = plot.lines.iter().filter(|line| !line.is_document).collect();
    let (mut ours, mut others) = (0, measured.len());
    let next = |counter: &mut usize| std::mem::replace(counter, *counter + 1);
    let mut style = |line: &Line| {
        if !line.is_document {
            let index = next(&mut ours);
            let (class, is_dashed) = (CLASSES[index % CLASSES.len()], index >= CLASSES.len());
            return Style { class, shape: index, is_document: false, is_dashed };
        }
        let same = measured.iter().position(|found| found.name == line.name);
        let shape = same.unwrap_or_else(|| next(&mut others));
        Style { class: "doc", shape, is_document: true, is_dashed: true }
    };
    plot.lines.iter().map(&mut style).collect()
}

/// Half of the usual height. Shapes are polygons; the disc is not among them.
const H: f64 = 4.2;
/// Half of the width of a bar, and of an arm.
const BAR: f64 = 1.8;
const SHAPES: [&[(f64, f64)]; 13] = [
    &[(-H, -H), (H, -H), (H, H), (-H, H)],
    &[(0.0, -5.2), (4.8, H), (-4.8, H)],
    &[(0.0, -5.6), (5.6, 0.0), (0.0, 5.6), (-5.6, 0.0)],
    &[(-4.8, -H), (4.8, -H), (0.0, 5.2)],
    &[(-5.6, -BAR), (5.6, -BAR), (5.6, BAR), (-5.6, BAR)],
    // An hourglass, and a horizontal one.
    &[(-H, -H), (H, -H), (-H, H), (H, H)],
    &[(-H, -H), (H, H), (H, -H), (-H, H)],
    &[(-BAR, -5.6), (BAR, -5.6), (BAR, 5.6), (-BAR, 5.6)],
    // A cross, a star with four points, and a diagonal cross.
    &[
        (-1.4, -5.4),
        (1.4, -5.4),
        (1.4, -1.4),
        (5.4, -1.4),
        (5.4, 1.4),
        (1.4, 1.4),
        (1.4, 5.4),
        (-1.4, 5.4),
        (-1.4, 1.4),
        (-5.4, 1.4),
        (-5.4, -1.4),
        (-1.4, -1.4),
    ],
    &[(0.0, -6.6), (1.4, -1.4), (6.6, 0.0), (1.4, 1.4), (0.0, 6.6), (-1.4, 1.4), (-6.6, 0.0), (-1.4, -1.4)],
    &[
        (-2.9, -4.7),
        (0.0, -1.8),
        (2.9, -4.7),
        (4.7, -2.9),
        (1.8, 0.0),
        (4.7, 2.9),
        (2.9, 4.7),
        (0.0, 1.8),
        (-2.9, 4.7),
        (-4.7, 2.9),
        (-1.8, 0.0),
        (-4.7, -2.9),
    ],
    &[(-5.2, 0.0), (H, -4.8), (H, 4.8)],
    &[(5.2, 0.0), (-H, -4.8), (-H, 4.8)],
];

impl Style {
    pub(super) fn line(self) -> &'static str {
        if self.is_dashed { "thread dash" } else { "thread" }
    }

    pub(super) fn draw(self, canvas: &mut Canvas, (x, y): (f64, f64)) {
        let class = if self.is_document { "point hollow" } else { "point" };
        match self.shape % (SHAPES.len() + 1) {
            0 => canvas.disc(class, (x, y), H),
            n => canvas.path(class, SHAPES[n - 1].iter().map(|(dx, dy)| (x + dx, y + dy)), true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn twelve_lines_and_the_documents_have_shapes_of_their_own() {
        let line = |n: usize| Line { name: n.to_string(), is_document: n >= 12, ..Line::default() };
        let mut lines: Vec<Line> = (0..14).map(line).collect();
        lines.push(Line { name: "3".into(), is_document: true, ..Line::default() });
        let styles = styles(&Plot { lines, ..Plot::default() });
        let shapes: BTreeSet<usize> = styles.iter().map(|style| style.shape % (SHAPES.len() + 1)).collect();
        assert_eq!(shapes.len(), 14);
        assert_eq!((styles[14].shape, styles[14].class), (styles[3].shape, "doc"));
        for (at, shape) in SHAPES.iter().enumerate() {
            assert!(!SHAPES[..at].contains(shape), "{at}");
        }
    }
}
