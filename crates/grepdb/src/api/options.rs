//! How a pattern is meant, and which files are searched.
//!
//! In: a pattern and [`SearchOptions`]. Out: ripgrep's matcher and the plan for the index.

use std::path::Path;

use grep_regex::RegexMatcherBuilder;
use ignore::overrides::Override;

use crate::error::{Error, Result};
use crate::path::disk_path;
use crate::search::cancel::CancellationToken;
use crate::search::line_matcher::LineMatcher;
use crate::search::query::{PatternOptions, mistake};
use crate::search::query_plan::QueryPlan;
use crate::tree::rules::overrides;

/// Whether case matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Case {
    /// `a` matches `a`.
    #[default]
    Sensitive,
    /// `a` matches `a` and `A`.
    Insensitive,
    /// Insensitive if the pattern has no capital letter.
    Smart,
}

/// How to search. The default is what `faultless grep PATTERN` does.
///
/// ```
/// use faultless_grepdb::{Case, SearchOptions};
///
/// let options = SearchOptions {
///     case: Case::Smart,
///     word: true,
///     globs: vec!["*.rs".into(), "!target".into()],
///     limit: Some(100),
///     ..SearchOptions::default()
/// };
/// assert_eq!(options.threads, None); // one for each processor
/// ```
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Whether case matters.
    pub case: Case,
    /// The pattern is literal text.
    pub fixed_strings: bool,
    /// A match begins and ends at word boundaries.
    pub word: bool,
    /// A match may span several lines.
    pub multi_line: bool,
    /// Search only files that match one of these globs. They work as in a .gitignore at the root of the tree; a leading
    /// `!` excludes. Empty: search every file.
    pub globs: Vec<String>,
    /// Stop after this many matching lines.
    pub limit: Option<u64>,
    /// Number of threads, at most 256. `None`: one for each processor.
    pub threads: Option<usize>,
    /// Compare the database with the tree first: find new and changed files, too. It takes a walk of the tree.
    pub fresh: bool,
    /// Order matches by path. Otherwise they come in the order of the database: by path, but updated files last.
    pub sorted: bool,
    /// Ends the search from another thread.
    pub cancel: CancellationToken,
}

impl SearchOptions {
    /// The matcher of `pattern`, and the plan for the index.
    pub(super) fn compiled(&self, pattern: &str) -> Result<(LineMatcher, QueryPlan)> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .octal(false)
            .fixed_strings(self.fixed_strings)
            .case_insensitive(self.case == Case::Insensitive)
            .case_smart(self.case == Case::Smart)
            .word(self.word)
            .ban_byte(Some(0));
        if !self.multi_line {
            builder.line_terminator(Some(b'\n'));
        }
        let matcher =
            LineMatcher::with_ascii(builder, &[pattern]).map_err(|error| self.refused(pattern, &error))?;
        let reading = PatternOptions {
            // A query that ignores case finds no less. It is right for smart case too.
            ignore_case: self.case != Case::Sensitive,
            unicode: true,
            crlf: false,
            fixed: self.fixed_strings,
            by_line: !self.multi_line,
            is_plain: self.case != Case::Smart && !self.word,
        };
        Ok((matcher, QueryPlan::new(&[pattern], reading)?))
    }

    fn refused(&self, pattern: &str, error: &grep_regex::Error) -> Error {
        let why = match mistake(pattern, true).filter(|_| !self.fixed_strings) {
            Some(mistake) => format!("{mistake}; fixed_strings takes it as text"),
            None => {
                let remedy = match error.kind() {
                    grep_regex::ErrorKind::NotAllowed(_) => "multi_line matches line ends",
                    grep_regex::ErrorKind::Banned(_) => "no file with NUL bytes is searched; leave \\0 out",
                    _ => "write a simpler one",
                };
                format!("{pattern}: {error}; {remedy}").replace('\n', "\\n")
            }
        };
        Error::Pattern(why)
    }

    /// The filter of paths. `None`: every file is wanted.
    pub(super) fn path_filter(&self, root: &Path) -> Result<Option<GlobFilter>> {
        let globs = (!self.globs.is_empty()).then(|| overrides(root, &self.globs)).transpose()?;
        Ok(globs.map(|globs| GlobFilter { globs, root: root.to_path_buf() }))
    }
}

pub(super) struct GlobFilter {
    globs: Override,
    root: std::path::PathBuf,
}

impl GlobFilter {
    /// Whether the globs admit the file, and exclude no folder above it.
    pub(super) fn wants(&self, tree_path: &[u8]) -> bool {
        let path = disk_path(&self.root, tree_path);
        let mut above = path.ancestors().skip(1).take_while(|above| *above != self.root);
        !self.globs.matched(&path, false).is_ignore()
            && !above.any(|above| self.globs.matched(above, true).is_ignore())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_that_excludes_a_folder_excludes_what_is_in_it() {
        let globs = |globs: &[&str]| {
            let globs = globs.iter().map(|glob| (*glob).to_owned()).collect();
            let options = SearchOptions { globs, ..SearchOptions::default() };
            options.path_filter(Path::new("/tree")).unwrap().unwrap()
        };
        assert!(globs(&["*.rs"]).wants(b"src/a.rs") && !globs(&["*.rs"]).wants(b"src/a.c"));
        assert!(!globs(&["!target"]).wants(b"target/deep/a.rs") && globs(&["!target"]).wants(b"src/a.rs"));
        assert!(globs(&["/src/*.rs"]).wants(b"src/a.rs") && !globs(&["/src/*.rs"]).wants(b"b/src/a.rs"));
    }

    #[test]
    fn a_pattern_that_is_refused_names_the_place_and_the_remedy() {
        let refused =
            |pattern: &str, options: SearchOptions| options.compiled(pattern).unwrap_err().to_string();
        let said = refused("fo(o", SearchOptions::default());
        assert_eq!(said, "fo(o: unclosed group at character 3; fixed_strings takes it as text");
        assert!(refused("a\nb", SearchOptions::default()).ends_with("; multi_line matches line ends"));
        assert!(refused("\\x00", SearchOptions::default()).contains("NUL"));
        let fixed = SearchOptions { fixed_strings: true, ..SearchOptions::default() };
        assert!(fixed.compiled("fo(o").is_ok());
    }
}
