//! Points with interval whiskers, joined by lines, over logarithmic axes.
//!
//! The horizontal axis has numbers. If any value is not a number, each value becomes a row. Every line has a
//! mark as well as a colour. Points of a document are hollow and have a colour of their own.
//!
//! We don't use the crate `plotters` (0.3.7, tried in November 2026). It writes colours into every element,
//! so a picture can't follow the reader's dark mode. Its legend covers points, it does not wrap titles, and a
//! file is 2.6 times as large.

mod axis;
mod legend;
mod lines;
mod mark;
mod rows;

use std::fmt::Write;

use super::canvas::{BOLD, Canvas, STYLE, wrap};

/// A picture of lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// A fixed name, for files.
    pub id: String,
    /// What the picture shows.
    pub title: String,
    /// What the horizontal axis shows, with its unit.
    pub x_label: String,
    /// What the vertical axis shows, with its unit.
    pub y_label: String,
    /// Whether horizontal values are numbers of bytes.
    pub x_is_bytes: bool,
    /// The lines, the document's among them.
    pub lines: Vec<Line>,
    /// A text below the picture; may be empty.
    pub remark: String,
}

/// Points that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// Whether the points come from a document; else they were measured.
    pub is_document: bool,
    /// From left to right.
    pub points: Vec<Point>,
}

/// A point with its interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// The horizontal value: a number, or a word.
    pub x: String,
    /// The vertical value.
    pub value: f64,
    /// Lower end of the interval; NaN if a single sample gives none.
    pub low: f64,
    /// Upper end of the interval, likewise.
    pub high: f64,
}

/// Width in SVG units: narrow enough to be readable on a phone.
const WIDTH: f64 = 460.0;
const MARGIN: f64 = 18.0;
const HEAD: f64 = 16.0;
const TEXT: f64 = 13.0;
/// Line height of small text.
const LINE: f64 = 18.0;

const PLOT_STYLE: &str = ".head{font-size:16px;font-weight:600}.small{font-size:13px}.faint{font-size:13px;fill:#656d76}\
.s0{color:#0969da}.s1{color:#1a7f37}.s2{color:#8250df}.s3{color:#0e7c86}.s4{color:#bf3989}.s5{color:#57606a}.doc{color:#bc4c00}\
.thread{fill:none;stroke:currentColor;stroke-width:1.6}.dash{stroke-dasharray:5 4}.ends{stroke:currentColor;stroke-width:1.4}\
.point{fill:currentColor;stroke:currentColor;stroke-width:1.6;stroke-linejoin:round}.hollow{fill:#ffffff}\
@media screen and (prefers-color-scheme:dark){.faint{fill:#8b949e}.s0{color:#58a6ff}.s1{color:#3fb950}.s2{color:#bc8cff}.s3{color:#39c5cf}\
.s4{color:#f778ba}.s5{color:#9da7b1}.doc{color:#f0883e}.hollow{fill:#0d1117}}";

/// Draws a picture that stands alone.
pub fn plot(plot: &Plot) -> String {
    drawn(plot, &format!("<style>{}</style>\n", style()))
}

/// Draws a picture for a page that has [`style`] in its head.
pub(crate) fn inline(plot: &Plot) -> String {
    drawn(plot, "")
}

/// The styles of these pictures.
pub(crate) fn style() -> String {
    format!("{STYLE}{PLOT_STYLE}")
}

/// The points as CSV.
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

pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn drawn(plot: &Plot, style: &str) -> String {
    let points: Vec<&Point> = plot.lines.iter().flat_map(|line| &line.points).collect();
    let canvas = if points.is_empty() {
        let (mut canvas, top) = frame(plot, 40.0);
        canvas.text("faint", "start", MARGIN, top + 16.0, "Nothing of it was measured in this record.");
        canvas
    } else if points.iter().all(|point| number(&point.x).is_some()) {
        lines::draw(plot)
    } else {
        rows::draw(plot)
    };
    canvas.finish_styled(&plot.title, style)
}

fn number(x: &str) -> Option<f64> {
    x.parse().ok().filter(|x: &f64| x.is_finite())
}

/// A canvas with the words above and below the picture, and the top of the `inner` height between them.
fn frame(plot: &Plot, inner: f64) -> (Canvas, f64) {
    let room = WIDTH - 2.0 * MARGIN;
    let (head, sub) = (wrap(&plot.title, room, HEAD * BOLD), wrap(&plot.y_label, room, TEXT));
    let remark = wrap(&plot.remark, room, TEXT);
    let top = 14.0 + 21.0 * head.len() as f64 + LINE * sub.len() as f64 + 10.0;
    let below = if remark.is_empty() { 0.0 } else { 4.0 + LINE * remark.len() as f64 };
    let mut canvas = Canvas::blank(WIDTH, top + inner + below + 12.0);
    let mut y = 12.0;
    for line in head {
        y += 21.0;
        canvas.text("head", "start", MARGIN, y, &line);
    }
    small(&mut canvas, "start", (MARGIN, y), &sub);
    small(&mut canvas, "start", (MARGIN, top + inner), &remark);
    (canvas, top)
}

/// Lines of small text, the first one below `y`.
fn small(canvas: &mut Canvas, anchor: &str, (x, y): (f64, f64), lines: &[String]) {
    for (index, line) in lines.iter().enumerate() {
        canvas.text("faint", anchor, x, y + LINE * (index + 1) as f64, line);
    }
}

/// The text that a viewer shows on hover.
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
    fn the_legend_shows_which_lines_are_dashed() {
        let line = |n: usize| Line {
            name: format!("line {n}"),
            is_document: n == 12,
            points: vec![point("1", 2.0), point("2", 3.0)],
        };
        let drawn = plot(&Plot { lines: (0..13).map(line).collect(), ..Plot::default() });
        // Lines beyond the six colours, and the document's, are dashed: in the picture and in the legend.
        assert_eq!(drawn.matches("\"thread dash\"").count(), 2 * 7);
        assert_eq!(drawn.matches("\"thread\"").count(), 2 * 6);
    }

    #[test]
    fn long_names_and_labels_are_wrapped_and_not_clipped() {
        let name = "Windows 10 Creators Update on an i7-4770K with four cores, the best of all its figures";
        let lines = vec![Line { name: name.into(), points: vec![point("1", 2.0)], ..Line::default() }; 2];
        let labels = ["a title that is so long that it does not fit into one line of the picture", name];
        let (title, x_label) = (labels[0].into(), labels[1].into());
        let remark = format!("said: {name}");
        let svg = plot(&Plot { title, x_label, remark, lines, ..Plot::default() });
        assert!(!svg.contains("...") && svg.matches("figures</text>").count() == 4, "{svg}");
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
