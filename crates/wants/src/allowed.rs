//! `missing.txt`: what may be missing in CI, and in how many tests.

use std::collections::BTreeMap;

use crate::record::Kind;

/// The committed list: how many tests may skip, by kind and name.
pub(crate) struct Allowed(BTreeMap<(Kind, String), usize>);

impl Allowed {
    /// The list in the tree.
    pub(crate) fn committed() -> Self {
        Self::parse(include_str!("../missing.txt")).unwrap_or_else(|line| panic!("missing.txt: {line}"))
    }

    /// # Errors
    ///
    /// The first line that is malformed.
    fn parse(text: &str) -> Result<Self, String> {
        let mut allowed = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, tests) = entry(line).ok_or_else(|| line.to_owned())?;
            if allowed.insert(key, tests).is_some() {
                return Err(format!("twice: {line}"));
            }
        }
        Ok(Self(allowed))
    }

    /// Whether it may be missing at all.
    pub(crate) fn allows(&self, kind: Kind, what: &str) -> bool {
        kind == Kind::Request || self.tests(kind, what) > 0
    }

    /// In how many tests it may be missing.
    pub(crate) fn tests(&self, kind: Kind, what: &str) -> usize {
        self.0.get(&(kind, what.to_owned())).copied().unwrap_or(0)
    }

    #[cfg(test)]
    fn names(&self, kind: Kind) -> Vec<&str> {
        self.0.keys().filter(|key| key.0 == kind).map(|key| key.1.as_str()).collect()
    }
}

/// `kind | name | tests | reason`
fn entry(line: &str) -> Option<((Kind, String), usize)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [kind, name, tests, reason] = cells[..] else { return None };
    let is_whole = !name.is_empty() && !reason.is_empty();
    let key = (Kind::from_word(kind)?, name.to_owned());
    is_whole.then_some((key, tests.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_line_without_a_reason_or_named_twice_is_refused() {
        assert!(Allowed::parse("# a comment\n\nfeature | THP | 2 | a virtual machine without\n").is_ok());
        for wrong in
            ["feature | THP | 2 |", "feature | THP | many | why", "thing | a | 1 | why", "feature | THP"]
        {
            assert!(Allowed::parse(wrong).is_err(), "{wrong}");
        }
        let line = "feature | THP | 2 | why\n";
        assert!(Allowed::parse(&line.repeat(2)).is_err());
    }

    #[test]
    fn only_what_is_listed_may_be_missing_and_a_request_always() {
        let allowed = Allowed::parse("feature | THP | 2 | why").unwrap();
        assert!(allowed.allows(Kind::Feature, "THP") && !allowed.allows(Kind::Package, "THP"));
        assert!(!allowed.allows(Kind::Feature, "perf events"));
        assert!(allowed.allows(Kind::Request, "FAULTLESS_TEST_OVERCOMMIT"));
    }

    /// The text of all Rust sources below a folder.
    fn sources(folder: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                text += &sources(&path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                text += &fs::read_to_string(&path).unwrap();
            }
        }
        text
    }

    #[test]
    fn every_feature_that_a_test_names_is_listed_and_no_other() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut named = BTreeSet::new();
        let mut folders = 0;
        for entry in fs::read_dir(crates).unwrap() {
            let folder = entry.unwrap().path();
            if folder.is_dir() && !folder.ends_with("wants") {
                folders += 1;
                let text = sources(&folder);
                let calls = text.split("missing_feature(").skip(1);
                let words = calls.map(|call| call.trim_start().strip_prefix('"').expect("a literal name"));
                named.extend(words.map(|word| word.split('"').next().unwrap().to_owned()));
            }
        }
        assert!(folders > 10 && !named.is_empty());
        let listed: BTreeSet<String> =
            Allowed::committed().names(Kind::Feature).into_iter().map(str::to_owned).collect();
        assert_eq!(named, listed, "named in tests, and listed in missing.txt");
    }

    /// The words of a command substitution or assignment in .ci/run that begins with `start`.
    fn ci_words<'a>(ci: &'a str, start: &str) -> BTreeSet<&'a str> {
        let rest = ci.split(start).nth(1).unwrap_or_else(|| panic!("{start} in .ci/run"));
        rest.split([')', '"']).next().unwrap().split_whitespace().filter(|word| *word != "\\").collect()
    }

    #[test]
    fn ci_requires_all_and_the_packages_that_it_only_wishes_for_are_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ci = fs::read_to_string(root.join(".ci/run")).unwrap();
        assert!(ci.contains("FAULTLESS_TEST_REQUIRE=all cargo test\n"));
        let needed = ci_words(&ci, "need=$(missing ");
        assert!(needed.contains("ripgrep"), "{needed:?}");
        let wished = ci_words(&ci, "wish=$(missing ");
        let allowed = Allowed::committed();
        let listed: BTreeSet<&str> = allowed.names(Kind::Package).into_iter().collect();
        // `ripgrep 14` is a version, not a package.
        let listed: BTreeSet<&str> = listed.into_iter().filter(|name| !name.contains(' ')).collect();
        assert_eq!(wished, listed, "wished for in .ci/run, and listed in missing.txt");
        assert!(wished.is_disjoint(&needed));
    }
}
