//! Every figure of README.md and RESULTS.md, recomputed from its record.
//!
//! In: record/INDEX.toml and the records. Out: the cells of the tables, compared one by one. Fails if a
//! figure has no entry, an entry has no row, a record is not cited, a file is missing, or prose states a
//! measured figure. For a new row with empty cells, `FAULTLESS_FIGURES=write` writes the computed cells into
//! RESULTS.md.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

use serde::Deserialize;
use serde_json::Value;

mod computed;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    /// Folder below record/ -> how it was taken.
    record: BTreeMap<String, Taken>,
    /// Key at the end of a table's row -> its figures.
    row: BTreeMap<String, Row>,
    /// Key above a block of text -> the file that has these lines.
    screen: BTreeMap<String, Screen>,
    /// Name -> a figure inside a text of another file than README.md and RESULTS.md.
    sentence: BTreeMap<String, Sentence>,
    /// Name -> a page that a document links to.
    #[serde(default)]
    page: BTreeMap<String, Page>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Taken {
    commit: String,
    command: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    file: String,
    /// One computation for each cell between the first and the last.
    #[serde(default)]
    figures: Vec<String>,
    /// The row whose computations this one has, instead of its own.
    like: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentence {
    /// The file that has the text.
    document: String,
    file: String,
    /// With `{}` in the place of the figure. The record's folder follows in brackets.
    text: String,
    figure: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    file: String,
    /// Of a picture: what it says that it is of.
    picture: Option<Picture>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Picture {
    /// The recorded command: the first line below the title.
    command: String,
    /// The row with the picture's figures.
    row: String,
    /// The next lines, with `{0}` in the place of the row's first figure.
    says: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Screen {
    file: String,
}

impl Index {
    /// The computations of a row: its own, or those of the row that it is like.
    fn figures<'a>(&'a self, key: &str, row: &'a Row) -> &'a [String] {
        let Some(like) = &row.like else { return &row.figures };
        assert!(row.figures.is_empty(), "`{key}` has figures and is like `{like}`: drop one");
        match self.row.get(like) {
            Some(Row { figures, like: None, .. }) => figures,
            _ => panic!("`{key}` is like `{like}`, which has no figures of its own"),
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

fn index() -> Index {
    toml::from_str(&document("record/INDEX.toml")).unwrap()
}

/// The text of a record's file, unpacked.
fn record(file: &str) -> String {
    let path = root().join("record").join(file);
    let mut text = String::new();
    let opened = fs::File::open(&path).unwrap_or_else(|error| panic!("record/{file}: {error}"));
    if file.ends_with(".gz") {
        flate2::read::GzDecoder::new(opened).read_to_string(&mut text).unwrap();
    } else {
        { opened }.read_to_string(&mut text).unwrap();
    }
    text
}

/// The cells of each row of INDEX.toml.
static COMPUTED: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut files = BTreeMap::new();
    let index = index();
    let rows = index.row.iter().map(|(key, row)| {
        let file = files
            .entry(row.file.clone())
            .or_insert_with(|| computed::File::read(&row.file, &record(&row.file)));
        let figures = index.figures(key, row);
        (key.clone(), figures.iter().map(|figure| file.compute(key, figure)).collect())
    });
    rows.collect()
});

/// The cells of a table's line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(line.split('|').map(str::trim).collect())
}

/// Key and cells of each table row of a document. The key is the last cell: `key` or [key](RESULTS.md#place).
fn keyed(text: &str) -> Vec<(String, Vec<&str>)> {
    let key = |cell: &str| {
        let link = cell
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("](RESULTS.md#"))
            .map(|(key, _)| key.to_owned());
        link.or_else(|| cell.strip_prefix('`')?.strip_suffix('`').map(str::to_owned))
    };
    text.lines().filter_map(cells).filter_map(|cells| Some((key(cells.last()?)?, cells))).collect()
}

/// Blocks of code, each with the key in the comment above.
fn screens(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("<!-- screen: ").skip(1);
    let found = blocks.map(|rest| {
        let (key, rest) = rest.split_once(" -->").unwrap();
        let body =
            rest.trim_start().strip_prefix("```text\n").expect("a block of text follows the key of a screen");
        (key.to_owned(), body.split("```").next().unwrap().to_owned())
    });
    found.collect()
}

/// Prose without tables, code, links and backquoted text.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        fenced ^= line.starts_with("```");
        !fenced && !line.starts_with("```") && !line.trim_start().starts_with(['|', '<', '#'])
    });
    let joined = lines.collect::<Vec<_>>().join(" ");
    let unquoted: String = joined.split('`').step_by(2).collect::<Vec<_>>().join("x");
    // The target of a link is not prose.
    unquoted
        .split("](")
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.split_once(')').map_or("", |split| split.1) })
        .collect()
}

