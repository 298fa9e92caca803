//! The base of all pictures: frame, colours, escaped text.

use std::fmt::Write;

use crate::table;

/// Width of every picture in SVG units.
pub(super) const WIDTH: f64 = 760.0;
/// Margin around the content.
pub(super) const MARGIN: f64 = 32.0;

/// The styles of all pictures.
pub(super) const STYLE: &str = "svg:root{max-width:100%;height:auto}text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1f2328}\
.card{fill:#ffffff;stroke:#d8dee4}.title{font-size:20px;font-weight:600}.sub{font-size:13px;fill:#656d76}\
.tick{font-size:12px;fill:#656d76}.name{font-size:14px}.key{font-size:14px;font-weight:600}\
.grid{stroke:#e6eaef}.axis{stroke:#8c959f}.band{fill:#0969da;fill-opacity:.18}.line{fill:none;stroke:#0969da;stroke-width:2}\
.lost{fill:#afb8c1;fill-opacity:.22}.mark{stroke:#1a7f37;stroke-width:1.5;stroke-dasharray:4 4}.dot{fill:#1a7f37;stroke:#ffffff;stroke-width:2}\
.good{fill:#1a7f37}.bar{fill:#8fb8e8}.best{fill:#2da44e}.whisker{stroke:#1f2328;stroke-width:1.5}\
@media screen and (prefers-color-scheme:dark){svg:root{background:#0d1117}text{fill:#e6edf3}.card{fill:#0d1117;stroke:#30363d}.sub,.tick{fill:#8b949e}\
.grid{stroke:#21262d}.axis{stroke:#6e7681}.band{fill:#4493f8;fill-opacity:.25}.line{stroke:#4493f8}\
.lost{fill:#6e7681;fill-opacity:.18}.mark{stroke:#3fb950}.dot{fill:#3fb950;stroke:#0d1117}.good{fill:#3fb950}.bar{fill:#2f5f96}.best{fill:#238636}\
.whisker{stroke:#e6edf3}}";

pub(super) struct Canvas {
    body: String,
    width: f64,
    height: f64,
}

impl Canvas {
    /// An empty picture with its title and a line below it.
    pub(super) fn new(height: f64, title: &str, subtitle: &str) -> Self {
        let mut canvas = Canvas::blank(WIDTH, height);
        canvas.text("title", "start", MARGIN, 42.0, &fit(title, WIDTH - 2.0 * MARGIN, 20.0 * BOLD));
        canvas.text("sub", "start", MARGIN, 64.0, &fit(subtitle, WIDTH - 2.0 * MARGIN, 13.0));
        canvas
    }

