//! Long names of functions -> names that fit.
//!
//! What tells functions apart stays: first template and generic arguments go, then parameters, then the
//! middle. A name is never cut at its end, where the function's own name is.

/// Names are never cut to fewer characters.
const LEAST: usize = 12;
/// The longest name where the width of the reader is not known.
const SHORT: usize = 80;

/// How long names may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Whole.
    Whole,
    /// Of a usual length.
    Short,
    /// So that a line has this width.
    Within(usize),
}

impl Names {
    /// A name for a line that has `used` characters before it.
    pub(crate) fn fit(self, name: &str, used: usize) -> String {
        match self {
            Self::Whole => name.to_owned(),
            Self::Short => shorten(name, SHORT),
            Self::Within(width) => shorten(name, width.saturating_sub(used).max(LEAST)),
        }
    }

    /// The same for a name with additions, two blanks apart: those that don't fit are left out.
    pub(crate) fn fit_parts(self, name: &str, used: usize) -> String {
        let mut parts = name.split("  ");
        let mut text = self.fit(parts.next().unwrap_or_default(), used);
        for part in parts {
            let longer = format!("{text}  {part}");
            let is_too_long = matches!(self, Self::Within(width) if used + longer.chars().count() > width);
            if !is_too_long {
                text = longer;
            }
        }
        text
    }
}

/// Shortens a name to `width` characters.
pub(crate) fn shorten(name: &str, width: usize) -> String {
    let fits = |name: &str| name.chars().count() <= width;
    if fits(name) {
        return name.to_owned();
    }
    let bare = without(name, '<', '>');
    if fits(&bare) {
        return bare;
    }
    let bare = without(&bare, '(', ')');
    if fits(&bare) {
        return bare;
    }
    let letters: Vec<char> = bare.chars().collect();
    let front = width.saturating_sub(2) / 3;
    let back = width.saturating_sub(2 + front);
    let begin: String = letters[..front].iter().collect();
    let end: String = letters[letters.len() - back..].iter().collect();
    format!("{begin}..{end}")
}

/// Replaces the content of brackets by dots. `<` at the begin of a name holds a type, which stays: only the
/// brackets inside it are emptied.
fn without(name: &str, open: char, close: char) -> String {
    let (mut text, mut depth, mut of_type) = (String::new(), 0_usize, name.starts_with('<') && open == '<');
    let mut letters = name.chars().peekable();
    let mut last = ' ';
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied().unwrap_or(' ');
        // An operator, an arrow, or the sign between two functions of a stack.
        let opens = letter == open && !matches!(next, ' ' | '=' | '-' | '<') && !text.ends_with("operator");
        let closes = letter == close && last != '-' && (last != ' ' || depth > 0);
        if opens && !(of_type && text.is_empty()) {
            depth += 1;
            if depth == 1 {
                text.push(open);
                text.push_str(if next == close { "" } else { ".." });
            }
        } else if closes && depth > 0 {
            depth -= 1;
            if depth == 0 {
                text.push(close);
            }
        } else if depth == 0 {
            of_type &= !closes;
            text.push(letter);
        }
        last = letter;
    }
    // Unbalanced: something else than brackets.
    if depth == 0 { text } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_arguments_first_and_then_their_middle() {
        let cpp =
            "std::vector<std::pair<int, float>, std::allocator<int> >::resize(unsigned long, int const&)";
        assert_eq!(shorten(cpp, 200), cpp);
        assert_eq!(shorten(cpp, 60), "std::vector<..>::resize(unsigned long, int const&)");
        assert_eq!(shorten(cpp, 40), "std::vector<..>::resize(..)");
        assert_eq!(shorten(cpp, 20), "std::v..::resize(..)");
        let rust = "<alloc::vec::Vec<mine::Row<u8>> as core::iter::Extend<u8>>::extend";
        assert_eq!(shorten(rust, 60), "<alloc::vec::Vec<..> as core::iter::Extend<..>>::extend");
        assert_eq!(shorten("read < parse<u8, u16> < main", 26), "read < parse<..> < main");
    }

    #[test]
    fn what_only_looks_like_brackets_is_left() {
        for name in ["a < b < c and so on until it is long", "bool operator<(A const&, A const&) and so on"] {
            let short = shorten(name, 24);
            assert!(short.chars().count() <= 24, "{short}");
        }
        assert_eq!(without("f<fn(u8) -> u8>::call", '<', '>'), "f<..>::call");
        assert_eq!(without("a <- b <- c", '<', '>'), "a <- b <- c");
    }
}
