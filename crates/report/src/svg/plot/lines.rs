//! Horizontal values that are numbers: lines through points with vertical whiskers.

use std::collections::BTreeMap;

use faultless_trace::measurement::Bytes;

use super::super::canvas::{Canvas, text_width, wrap};
use super::axis::{Axis, short};
use super::legend::Legend;
use super::mark::{self, Style};
use super::{LINE, Line, MARGIN, Plot, Point, TEXT, WIDTH, frame, number, small, told};

const HEIGHT: f64 = 230.0;
/// Height of the figures below the axis.
const FIGURES: f64 = 21.0;
/// Between the axis label and the legend.
const GAP: f64 = 13.0;
/// Between the vertical axis and the first point, so that its mark touches nothing.
const INSET: f64 = 14.0;
/// Distance between the whiskers of two lines at the same value.
const APART: f64 = 3.5;
/// Distance between the outermost of these whiskers, at most.
const MOST_APART: f64 = 14.0;

struct Area {
    x: Axis,
    y: Axis,
    left: f64,
    right: f64,
    top: f64,
}

pub(super) fn draw(plot: &Plot) -> Canvas {
    let legend = Legend::of(plot, true);
    let label = wrap(&plot.x_label, WIDTH - 2.0 * MARGIN, TEXT);
    let foot = FIGURES + LINE * label.len() as f64 + GAP;
    let (mut canvas, top) = frame(plot, HEIGHT + foot + legend.height());
    let area = area(plot, top);
    grid(&mut canvas, plot, &area);
    small(&mut canvas, "middle", (WIDTH / 2.0, top + HEIGHT + FIGURES), &label);
    let styles = mark::styles(plot);
    let measured = plot.lines.iter().filter(|line| !line.is_document).count();
    let step = APART.min(MOST_APART / measured.max(1) as f64);
    let mut place = 0;
    for (line, style) in plot.lines.iter().zip(&styles) {
        let aside =
            if line.is_document { 0.0 } else { (place as f64 - (measured as f64 - 1.0) / 2.0) * step };
        place += usize::from(!line.is_document);
        draw_line(&mut canvas, line, *style, &area, aside);
    }
    legend.draw(&mut canvas, &styles, top + HEIGHT + foot);
    canvas
}

fn area(plot: &Plot, top: f64) -> Area {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let values: Vec<f64> = points().map(|point| point.value).collect();
    let ends: Vec<f64> = points().flat_map(|point| [point.low, point.high]).collect();
    let y = Axis::of(&values, &ends, (top + HEIGHT, top + 4.0));
    let widest = y.ticks().iter().map(|tick| text_width(&short(*tick), TEXT)).fold(0.0, f64::max);
    let (left, right) = (MARGIN + widest + 10.0, WIDTH - MARGIN - 6.0);
    let places: Vec<f64> = points().filter_map(|point| number(&point.x)).collect();
    Area { x: Axis::of(&places, &[], (left + INSET, right)), y, left, right, top }
}

fn grid(canvas: &mut Canvas, plot: &Plot, area: &Area) {
    let bottom = area.top + HEIGHT;
    for tick in area.y.ticks() {
        let y = area.y.place(tick);
        canvas.line("grid", (area.left, y), (area.right, y));
        canvas.text("faint", "end", area.left - 8.0, y + 4.5, &short(tick));
    }
    canvas.line("axis", (area.left, bottom), (area.right, bottom));
    // The measured values, if their labels do not touch.
    let mut places: BTreeMap<i64, String> = BTreeMap::new();
    for point in plot.lines.iter().flat_map(|line| &line.points) {
        let Some(value) = number(&point.x) else { continue };
        let text = if plot.x_is_bytes { Bytes(value as u64).to_string() } else { short(value) };
        places.insert(area.x.place(value).round() as i64, text);
    }
    let mut free_from = 0.0;
    for (x, text) in places {
        let (x, half) = (x as f64, text_width(&text, TEXT) / 2.0);
        canvas.line("axis", (x, bottom), (x, bottom + 4.0));
        if x - half >= free_from {
            canvas.text("faint", "middle", x, bottom + 19.0, &text);
            free_from = x + half + 7.0;
        }
    }
}

fn draw_line(canvas: &mut Canvas, line: &Line, style: Style, area: &Area, aside: f64) {
    let at =
        |point: &Point| (area.x.place(number(&point.x).unwrap_or(0.0)) + aside, area.y.place(point.value));
    canvas.open(style.class, "");
    if line.points.len() > 1 {
        canvas.path(style.line(), line.points.iter().map(at), false);
    }
    for point in &line.points {
        let (x, y) = at(point);
        let (low, high) = (area.y.place(point.low), area.y.place(point.high));
        canvas.open("", &told(line, point));
        if low - high > 1.0 {
            canvas.line("ends", (x, low), (x, high));
            for end in [low, high] {
                canvas.line("ends", (x - 3.5, end), (x + 3.5, end));
            }
        }
        style.draw(canvas, (x, y));
        canvas.close();
    }
    canvas.close();
}
