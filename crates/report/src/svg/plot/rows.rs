//! Words along the axis: a row for each, with the marks of all lines in it, and whiskers that lie.

use super::super::canvas::{Canvas, fit, text_width};
use super::axis::{Axis, short};
use super::legend::Legend;
use super::mark;
use super::{MARGIN, Plot, TEXT, WIDTH, frame, told};

/// Height of a row beside its marks, and of each mark.
const ROW: f64 = 14.0;
const MARK: f64 = 11.0;
/// Share of the width that the words may take.
const WORDS: f64 = 0.42;
/// Names of system calls and flags are capitals, which are wider than most letters.
const CAPITALS: f64 = 1.2;
/// Below the rows: figures along the axis.
const FOOT: f64 = 30.0;

pub(super) fn draw(plot: &Plot) -> Canvas {
    let legend = Legend::of(plot);
    let words = words(plot);
    let row = ROW + MARK * plot.lines.len() as f64;
    let height = row * words.len() as f64;
    let (mut canvas, top) = frame(plot, height + FOOT + legend.height());
    let widest =
        words.iter().map(|word| text_width(word, TEXT) * CAPITALS).fold(0.0, f64::max).min(WORDS * WIDTH);
    let (left, right) = (MARGIN + widest + 10.0, WIDTH - MARGIN - 10.0);
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let values: Vec<f64> = points().map(|point| point.value).collect();
    let ends: Vec<f64> = points().flat_map(|point| [point.low, point.high]).collect();
    let axis = Axis::of(&values, &ends, (left, right));
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
    for (index, word) in words.iter().enumerate() {
        let y = top + row * index as f64;
        canvas.line(if index == 0 { "axis" } else { "grid" }, (MARGIN, y), (right, y));
        canvas.text("small", "start", MARGIN, y + row / 2.0 + 4.5, &fit(word, widest + 1.0, TEXT));
    }
    let looks = mark::looks(plot);
    for (line_index, (line, look)) in plot.lines.iter().zip(&looks).enumerate() {
        canvas.open(look.class, "");
        for point in &line.points {
            let Some(index) = words.iter().position(|word| *word == point.x) else { continue };
            let y = top + row * index as f64 + (ROW + MARK) / 2.0 + MARK * line_index as f64;
            let (low, high) = (axis.place(point.low), axis.place(point.high));
            canvas.open("", &told(line, point));
            if high - low > 1.0 {
                canvas.line("ends", (low, y), (high, y));
                for end in [low, high] {
                    canvas.line("ends", (end, y - 3.0), (end, y + 3.0));
                }
            }
            look.draw(&mut canvas, (axis.place(point.value), y));
            canvas.close();
        }
        canvas.close();
    }
    legend.draw(&mut canvas, &looks, top + height + FOOT);
    canvas
}

/// The words along the axis, in the order in which lines have them.
fn words(plot: &Plot) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    for point in plot.lines.iter().flat_map(|line| &line.points) {
        if !words.contains(&point.x.as_str()) {
            words.push(&point.x);
        }
    }
    words
}
