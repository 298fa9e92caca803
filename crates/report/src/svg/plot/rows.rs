//! Horizontal values that are words: a row for each, with the marks of all lines that have it and horizontal
//! whiskers.

use super::super::canvas::{Canvas, text_width, wrap};
use super::axis::{Axis, short};
use super::legend::Legend;
use super::mark;
use super::{LINE, Line, MARGIN, Plot, Point, TEXT, WIDTH, frame, told};

/// Height of a row without its marks, and of each mark.
const ROW: f64 = 14.0;
const MARK: f64 = 11.0;
/// Share of the width that the words may take.
const WORDS: f64 = 0.42;
/// Height of the figures below the rows.
const FOOT: f64 = 30.0;

/// A word with its points, each with the index of its line.
struct Row<'a> {
    word: Vec<String>,
    points: Vec<(usize, &'a Line, &'a Point)>,
}

impl Row<'_> {
    fn height(&self) -> f64 {
        f64::max(ROW + MARK * self.points.len() as f64, LINE * self.word.len() as f64 + 6.0)
    }
}

pub(super) fn draw(plot: &Plot) -> Canvas {
    let legend = Legend::of(plot, false);
    let rows = rows(plot);
    let height: f64 = rows.iter().map(Row::height).sum();
    let (mut canvas, top) = frame(plot, height + FOOT + legend.height());
    let words = rows.iter().flat_map(|row| &row.word);
    let widest = words.map(|word| text_width(word, TEXT)).fold(0.0, f64::max);
    let (left, right) = (MARGIN + widest + 12.0, WIDTH - MARGIN - 10.0);
    let axis = axis(plot, (left, right));
    let mut free_from = 0.0;
    for tick in axis.ticks() {
        let (x, text) = (axis.place(tick), short(tick));
        let half = text_width(&text, TEXT) / 2.0;
        canvas.line("grid", (x, top), (x, top + height));
        if x - half >= free_from {
            canvas.text("faint", "middle", x, top + height + 19.0, &text);
            free_from = x + half + 7.0;
        }
    }
    let styles = mark::styles(plot);
    let mut y = top;
    for (index, row) in rows.iter().enumerate() {
        canvas.line(if index == 0 { "axis" } else { "grid" }, (MARGIN, y), (right, y));
        let middle = y + row.height() / 2.0;
        let (word_top, mark_top) =
            (middle - LINE * row.word.len() as f64 / 2.0, middle - MARK * row.points.len() as f64 / 2.0);
        for (part, text) in row.word.iter().enumerate() {
            canvas.text("small", "start", MARGIN, word_top + LINE * (part as f64 + 0.5) + 4.5, text);
        }
        for (place, &(line, of, point)) in row.points.iter().enumerate() {
            let at = (axis.place(point.value), mark_top + MARK * (place as f64 + 0.5));
            let (low, high) = (axis.place(point.low), axis.place(point.high));
            canvas.open(styles[line].class, &told(of, point));
            canvas.whisker("ends", (low, high), at.1, 3.0);
            styles[line].draw(&mut canvas, at);
            canvas.close();
        }
        y += row.height();
    }
    legend.draw(&mut canvas, &styles, top + height + FOOT);
    canvas
}

fn axis(plot: &Plot, room: (f64, f64)) -> Axis {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let values: Vec<f64> = points().map(|point| point.value).collect();
    let ends: Vec<f64> = points().flat_map(|point| [point.low, point.high]).collect();
    Axis::of(&values, &ends, room)
}

/// In the order of the words' first use.
fn rows(plot: &Plot) -> Vec<Row<'_>> {
    let mut words: Vec<&str> = Vec::new();
    for point in plot.lines.iter().flat_map(|line| &line.points) {
        if !words.contains(&point.x.as_str()) {
            words.push(&point.x);
        }
    }
    let row = |word: &str| {
        let mut points = Vec::new();
        for (index, line) in plot.lines.iter().enumerate() {
            let having = line.points.iter().filter(|point| point.x == word);
            points.extend(having.map(|point| (index, line, point)));
        }
        Row { word: wrap(word, WORDS * WIDTH, TEXT), points }
    };
    words.into_iter().map(row).collect()
}
