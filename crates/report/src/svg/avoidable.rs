//! The avoidable curve: share of faults avoided over memory retained, with both bounds, the knee, and the
//! compulsory share.

use faultless_trace::Stat;
use faultless_trace::measurement::{Bytes, Percent};
use faultless_trace::stat::{Curve, Point};

use super::canvas::{Canvas, MARGIN, WIDTH, text_width};

const HEIGHT: f64 = 430.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = WIDTH - MARGIN - 8.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 362.0;
const TITLE: &str = "Page faults avoided, had freed pages been kept";

/// Draws the curve of an answer. Without a curve, the picture says why there is none.
pub fn avoidable(stat: &Stat) -> String {
    let command = crate::text::command(&stat.command);
    match &stat.avoidable {
        Some(curve) if !curve.points.is_empty() => draw(curve, &command),
        _ => {
            let mut canvas = Canvas::new(130.0, TITLE, &command);
            canvas.text(
                "name",
                "start",
                MARGIN,
                98.0,
                "No curve: memory was not read often enough over this run.",
            );
            canvas.finish("No avoidable curve")
        }
    }
}

/// Memory -> horizontal position, logarithmic.
struct Scale {
    first: f64,
    last: f64,
}

impl Scale {
    fn x(&self, bytes: u64) -> f64 {
        let part = ((bytes.max(1) as f64).log2() - self.first) / (self.last - self.first);
        LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

fn y(share: f64) -> f64 {
    BOTTOM - share.clamp(0.0, 1.0) * (BOTTOM - TOP)
}

fn draw(curve: &Curve, command: &str) -> String {
    let mut points = curve.points.clone();
    points.extend(curve.knee);
    points.sort_by_key(|p| p.keep_bytes);
    points.dedup_by_key(|p| p.keep_bytes);
    let (first, plateau) = (points[0], points[points.len() - 1]);
    // The plateau goes on for one doubling, so that it shows as one.
    points.push(Point { keep_bytes: plateau.keep_bytes.saturating_mul(2), ..plateau });
    let last = points[points.len() - 1].keep_bytes;
    let scale = Scale { first: (first.keep_bytes.max(1) as f64).log2(), last: (last.max(2) as f64).log2() };
    let mut canvas = Canvas::new(HEIGHT, TITLE, command);
    grid(&mut canvas, &scale, first.keep_bytes, last);
    canvas.rect("lost", (LEFT, TOP), (RIGHT - LEFT, y(plateau.high) - TOP), 0.0);
    let edge = |bound: fn(&Point) -> f64| points.iter().map(move |p| (bound(p), p.keep_bytes));
    let at = |(share, bytes): (f64, u64)| (scale.x(bytes), y(share));
    canvas.path("band", edge(|p| p.high).map(at).chain(edge(|p| p.low).rev().map(at)), true);
    canvas.path("line", edge(|p| p.high).map(at), false);
    canvas.path("line", edge(|p| p.low).map(at), false);
    compulsory(&mut canvas, plateau);
    if let Some(knee) = curve.knee {
        mark(&mut canvas, &scale, knee);
    }
    let label = match curve.knee {
        Some(knee) => format!("{} avoidable with {} kept", percent(&knee), Bytes(knee.keep_bytes)),
        None => "Hardly any fault is avoidable".to_owned(),
    };
    canvas.finish(&label)
}

fn grid(canvas: &mut Canvas, scale: &Scale, first: u64, last: u64) {
    for percent in [0, 25, 50, 75, 100] {
        let y = y(f64::from(percent) / 100.0);
        canvas.line(if percent == 0 { "axis" } else { "grid" }, (LEFT, y), (RIGHT, y));
        canvas.text("tick", "end", LEFT - 10.0, y + 4.0, &format!("{percent} %"));
    }
    let doublings = (scale.last - scale.first).max(1.0);
    // The axis has room for eight labels.
    let step = 1 + (doublings / 8.0).floor() as u32;
    let mut bytes = first.max(1);
    while bytes <= last {
        let x = scale.x(bytes);
        canvas.line("axis", (x, BOTTOM), (x, BOTTOM + 5.0));
        canvas.text("tick", "middle", x, BOTTOM + 20.0, &Bytes(bytes).to_string());
        match bytes.checked_shl(step) {
            Some(next) if next > bytes => bytes = next,
            _ => break,
        }
    }
    canvas.text("sub", "middle", f64::midpoint(LEFT, RIGHT), BOTTOM + 46.0, "freed pages kept at most");
}

/// Labels the area above the plateau if there is room.
fn compulsory(canvas: &mut Canvas, plateau: Point) {
    if 1.0 - plateau.high > 0.08 {
        let share = Percent((1.0 - plateau.high).clamp(0.0, 1.0));
        let text = format!("{share} compulsory: the first touch of peak memory, files, stacks");
        canvas.text("tick", "start", LEFT + 12.0, f64::midpoint(TOP, y(plateau.high)) + 4.0, &text);
    }
}

fn mark(canvas: &mut Canvas, scale: &Scale, knee: Point) {
    let (x, y) = (scale.x(knee.keep_bytes), y(f64::midpoint(knee.low, knee.high)));
    canvas.line("mark", (x, y), (x, BOTTOM));
    canvas.disc("dot", (x, y), 5.0);
    let text = format!("{} with {} kept", percent(&knee), Bytes(knee.keep_bytes));
    let fits_right = x + 14.0 + text_width(&text, 14.0) < RIGHT;
    let (anchor, x) = if fits_right { ("start", x + 14.0) } else { ("end", x - 14.0) };
    canvas.text("key good", anchor, x, BOTTOM - 16.0, &text);
}

fn percent(point: &Point) -> String {
    if point.high - point.low < 0.01 {
        Percent(f64::midpoint(point.low, point.high)).to_string()
    } else {
        format!("{:.0} to {:.0} %", point.low * 100.0, point.high * 100.0)
    }
}
