//! Random queries: patterns of the corpus's words, and flags that ripgrep has had since version 13.

use fastrand::Rng;

use super::corpus::WORDS;

const FLAGS: &[&[&str]] = &[
    &[],
    &[],
    &["-i"],
    &["-w"],
    &["-x"],
    &["-v", "-m3"],
    &["-c"],
    &["-l"],
    &["-o"],
    &["-n"],
    &["-S"],
    &["-A1"],
    &["-B2", "-n"],
    &["-C1"],
    &["-U"],
    &["--count-matches"],
    &["--vimgrep"],
    &["-b", "-o"],
    &["--column"],
    &["-m2"],
    &["--files-without-match"],
    &["--heading", "-n"],
    &["--no-unicode", "-i"],
    &["--crlf"],
    &["-c", "--include-zero"],
    &["-vc"],
    &["-wo"],
    &["--trim"],
    &["-r", "<$0>"],
    &["-M60"],
    &["-0l"],
    &["--passthru"],
    &["-I"],
    &["-a"],
    &["-u"],
    &["-uu"],
    &["-."],
    &["--json"],
    &["-q"],
    &["--sort=path", "-n"],
    &["--binary"],
    &["-tc"],
    &["-Tc", "-l"],
    &["-g!*.c", "-c"],
    &["--color=always"],
    &["-L", "-l"],
    &["--no-ignore", "-l"],
    &["--max-depth=2", "-c"],
    &["--stats", "-q"],
    &["-F"],
    &["-Fi"],
    &["-UA1"],
    &["-Uo"],
    &["-auu", "-c"],
    &["-vl"],
    &["--null-data", "-c"],
    &["-Elatin1", "-c"],
    &["--max-filesize=1K", "-l"],
    &["-pn"],
    &["-p", "--no-heading"],
    &["-cH"],
];

fn word(rng: &mut Rng) -> &'static str {
    WORDS[rng.usize(..WORDS.len())]
}

/// The word as a regular expression.
fn literal(rng: &mut Rng) -> String {
    let special =
        |char: char| if ".*+?()|[]{}^$\\-&~#".contains(char) { format!("\\{char}") } else { char.into() };
    word(rng).chars().map(special).collect()
}

fn pattern(rng: &mut Rng) -> String {
    let (a, b) = (literal(rng), literal(rng));
    match rng.u8(..20) {
        0 | 1 => a,
        2 => format!("{a}|{b}"),
        3 => format!("^{a}"),
        4 => format!("{a}$"),
        5 => format!("^{a}.*{b}$"),
        6 => format!(r"\b{a}\b"),
        7 => format!("{a}.*{b}"),
        8 => format!("(?i){a}"),
        9 => format!("[a-f]+{a}"),
        10 => format!("{a}?"),
        11 => format!("({a}|{b})+x*"),
        12 => format!(r"\p{{Lu}}\w*{a}"),
        13 => "fooo?bar".into(),
        14 => "^$".into(),
        15 => format!(r"{a}\s+{b}"),
        16 => format!(r"\w+_{a}"),
        17 => format!(r"[^\n]{{0,3}}{a}[^a-z]"),
        18 => format!("(?-u:{a})"),
        _ => "x*".into(),
    }
}

/// Whether each match is printed.
pub(crate) fn shows_matches(words: &[String]) -> bool {
    let flags = ["--json", "--vimgrep", "-o", "-wo", "-Uo", "-r", "-p", "-pn", "--color=always"];
    words.iter().any(|word| flags.contains(&word.as_str()))
}

/// Flags and a pattern.
pub(crate) fn query(rng: &mut Rng) -> Vec<String> {
    let mut words: Vec<String> = FLAGS[rng.usize(..FLAGS.len())].iter().map(ToString::to_string).collect();
    if rng.u8(..3) == 0 {
        let more = [&["-n"][..], &["-i"], &["-w"], &["-H"], &["-C1"]][rng.usize(..5)];
        words.extend(more.iter().map(ToString::to_string));
    }
    let is_fixed = words.iter().any(|flag| flag.starts_with("-F"));
    let pattern = if is_fixed { word(rng).into() } else { pattern(rng) };
    words.extend(["-e".into(), pattern]);
    words
}
