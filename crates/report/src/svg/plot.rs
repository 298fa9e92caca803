//! Lines of points with interval whiskers over logarithmic axes, and the points of a document beside them.
//!
//! Along the axis are numbers, or, where one of them is none, words: those are rows, one below the other. Every line has a
//! mark of its own besides its colour; what a document says is always in the one colour that no line has, and hollow.

mod axis;
mod legend;
mod lines;
mod mark;
mod rows;

use std::fmt::Write;

use super::canvas::{Canvas, STYLE};
use crate::table;

/// One picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// A fixed name, for files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What is along the axis, with its unit.
    pub x_label: String,
    /// What is drawn, with its unit.
    pub y_label: String,
    /// Whether what is along the axis is a number of bytes.
    pub x_is_bytes: bool,
    /// Its lines, the document's among them.
    pub lines: Vec<Line>,
}

/// Points that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// A name, for the legend.
    pub name: String,
    /// Whether a document says so; else it was measured.
    pub is_document: bool,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// A point with its interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Its place along the axis: a number, or a word.
    pub x: String,
    /// Its height.
    pub value: f64,
    /// Lower end of its interval; no number where one sample alone gives none.
    pub low: f64,
    /// Upper end of its interval, likewise.
    pub high: f64,
}

/// Width in SVG units: narrow, so that it is still read when a phone shows it whole.
const WIDTH: f64 = 460.0;
const MARGIN: f64 = 18.0;
/// Sizes of text.
const HEAD: f64 = 16.0;
const TEXT: f64 = 13.0;

const PLOT_STYLE: &str = ".head{font-size:16px;font-weight:600}.small{font-size:13px}.faint{font-size:13px;fill:#656d76}\
.s0{color:#0969da}.s1{color:#1a7f37}.s2{color:#8250df}.s3{color:#0e7c86}.s4{color:#bf3989}.s5{color:#57606a}.doc{color:#bc4c00}\
.thread{fill:none;stroke:currentColor;stroke-width:1.6}.dash{stroke-dasharray:5 4}.ends{stroke:currentColor;stroke-width:1.4}\
.point{fill:currentColor;stroke:currentColor;stroke-width:1.6;stroke-linejoin:round}.hollow{fill:#ffffff}\
@media (prefers-color-scheme:dark){.faint{fill:#8b949e}.s0{color:#58a6ff}.s1{color:#3fb950}.s2{color:#bc8cff}.s3{color:#39c5cf}\
.s4{color:#f778ba}.s5{color:#9da7b1}.doc{color:#f0883e}.hollow{fill:#0d1117}}";

/// Draws a picture of its own.
pub fn plot(plot: &Plot) -> String {
    drawn(plot, &format!("<style>{}</style>\n", style()))
}

/// The same for a page that has [`style`] in its head.
pub(crate) fn inline(plot: &Plot) -> String {
    drawn(plot, "")
}

/// What the classes of these pictures look like.
pub(crate) fn style() -> String {
    format!("{STYLE}{PLOT_STYLE}")
}

/// The points as a table: line, whose, x, value, low, high.
pub fn csv(plot: &Plot) -> String {
    let mut text = format!("line,from,{},value,low,high\n", quoted(&plot.x_label));
    for line in &plot.lines {
        let (name, from) = (quoted(&line.name), if line.is_document { "document" } else { "measured" });
        for Point { x, value, low, high } in &line.points {
            let [low, high] =
                [low, high].map(|end| if end.is_finite() { end.to_string() } else { String::new() });
            // Writing to a String can't fail.
            let _ = writeln!(text, "{name},{from},{},{value},{low},{high}", quoted(x));
        }
    }
    text
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn drawn(plot: &Plot, style: &str) -> String {
    let points: Vec<&Point> = plot.lines.iter().flat_map(|line| &line.points).collect();
    let canvas = match points.iter().all(|point| number(&point.x).is_some()) {
        _ if points.is_empty() => {
            let (mut canvas, top) = frame(plot, 40.0);
            canvas.text("faint", "start", MARGIN, top + 16.0, "Nothing of it was measured in this record.");
            canvas
        }
        true => lines::draw(plot),
        false => rows::draw(plot),
    };
    canvas.finish_styled(&plot.title, style)
}

fn number(x: &str) -> Option<f64> {
    x.parse().ok().filter(|x: &f64| x.is_finite())
}

/// A canvas with the words above the picture, which takes `inner` below them; and where it begins.
fn frame(plot: &Plot, inner: f64) -> (Canvas, f64) {
    let room = WIDTH - 2.0 * MARGIN;
    let wrapped = |text: &str, size: f64| table::wrap("", text, (room / (0.56 * size)) as usize);
    let (head, sub) = (wrapped(&plot.title, HEAD), wrapped(&plot.y_label, TEXT));
    let top = 14.0 + 21.0 * head.len() as f64 + 18.0 * sub.len() as f64 + 10.0;
    let mut canvas = Canvas::blank(WIDTH, top + inner + 12.0);
    let mut y = 12.0;
    for line in head {
        y += 21.0;
        canvas.text("head", "start", MARGIN, y, &line);
    }
    for line in sub {
        y += 18.0;
        canvas.text("faint", "start", MARGIN, y, &line);
    }
    (canvas, top)
}

/// What a viewer shows when a point is pointed at.
fn told(line: &Line, point: &Point) -> String {
    let [value, low, high] = [point.value, point.low, point.high].map(axis::short);
    let from = if line.is_document { "the document: " } else { "" };
    let has_none = low == high || !point.low.is_finite();
    let interval = if has_none { String::new() } else { format!(" [{low} {high}]") };
    format!("{from}{} {}: {value}{interval}", line.name, point.x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: &str, value: f64) -> Point {
        Point { x: x.into(), value, low: value, high: value }
    }

    #[test]
    fn nonsense_is_drawn_without_harm() {
        let values = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, f64::MAX];
        for xs in [
            ["1", "2", "3", "4", "5", "6"],
            ["-1", "0", "1e308", "2", "3", "4"],
            ["a", "<b>", "", "d", "e", "f"],
        ] {
            let points = xs.iter().zip(values).map(|(x, value)| point(x, value)).collect();
            let lines = vec![Line { name: "<x>".into(), points, ..Line::default() }; 2];
            let svg = plot(&Plot { lines, ..Plot::default() });
            assert!(!svg.contains("NaN\"") && !svg.contains("inf\"") && !svg.contains("<x>"), "{svg}");
        }
        assert!(plot(&Plot::default()).contains("Nothing of it was measured"));
    }

    #[test]
    fn commas_and_quotes_stay_in_their_column() {
        let line = Line { name: "read, \"cold\"".into(), is_document: true, points: vec![point("1", 2.5)] };
        let plot = Plot { x_label: "threads".into(), lines: vec![line], ..Plot::default() };
        assert_eq!(
            csv(&plot),
            "line,from,threads,value,low,high\n\"read, \"\"cold\"\"\",document,1,2.5,2.5,2.5\n"
        );
    }
}
