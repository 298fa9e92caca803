//! Stacks, colours and words -> SVG.

use std::fmt::Write;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};

use super::Measure;
use super::colour::Legend;

pub(super) struct Picture {
    pub(super) title: String,
    pub(super) subtitle: String,
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
        let lines: Vec<String> = self
            .stacks
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
        // inferno calls the root frame "" until it draws it as "all".
        palette.insert("", ROOT);
        let (unit, factor) = unit(self.measure, whole);
        let mut options = Options::default();
        options.title = self.title;
        options.subtitle = Some(self.subtitle);
        options.count_name = unit.to_owned();
        options.factor = factor;
        options.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
        options.palette_map = Some(&mut palette);
        options.text_truncate_direction = TextTruncateDirection::Right;
        options.deterministic = true;
        let mut svg = Vec::new();
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).ok()?;
        let svg = String::from_utf8(svg).ok()?;
        Some(with_legend(&svg, &self.legend))
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

/// Adds the legend between subtitle and frames. The subtitle moves up for it.
fn with_legend(svg: &str, legend: &Legend) -> String {
    const BELOW_TITLE: &str = r#"<text id="subtitle" x="50.0000%" y="48.00">"#;
    let mut keys = String::new();
    for ([r, g, b], word) in &legend.0 {
        let _ = write!(keys, r#"<tspan dx="10" fill="rgb({r},{g},{b})">&#9632;</tspan> {word}"#);
    }
    let keys = format!(r#"<text id="legend" text-anchor="middle" x="50.0000%" y="57.00">{keys}</text>"#);
    svg.replacen(BELOW_TITLE, &format!("{keys}{}", BELOW_TITLE.replace("48.00", "41.00")), 1)
}
