//! The answer of `check`.
//!
//! In: [`Checked`], or a new budget. Out: text, JSON, Markdown, or JUnit's XML. It decides nothing.

use faultless_trace::budget::{Budget, Checked, Compared, Growth, Limit};
use faultless_trace::measurement::{Bytes, Count, Percent};

use crate::palette::Palette;
use crate::svg::escape;
use crate::table::{Align, WIDTH, columns, wrap};
use crate::text;

/// Runs that lie apart by this share of their median are worth a note: their limit passes a regression of 5 %.
const COARSE: f64 = 0.025;

/// The answer first, then every figure beside its limit.
pub fn text(checked: &Checked, colour: bool) -> String {
    let palette = Palette(colour);
    let answer = wrap("", &answer(checked), WIDTH);
    let paint = |line: &String| if checked.over { palette.bad(line) } else { palette.strong(line) };
    let mut lines: Vec<String> = answer.iter().map(paint).collect();
    lines.extend(wrap("", &sites(checked), WIDTH).into_iter().filter(|line| !line.is_empty()));
    lines.push(String::new());
    let mut cells = vec![["", "now", "budget", "limit", "change", ""].map(String::from).to_vec()];
    cells.extend(checked.figures.iter().map(row));
    use Align::{Left, Right};
    let mut table = columns(2, &[Left, Right, Right, Right, Right, Left], &cells);
    table[0] = palette.faint(&table[0]);
    lines.extend(table);
    for growth in checked.growth.iter().skip(1) {
        lines.push(format!("  also grew: {}", grew(growth)));
    }
    for note in &checked.notes {
        lines.extend(wrap("", &format!("note: {note}"), WIDTH));
    }
    lines.join("\n") + "\n"
}

/// A section of Markdown, for the summary page of a CI run.
pub fn markdown(checked: &Checked) -> String {
    let mark = if checked.over { "❌" } else { "✅" };
    let mut page = format!("### {mark} {}\n\n{}\n", inline(&checked.name), inline(&answer(checked)));
    let sites = sites(checked);
    if !sites.is_empty() {
        page += &format!("\n{}\n", inline(&sites));
    }
    page += "\n| figure | now | budget | limit | change | |\n|---|--:|--:|--:|--:|---|\n";
    for figure in &checked.figures {
        page += &format!("| {} |\n", row(figure).join(" | "));
    }
    for growth in checked.growth.iter().skip(1) {
        page += &format!("\n* also grew: {}", inline(&grew(growth)));
    }
    for note in &checked.notes {
        page += &format!("\n* {}", inline(note));
    }
    page.trim_end().to_owned() + "\n"
}

/// A test suite with a test case for each figure.
pub fn junit(checked: &Checked) -> String {
    let name = escape(&text::plain(&checked.name));
    let failures = checked.figures.iter().filter(|figure| figure.over).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"faultless check: {name}\" \
         tests=\"{}\" failures=\"{failures}\" errors=\"0\">\n",
        checked.figures.len()
    );
    for figure in &checked.figures {
        let case = escape(&figure.words);
        xml += &format!("    <testcase classname=\"{name}\" name=\"{case}\"");
        xml += &match figure.over {
            false => "/>\n".to_owned(),
            true => format!(
                ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                escape(&over(figure)),
                escape(&text::plain(&sites(checked)))
            ),
        };
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

/// The same for a check that was not possible: one error.
pub fn junit_error(name: &str, why: &str) -> String {
    let (name, why) = (escape(&text::plain(name)), escape(&text::plain(why)));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"faultless check: {name}\" tests=\"1\" \
         failures=\"0\" errors=\"1\">\n    <testcase classname=\"{name}\" name=\"check\">\n      <error message=\"{why}\"/>\n    \
         </testcase>\n  </testsuite>\n</testsuites>\n"
    )
}

