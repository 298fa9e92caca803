//! Stacks, colours and words -> SVG.

use std::fmt::Write;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection};

use super::colour::Legend;
use super::{Measure, tower};
use crate::svg::escape;

pub(super) struct Picture {
    pub(super) title: String,
    /// Lines below the title.
    pub(super) lines: Vec<String>,
    /// Names joined by semicolons, root first, with their weights: ns, faults or bytes.
    pub(super) stacks: Vec<(String, f64)>,
    pub(super) colours: Vec<(String, Color)>,
    pub(super) legend: Legend,
    pub(super) measure: Measure,
}

/// The unit is chosen so that the whole is at least this many: whole numbers then distinguish small frames.
const ENOUGH_UNITS: f64 = 1000.0;

/// The colour of the root frame.
const ROOT: Color = Color { r: 208, g: 212, b: 217 };

impl Picture {
    /// `None` if all weights are 0.
    pub(super) fn draw(self) -> Option<String> {
        let whole: f64 = self.stacks.iter().map(|stack| stack.1).sum();
        let stacks = tower::cut(&self.stacks);
        let lines: Vec<String> = stacks
            .iter()
            .filter(|stack| stack.1 >= 0.5)
            .map(|(stack, weight)| format!("{stack} {weight:.0}"))
            .collect();
        if lines.is_empty() {
            return None;
        }
        let mut palette = PaletteMap::default();
        for (name, colour) in self.colours {
            palette.insert(name, colour);
        }
        for name in stacks.iter().filter_map(|(stack, _)| tower::top(stack)) {
            palette.insert(name, ROOT);
        }
        // inferno calls the root frame "" until it draws it as "all".
        palette.insert("", ROOT);
        let (unit, factor) = unit(self.measure, whole);
        let mut options = Options::default();
        options.title = self.title;
        options.subtitle = Some(String::new());
        // Callers on top: the first screen shows them, however deep the stacks are.
        options.direction = Direction::Inverted;
        options.count_name = unit.to_owned();
        options.factor = factor;
        options.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
        options.palette_map = Some(&mut palette);
        options.text_truncate_direction = TextTruncateDirection::Right;
        options.deterministic = true;
        let mut svg = Vec::new();
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).ok()?;
        let svg = String::from_utf8(svg).ok()?;
        Some(with_head(&svg, &self.lines, &self.legend))
    }
}

/// The name of the printed unit, and the factor from ns, faults or bytes to it.
fn unit(measure: Measure, whole: f64) -> (&'static str, f64) {
    let units: &[(&str, f64)] = match measure {
        Measure::Time => &[("ms", 1e-6), ("us", 1e-3), ("ns", 1.0)],
        Measure::Faults => &[("faults", 1.0)],
        Measure::Bytes => &[("MiB", 1.0 / 1_048_576.0), ("KiB", 1.0 / 1024.0), ("bytes", 1.0)],
    };
    let fits = |unit: &&(&str, f64)| whole * unit.1 >= ENOUGH_UNITS;
    *units.iter().find(fits).unwrap_or(&units[units.len() - 1])
}

/// Height that inferno leaves above the frames.
const HEAD: f64 = 60.0;
/// From one line of the head to the next.
const LINE: f64 = 16.0;
/// The baseline of the first line.
const FIRST: f64 = 40.0;

/// Colours of a dark page. The frames keep theirs, a little darker, with black letters.
const DARK: &str = "
#search { opacity:1; text-decoration:underline; }
#title, #subtitle { text-anchor:start; }
@media (prefers-color-scheme:dark) {
svg:root { background:#0d1117; }
svg > rect:first-of-type { fill:#0d1117; }
text { fill:#e6edf3; }
#frames text { fill:#000; }
#frames rect { filter:brightness(.82); }
#frames > *:hover { stroke:white; }
}
</style>";

/// Puts the title at the left, lines and the legend below it, and moves the frames down for them.
fn with_head(svg: &str, lines: &[String], legend: &Legend) -> String {
    let down = (FIRST + LINE * (lines.len() as f64 - 0.25) - HEAD).max(0.0);
    let mut head = String::new();
    for (index, line) in lines.iter().enumerate() {
        let y = FIRST + LINE * index as f64;
        let _ = write!(head, r#"<text class="line" x="10" y="{y:.0}">{}</text>"#, escape(line));
    }
    let y = FIRST + LINE * lines.len() as f64;
    let mut keys = String::new();
    for (index, ([r, g, b], word)) in legend.0.iter().enumerate() {
        let gap = if index == 0 { 0 } else { 12 };
        let _ = write!(
            keys,
            r#"<tspan dx="{gap}" fill="rgb({r},{g},{b})" stroke="gray" stroke-width=".5">&#9632;</tspan> {word}"#
        );
    }
    let _ = write!(head, r#"<text id="legend" x="10" y="{y:.0}">{keys}</text>"#);
    let mut svg = svg.replacen("</style>", DARK, 1);
    svg = svg.replacen(
        r#"<text id="title" fill="rgb(0,0,0)" x="50.0000%""#,
        r#"<text id="title" fill="rgb(0,0,0)" x="10""#,
        1,
    );
    svg = svg.replacen(
        r#"<text id="unzoom" class="hide" fill="rgb(0,0,0)" x="10" y="24.00">"#,
        r#"<text id="unzoom" class="hide" fill="rgb(0,0,0)" x="100%" dx="-10" text-anchor="end" y="40.00">"#,
        1,
    );
    svg = svg.replacen(r#"<text id="details""#, &format!(r#"{head}<text id="details""#), 1);
    svg = svg.replacen(r#"<svg id="frames" x="10""#, &format!(r#"<svg id="frames" x="10" y="{down:.0}""#), 1);
    moved_down(svg, down)
}

/// The whole picture is taller, and what stands below the frames is lower.
fn moved_down(svg: String, down: f64) -> String {
    let Some(height) = between(&svg, r#" height=""#, "\"").and_then(|text| text.parse::<f64>().ok()) else {
        return svg;
    };
    let (old, new) = (format!("{height}"), format!("{:.0}", height + down));
    let svg = svg.replacen(&format!(r#" height="{old}""#), &format!(r#" height="{new}""#), 2);
    let svg =
        svg.replacen(&format!(r#"viewBox="0 0 1200 {old}""#), &format!(r#"viewBox="0 0 1200 {new}""#), 1);
    let low = height - 17.0;
    svg.replacen(&format!(r#"y="{low:.2}""#), &format!(r#"y="{:.2}""#, low + down), 2)
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(inner, _)| inner)
}