/// The measured figures in prose: a number with a unit of time, a percentage, or a factor.
fn measured(prose: &str) -> Vec<String> {
    const UNITS: [&str; 9] = ["%", "ms", "us", "ns", "s", "times", "faults", "GB/s", "MB"];
    let words: Vec<&str> = prose.split_whitespace().collect();
    let number =
        |word: &str| word.trim_start_matches(['(', '[', '-', '+']).starts_with(|c: char| c.is_ascii_digit());
    let unit = |word: &str| UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
    // 95 % is the level of all intervals, not a figure.
    let pairs = words
        .windows(2)
        .filter(|pair| number(pair[0]) && unit(pair[1]) && pair[0] != "95")
        .map(|pair| pair.join(" "));
    let factors = words
        .iter()
        .filter(|word| number(word) && word.trim_end_matches(['.', ',', ';', ')']).ends_with('x'));
    pairs.chain(factors.map(|word| (*word).to_owned())).collect()
}

#[test]
fn every_row_says_what_its_record_says() {
    let computed = &*COMPUTED;
    let write = env::var("FAULTLESS_FIGURES").is_ok_and(|value| value == "write");
    let mut text = document("RESULTS.md");
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (key, cells) in keyed(&document("RESULTS.md")) {
        let Some(figures) = computed.get(&key) else {
            wrong.push(format!("RESULTS.md: `{key}` is not in INDEX.toml"));
            continue;
        };
        assert!(seen.insert(key.clone()), "RESULTS.md has two rows `{key}`");
        if cells[1..cells.len() - 1] != figures[..] {
            wrong.push(format!(
                "RESULTS.md: `{key}` says {:?}, its record {figures:?}",
                &cells[1..cells.len() - 1]
            ));
            let old = text.lines().find(|line| line.ends_with(&format!("| `{key}` |"))).unwrap().to_owned();
            text = text.replace(&old, &format!("| {} | {} | `{key}` |", cells[0], figures.join(" | ")));
        }
    }
    wrong.extend(
        computed
            .keys()
            .filter(|key| !seen.contains(*key))
            .map(|key| format!("INDEX.toml: no row of RESULTS.md has `{key}`")),
    );
    if write {
        fs::write(root().join("RESULTS.md"), text).unwrap();
    }
    assert!(write || wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn texts_of_claims_say_what_their_record_says() {
    let mut documents: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates/lab/src/claims")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".toml") {
            let name = format!("crates/lab/src/claims/{name}");
            let text = document(&name);
            documents.insert(name, text);
        }
    }
    let mut wrong = Vec::new();
    for (key, sentence) in index().sentence {
        let figure =
            computed::File::read(&sentence.file, &record(&sentence.file)).compute(&key, &sentence.figure);
        let folder = Path::new(&sentence.file).parent().unwrap().display();
        let said = format!("{} (record/{folder})", sentence.text.replace("{}", &figure));
        let text =
            documents.get_mut(&sentence.document).unwrap_or_else(|| panic!("{key}: {}", sentence.document));
        if !text.contains(&said) {
            wrong.push(format!("{}: does not say, as `{key}` computes: {said}", sentence.document));
        }
        *text = text.replace(&said, "");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (name, text) in documents {
        let loose: Vec<&str> = text.lines().filter(|line| line.contains("record/")).collect();
        assert!(
            loose.is_empty(),
            "{name}: figures of a record that no [sentence] of INDEX.toml computes: {loose:?}"
        );
    }
}

#[test]
fn the_readme_repeats_results_and_nothing_else() {
    let (readme, computed) = (document("README.md"), &*COMPUTED);
    let rows = keyed(&readme);
    assert!(rows.len() > 3, "README.md has no tables of figures");
    for (key, cells) in rows {
        let figures = computed.get(&key).unwrap_or_else(|| panic!("README.md: `{key}` is not in INDEX.toml"));
        for cell in &cells[1..cells.len() - 1] {
            assert!(
                figures.iter().any(|figure| figure == cell),
                "README.md: `{key}` says {cell}, its record {figures:?}"
            );
        }
    }
}

#[test]
fn every_table_of_figures_has_keys() {
    for name in ["README.md", "RESULTS.md"] {
        let text = document(name);
        let keys = keyed(&text).len();
        let keyless = text.lines().filter_map(cells).filter(|cells| {
            let last = cells.last().unwrap();
            // Skips the head of a table and the line below it.
            let head = ["key", "record"].contains(last)
                || cells.iter().all(|cell| cell.chars().all(|c| "-: ".contains(c)));
            !head && !last.contains("](RESULTS.md#") && !last.starts_with('`')
        });
        let loose: Vec<String> = keyless
            .map(|cells| cells.join(" | "))
            .filter(|row| !measured(&prose(&row.replace('|', " "))).is_empty())
            .collect();
        assert!(keys > 0 && loose.is_empty(), "{name}: rows without a key: {loose:?}");
    }
}

#[test]
fn prose_states_no_measured_figure() {
    assert_eq!(
        measured(&prose("It takes 3 ms, 2x; `4 ms` [5 %](a.md) for 7 files.")),
        ["3 ms,", "[5 %", "2x;"]
    );
    for name in ["README.md", "RESULTS.md"] {
        let found = measured(&prose(&document(name)));
        assert!(found.is_empty(), "{name}: figures in prose have no record: {found:?}");
    }
}

#[test]
fn screens_are_lines_of_their_records() {
    let index = index();
    let mut seen = BTreeSet::new();
    for name in ["README.md", "RESULTS.md"] {
        for (key, body) in screens(&document(name)) {
            let screen =
                index.screen.get(&key).unwrap_or_else(|| panic!("{name}: no screen {key} in INDEX.toml"));
            let text = record(&screen.file);
            // Three dots stand for omitted lines.
            for part in body.split("...\n").filter(|part| !part.is_empty()) {
                assert!(
                    text.contains(part),
                    "{name}: the screen {key} is not in record/{}: {part}",
                    screen.file
                );
            }
            assert!(body.lines().count() > 2, "{name}: the screen {key} shows nothing");
            seen.insert(key);
        }
    }
    assert!(
        index.screen.keys().all(|key| seen.contains(key)),
        "INDEX.toml has a screen that no document shows"
    );
}

#[test]
fn pages_are_linked_and_open_without_network() {
    let results = document("RESULTS.md");
    for (name, page) in index().page {
        assert!(
            results.contains(&format!("](record/{})", page.file)),
            "RESULTS.md does not link the page {name}"
        );
        let text = record(&page.file);
        match page.picture {
            None => {
                assert!(
                    text.contains("<html") && !text.contains("://"),
                    "record/{}: asks the network",
                    page.file
                );
            }
            Some(picture) => {
                let wrong = wrong_picture(&text, &picture, &COMPUTED[&picture.row]);
                assert!(wrong.is_none(), "record/{}: {}", page.file, wrong.unwrap_or_default());
            }
        }
    }
}

/// What is wrong with an SVG: it asks the network, is of another command, or has other figures than its row.
fn wrong_picture(svg: &str, picture: &Picture, cells: &[String]) -> Option<String> {
    // Names of XML, which nothing loads.
    const NAMES: [&str; 4] = [
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd",
        "http://github.com/jonhoo/inferno",
    ];
    const LOADS: [&str; 6] = ["fetch(", "XMLHttpRequest", "import", "WebSocket", ".src", "@font-face"];
    // Comments, and messages of the script, may name places.
    let without = |text: &str, from: &str, to: &str| -> (String, String) {
        let mut parts = text.split(from);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold((first, String::new()), |(kept, cut), part| {
            let (inner, behind) = part.split_once(to).unwrap_or((part, ""));
            (kept + behind, cut + inner)
        })
    };
    let (rest, script) = without(&without(svg, "<!--", "-->").0, "<script", "</script>");
    let rest = NAMES.iter().fold(rest, |text, name| text.replace(&format!("\"{name}\""), ""));
    let is_loading = LOADS.iter().any(|load| script.contains(load));
    if !svg.contains("<svg ") || rest.contains("://") || is_loading {
        return Some("is no SVG, or asks the network".to_owned());
    }
    let lines: Vec<&str> = svg
        .split(r#"<text class="line""#)
        .skip(1)
        .filter_map(|part| part.split_once('>')?.1.split_once('<').map(|(line, _)| line))
        .collect();
    let (command, said) = lines.split_first()?;
    if *command != picture.command {
        return Some(format!("is of the command {command}, not of {}", picture.command));
    }
    let fill = |text: String, (at, cell): (usize, &String)| text.replace(&format!("{{{at}}}"), cell);
    let says = cells.iter().enumerate().fold(picture.says.clone(), fill);
    let said = said.join(" ");
    (!said.starts_with(&says)).then(|| format!("says: {said}; its row: {says}"))
}

#[test]
fn a_picture_of_another_command_or_of_other_figures_is_noticed() {
    let svg = |line: &str| {
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg"><text class="line" x="1">./touch 2</text>{}</svg>"#,
            format_args!(r#"<text class="line" x="1">{line}</text><text class="line">zone lock 3 %</text>"#)
        )
    };
    let picture = |command: &str| Picture {
        command: command.to_owned(),
        row: String::new(),
        says: "{0} samples: locks {1}".to_owned(),
    };
    let of = |svg: &str, command| wrong_picture(svg, &picture(command), &["7".to_owned(), "14 %".to_owned()]);
    assert_eq!(of(&svg("7 samples: locks 14 %, rest 86 %"), "./touch 2"), None);
    assert!(of(&svg("7 samples: locks 14 %"), "./touch 1").unwrap().contains("of the command ./touch 2"));
    assert!(of(&svg("7 samples: locks 15 %"), "./touch 2").unwrap().contains("locks 15 %"));
    assert!(of(&svg("<image href='https://a.b/c'/>"), "./touch 2").unwrap().contains("network"));
    let loading = svg("7 samples: locks 14 %") + "<script>fetch(where)</script>";
    assert!(of(&loading, "./touch 2").unwrap().contains("network"));
    assert!(of("<html></html>", "./touch 2").is_some());
}

#[test]
fn every_record_is_cited_and_says_its_commit() {
    // A line may break anywhere.
    let (index, results) = (index(), document("RESULTS.md").split_whitespace().collect::<Vec<_>>().join(" "));
    let cited: BTreeSet<&str> = index
        .row
        .values()
        .map(|row| row.file.as_str())
        .chain(index.screen.values().map(|screen| screen.file.as_str()))
        .chain(index.page.values().map(|page| page.file.as_str()))
        .collect();
    let mut folders = BTreeSet::new();
    let mut bytes = 0;
    for topic in fs::read_dir(root().join("record"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
    {
        for folder in fs::read_dir(&topic).unwrap().map(|entry| entry.unwrap().path()) {
            let name = folder.strip_prefix(root().join("record")).unwrap().to_str().unwrap().to_owned();
            for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
                let path = format!("{name}/{}", file.file_name().to_str().unwrap());
                bytes += file.metadata().unwrap().len();
                assert!(
                    path.ends_with("/host.txt") || cited.contains(path.as_str()),
                    "record/{path} is not cited: drop it"
                );
            }
            let taken =
                index.record.get(&name).unwrap_or_else(|| panic!("record/{name} is not in INDEX.toml"));
            let host = fs::read_to_string(folder.join("host.txt")).unwrap_or_default();
            assert!(
                host.contains(&format!(" {}", taken.commit)),
                "record/{name}/host.txt does not name the commit {}",
                taken.commit
            );
            for said in [&format!("record/{name}"), &taken.commit, &taken.command] {
                assert!(results.contains(said.as_str()), "RESULTS.md does not say {said}, of record/{name}");
            }
            folders.insert(name);
        }
    }
    assert!(
        index.record.keys().all(|name| folders.contains(name)),
        "INDEX.toml names a folder that is not there"
    );
    assert!(bytes < 6 << 20, "record/ has {bytes} bytes: compress, or drop what nobody cites");
}