/// What a new budget holds, and the growth that it catches.
pub fn written(budget: &Budget, file: &str) -> String {
    // A share of next to nothing says nothing: then the limit itself.
    let (again, of_little) = match budget.again_bytes {
        Some(limit) if limit.resolution() > 1.0 => (None, Some(limit)),
        again => (again, None),
    };
    let figures =
        [("faults", Some(budget.faults)), ("peak RSS", Some(budget.peak_rss_bytes)), ("taken again", again)];
    let caught =
        |(what, limit): (&str, Option<Limit>)| Some(format!("{what} {}", Percent(limit?.resolution())));
    let caught: Vec<String> = figures.into_iter().filter_map(caught).collect();
    let runs = Count(u64::from(budget.runs)).of("run");
    let mut said =
        format!("{file}: budget of {runs}. Growth above these shares is caught: {}.", caught.join(", "));
    if let Some(limit) = of_little {
        said += &format!(" So is memory taken again beyond {}.", Bytes(limit.limit));
    }
    let apart = budget.faults.max - budget.faults.min;
    if apart as f64 > COARSE * budget.faults.median as f64 {
        said += " The number of faults varies that much from run to run; a fixed seed or fewer threads would narrow it.";
    }
    wrap("", &said, WIDTH).join("\n") + "\n"
}

fn answer(checked: &Checked) -> String {
    let over: Vec<String> = checked.figures.iter().filter(|figure| figure.over).map(self::over).collect();
    match (over.is_empty(), checked.figures.first()) {
        (false, _) => format!("Over budget: {}.", over.join("; ")),
        (true, Some(faults)) if faults.now < faults.budget.min.saturating_sub(room(faults)) => format!(
            "Within budget, with {} fewer faults: --update makes the budget tighter.",
            Percent(-faults.growth())
        ),
        (true, Some(faults)) => {
            format!(
                "Within budget: {} of at most {}.",
                Count(faults.now).of("fault"),
                Count(faults.budget.limit)
            )
        }
        (true, None) => "Within budget.".into(),
    }
}

fn room(figure: &Compared) -> u64 {
    figure.budget.limit.saturating_sub(figure.budget.max)
}

/// "faults: 21 604 instead of 20 561 (+5.1 %, limit 20 767)".
fn over(figure: &Compared) -> String {
    let Compared { words, now, budget, .. } = figure;
    let show = |value: u64| number(figure, value);
    format!(
        "{words}: {} instead of {} ({}, limit {})",
        show(*now),
        show(budget.median),
        change(figure),
        show(budget.limit)
    )
}

fn sites(checked: &Checked) -> String {
    match checked.growth.first() {
        _ if !checked.over => String::new(),
        Some(growth) => format!("Most of the growth is in {}.", grew(growth)),
        None => "No call site took more faults than in the budget.".into(),
    }
}

fn grew(growth: &Growth) -> String {
    let Growth { site, before, now } = growth;
    match before {
        0 => format!("{site}: {} faults, new", Count(*now)),
        _ => format!("{site}: {} faults instead of {}", Count(*now), Count(*before)),
    }
}

fn row(figure: &Compared) -> Vec<String> {
    let show = |value: u64| number(figure, value);
    let mark = if figure.over { "over" } else { "" };
    let budget = figure.budget;
    vec![
        figure.words.clone(),
        show(figure.now),
        show(budget.median),
        show(budget.limit),
        change(figure),
        mark.into(),
    ]
}

fn number(figure: &Compared, value: u64) -> String {
    if figure.is_bytes { Bytes(value).to_string() } else { Count(value).to_string() }
}

fn change(figure: &Compared) -> String {
    match (figure.budget.median, figure.growth()) {
        (0, _) => "new".into(),
        (_, growth) if figure.now == figure.budget.median || growth == 0.0 => "0 %".into(),
        (_, growth) if growth > 0.0 => format!("+{}", Percent(growth)),
        (_, growth) => format!("-{}", Percent(-growth)),
    }
}

/// Text that Markdown leaves as it is: names of functions have brackets, stars and underscores.
fn inline(text: &str) -> String {
    let mut said = String::new();
    for c in text::plain(text).chars() {
        if "\\`*_{}[]<>|#".contains(c) {
            said.push('\\');
        }
        said.push(c);
    }
    said
}