    /// An empty picture of any size, without words.
    pub(super) fn blank(width: f64, height: f64) -> Self {
        let mut canvas = Canvas { body: String::new(), width, height };
        let (w, h) = (number(width - 1.0), number(height - 1.0));
        canvas.raw(&format!(r#"<rect class="card" x="0.5" y="0.5" width="{w}" height="{h}" rx="12"/>"#));
        canvas
    }

    /// Begins a group; [`close`](Self::close) ends it. A viewer shows `title`, if any, on hover.
    pub(super) fn open(&mut self, class: &str, title: &str) {
        let title =
            if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
        self.raw(&format!(r#"<g class="{class}">{title}"#));
    }

    pub(super) fn close(&mut self) {
        self.raw("</g>");
    }

    pub(super) fn text(&mut self, class: &str, anchor: &str, x: f64, y: f64, text: &str) {
        let (x, y, text) = (number(x), number(y), escape(text));
        self.raw(&format!(r#"<text class="{class}" text-anchor="{anchor}" x="{x}" y="{y}">{text}</text>"#));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.raw(&format!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#));
    }

    pub(super) fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), round: f64) {
        let [x, y, w, h, rx] = [corner.0, corner.1, size.0.max(0.0), size.1.max(0.0), round].map(number);
        self.raw(&format!(r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}" rx="{rx}"/>"#));
    }

    /// A horizontal interval at `y`, with bars of `half` up and down at its ends; none if it is too short to see.
    pub(super) fn whisker(&mut self, class: &str, (low, high): (f64, f64), y: f64, half: f64) {
        if high - low < 1.0 {
            return;
        }
        self.line(class, (low, y), (high, y));
        for end in [low, high] {
            self.line(class, (end, y - half), (end, y + half));
        }
    }

    pub(super) fn disc(&mut self, class: &str, at: (f64, f64), radius: f64) {
        let [x, y, r] = [at.0, at.1, radius].map(number);
        self.raw(&format!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{r}"/>"#));
    }

    /// A line through points, or an area if closed.
    pub(super) fn path(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>, closed: bool) {
        let mut data = String::new();
        for (index, (x, y)) in points.enumerate() {
            let step = if index == 0 { 'M' } else { 'L' };
            // Writing to a String can't fail.
            let _ = write!(data, "{step}{} {}", number(x), number(y));
        }
        let end = if closed { "Z" } else { "" };
        self.raw(&format!(r#"<path class="{class}" d="{data}{end}"/>"#));
    }

    /// The finished document. `label` is for screen readers.
    pub(super) fn finish(self, label: &str) -> String {
        self.finish_styled(label, &format!("<style>{STYLE}</style>\n"))
    }

    /// The same with the caller's style element: empty inside a page that has the styles.
    pub(super) fn finish_styled(self, label: &str, style: &str) -> String {
        let (w, h, label) = (number(self.width), number(self.height), escape(label));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" \
             aria-label=\"{label}\">\n{style}{}</svg>\n",
            self.body
        )
    }

    fn raw(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

/// A coordinate with at most one decimal; 0 for NaN and infinity.
fn number(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Text between tags or in an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML 1.0 can't express most control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// How much wider bold letters are.
pub(super) const BOLD: f64 = 1.12;

/// Clips text to a width.
pub(super) fn fit(text: &str, width: f64, size: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut left = width - text_width("...", size);
    let fits = |c: &char| {
        left -= letter_width(*c) * size;
        left >= 0.0
    };
    text.chars().take_while(fits).collect::<String>() + "..."
}

/// Breaks text into lines of a width. A word that is wider is clipped.
pub(super) fn wrap(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in table::words(text) {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(fit(&word, width, size)),
        }
    }
    lines
}

/// The approximate width of a text.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(letter_width).sum::<f64>() * size
}

/// In parts of the size, as in DejaVu Sans: the widest of the fonts that a viewer may take.
fn letter_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | 'J' | '\'' | '|' => 0.30,
        ' ' | '.' | ',' | ':' | ';' | '/' | '!' => 0.34,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' => 0.41,
        'c' | 'k' | 's' | 'v' | 'x' | 'y' | 'z' => 0.59,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.97,
        '=' | '+' | '<' | '>' | '~' => 0.84,
        'A'..='Z' => 0.75,
        _ => 0.64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_not_break_out_of_the_document() {
        assert_eq!(escape("<b a=\"1\">&\x1b"), "&lt;b a=&quot;1&quot;&gt;&amp; ");
    }

    #[test]
    fn coordinates_are_short_and_always_numbers() {
        assert_eq!([1.0, 1.26, f64::NAN].map(number), ["1", "1.3", "0"]);
    }

    #[test]
    fn lines_and_what_is_clipped_are_no_wider_than_their_room() {
        let text = "MMMM WWWW of 640 KiB, iiii llll and averylongwordthatdoesnotfitatall";
        let lines = wrap(text, 90.0, 13.0);
        assert!(lines.len() > 3 && lines.iter().all(|line| text_width(line, 13.0) <= 90.0), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("640 KiB")) && lines.last().unwrap().ends_with("..."));
        assert_eq!((wrap("", 90.0, 13.0).len(), fit("short", 90.0, 13.0)), (0, "short".to_owned()));
    }
}
