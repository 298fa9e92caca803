//! Horizontal bars with interval whiskers, to compare cures.

use super::canvas::{Canvas, MARGIN, WIDTH, fit, text_width};

/// A bar with its interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// The name, left of the bar.
    pub label: String,
    /// The length, in the unit that the subtitle names; not negative.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// The text right of the bar, such as the value with its unit.
    pub note: String,
    /// Whether to highlight this bar.
    pub highlight: bool,
}

const ROW: f64 = 40.0;
const THICK: f64 = 22.0;
const TOP: f64 = 88.0;
/// At most this many ticks; the step is chosen to give fewer.
const TICKS: u32 = 10;
/// Longer bars are cut here: arithmetic on their lengths could overflow.
const LONGEST: f64 = 1e15;
/// Text size of labels and notes.
const SIZE: f64 = 14.0;

/// Draws bars from a common zero, top to bottom in the given order. Whiskers are cut at 1.6 times the longest
/// bar, so that one wild interval does not flatten all others.
pub fn bars(title: &str, subtitle: &str, bars: &[Bar]) -> String {
    let height = TOP + bars.len() as f64 * ROW + 46.0;
    let mut canvas = Canvas::new(height, title, subtitle);
    let widest =
        |texts: &mut dyn Iterator<Item = &str>| texts.map(|t| text_width(t, SIZE)).fold(0.0, f64::max);
    let label_width = widest(&mut bars.iter().map(|b| b.label.as_str())).min(264.0);
    let note_width = widest(&mut bars.iter().map(|b| b.note.as_str())).min(216.0);
    let left = MARGIN + label_width + 12.0;
    let right = WIDTH - MARGIN - note_width - 12.0;
    let longest = bars.iter().map(|b| sane(b.value)).fold(0.0, f64::max);
    let reach = bars.iter().map(|b| sane(b.high)).fold(longest, f64::max).min(1.6 * longest);
    let step = tick_step(reach);
    let end = if step > 0.0 { (reach / step).ceil() * step } else { 1.0 };
    let x = |value: f64| left + (sane(value) / end).clamp(0.0, 1.0) * (right - left);
    let bottom = TOP + bars.len() as f64 * ROW;
    let ticks = if step > 0.0 { (end / step).round() as u32 } else { 0 };
    for tick in 0..=ticks.min(TICKS) {
        let value = f64::from(tick) * step;
        canvas.line(if tick == 0 { "axis" } else { "grid" }, (x(value), TOP - 4.0), (x(value), bottom + 4.0));
        canvas.text("tick", "middle", x(value), bottom + 22.0, &plain(value, step));
    }
    for (index, bar) in bars.iter().enumerate() {
        let middle = TOP + (index as f64 + 0.5) * ROW;
        let (class, weight) = if bar.highlight { ("best", "key") } else { ("bar", "name") };
        canvas.text(weight, "end", left - 12.0, middle + 5.0, &fit(&bar.label, label_width + 1.0, SIZE));
        canvas.rect(class, (left, middle - THICK / 2.0), (x(bar.value) - left, THICK), 3.0);
        canvas.whisker("whisker", (x(bar.low), x(bar.high)), middle, 5.0);
        canvas.text(weight, "start", right + 12.0, middle + 5.0, &fit(&bar.note, note_width + 1.0, SIZE));
    }
    canvas.finish(title)
}

fn sane(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, LONGEST) } else { 0.0 }
}

/// 1, 2 or 5 times a power of ten, so that four to eight steps reach `end`. 0 if `end` is not positive.
pub(super) fn tick_step(end: f64) -> f64 {
    if end <= 0.0 || !(end / 5.0).is_normal() {
        return 0.0;
    }
    let power = 10_f64.powf((end / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|s| s * power * 6.0 >= end).unwrap_or(10.0);
    step * power
}

/// A number with the decimals that distinguish two ticks.
fn plain(value: f64, step: f64) -> String {
    let decimals = if step > 0.0 { (-step.log10().floor()).clamp(0.0, 9.0) as usize } else { 0 };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let ends = [0.9, 1.0, 3.2, 47.0, 1e6];
        for end in ends {
            let n = (end / tick_step(end)).ceil();
            assert!((3.0..=8.0).contains(&n), "{end}: {n}");
        }
        assert_eq!([0.0, -1.0, f64::NAN].map(tick_step), [0.0; 3]);
    }

    #[test]
    fn nonsense_is_drawn_without_harm() {
        let bar =
            |value: f64| Bar { label: "<x>".into(), value, low: f64::NAN, high: f64::MAX, ..Bar::default() };
        let svg = bars("t", "", &[bar(f64::NAN), bar(f64::INFINITY), bar(-1.0), bar(1e-300), bar(f64::MAX)]);
        assert!(!svg.contains("NaN\"") && !svg.contains("inf\"") && svg.contains("&lt;x&gt;"));
        assert!(bars("nothing", "", &[]).ends_with("</svg>\n"));
    }
}
