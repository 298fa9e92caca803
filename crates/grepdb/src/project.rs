//! The file of a project -> what belongs to it.
//!
//! ```text
//! # everything after a mark
//! path /src/linux              a folder; several may be named
//! file /src/notes.txt          one file; the word may be left out
//! include \.[ch]$              only files whose path below their folder has this; several: one of them
//! exclude ^Documentation/      no file or folder that has this
//! group                        what follows has expressions of its own as well
//! path /src/musl
//! endgroup
//! hidden                       hidden files too
//! no-ignore                    what .gitignore and the like leave out too
//! glob !*.svg                  as `-g`
//! ```
//! In: its text. Out: [`Rules`]. Expressions hold for the whole group, wherever in it they stand, and case does not matter in them.
//!
//! What it does not do: look for it.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::source::{Group, Rules};

/// Groups may lie in groups so deep.
const DEPTH_MAX: usize = 64;

/// A group with what it has of its own, and which it lies in.
#[derive(Default)]
struct Part {
    own: Group,
    include: Vec<String>,
    within: Option<usize>,
}

/// Reads the text of the project file at `path`; paths in it are relative to its folder.
///
/// # Errors
/// A line means nothing; which one, and why.
pub fn project(path: &Path, text: &str) -> Result<Rules> {
    let base = path.parent().unwrap_or(path);
    let mut rules = Rules::default();
    let mut parts = vec![Part::default()];
    let mut open = vec![0];
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: String| Error::Project { path: path.to_path_buf(), line: number, why };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let here = open.last().copied().unwrap_or_default();
        let part = &mut parts[here];
        let needs = || match rest {
            "" => Err(wrong(format!("something is missing after `{word}`"))),
            rest => Ok(rest),
        };
        match word {
            "path" => part.own.folders.push(absolute(base, needs()?)),
            "file" => part.own.files.push(absolute(base, needs()?)),
            "include" => part.include.push(expression(needs()?).map_err(wrong)?),
            "exclude" => part.own.exclude.push(expression(needs()?).map_err(wrong)?),
            "glob" => rules.globs.push(needs()?.to_owned()),
            "hidden" if rest.is_empty() => rules.hidden = true,
            "no-ignore" if rest.is_empty() => rules.no_ignore = true,
            "group" if rest.is_empty() && open.len() < DEPTH_MAX => {
                open.push(parts.len());
                parts.push(Part { within: Some(here), ..Part::default() });
            }
            "group" if rest.is_empty() => {
                return Err(wrong(format!("more than {DEPTH_MAX} groups in groups")));
            }
            "endgroup" if rest.is_empty() && open.len() > 1 => drop(open.pop()),
            "endgroup" if rest.is_empty() => return Err(wrong("`endgroup` without a `group`".into())),
            _ => part.own.files.push(absolute(base, line)),
        }
    }
    if open.len() > 1 {
        let (line, why) = (text.lines().count(), "a `group` has no `endgroup`".into());
        return Err(Error::Project { path: path.to_path_buf(), line, why });
    }
    rules.groups = (0..parts.len()).map(|at| whole(&parts, at)).collect();
    rules.groups.retain(|group| !group.folders.is_empty() || !group.files.is_empty());
    if rules.groups.is_empty() {
        let (line, why) = (text.lines().count(), "no `path` and no file is named".into());
        return Err(Error::Project { path: path.to_path_buf(), line, why });
    }
    Ok(rules)
}

/// A group with the expressions of those it lies in.
fn whole(parts: &[Part], at: usize) -> Group {
    let mut group = Group {
        folders: parts[at].own.folders.clone(),
        files: parts[at].own.files.clone(),
        ..Group::default()
    };
    let mut here = Some(at);
    while let Some(part) = here.map(|at| &parts[at]) {
        group.exclude.extend_from_slice(&part.own.exclude);
        if !part.include.is_empty() {
            group.include.push(part.include.clone());
        }
        here = part.within;
    }
    group
}

impl Rules {
    /// The folder that all folders and files of a project lie in.
    pub fn root(&self) -> Option<PathBuf> {
        let folders = self.groups.iter().flat_map(|group| group.folders.iter().map(PathBuf::as_path));
        let files = self.groups.iter().flat_map(|group| group.files.iter().filter_map(|file| file.parent()));
        let common = |a: PathBuf, b: PathBuf| {
            a.ancestors().find(|a| b.starts_with(a)).map_or(a.clone(), Path::to_path_buf)
        };
        folders.chain(files).map(Path::to_path_buf).reduce(common)
    }
}

/// `path` below `base`, without dots in it: it is compared with what a walk finds.
fn absolute(base: &Path, path: &str) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

fn expression(text: &str) -> std::result::Result<String, String> {
    match regex::bytes::Regex::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string().lines().last().unwrap_or_default().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Rules> {
        project(Path::new("/config/p.cfg"), text)
    }

    #[test]
    fn groups_have_the_expressions_of_those_they_lie_in() {
        let text = "# all\npath /src/linux\ninclude c$\ninclude h$\n  group\n  path /src/../src/musl\n  exclude ^x\n  include y\n\
            endgroup\nexclude o$\nfile a b\n/else/where\nhidden\nglob !*.s\n";
        let rules = read(text).unwrap();
        let outer = Group {
            folders: vec!["/src/linux".into()],
            files: vec!["/config/a b".into(), "/else/where".into()],
            include: vec![vec!["c$".into(), "h$".into()]],
            exclude: vec!["o$".into()],
        };
        let inner = Group {
            folders: vec!["/src/musl".into()],
            files: vec![],
            include: vec![vec!["y".into()], vec!["c$".into(), "h$".into()]],
            exclude: vec!["^x".into(), "o$".into()],
        };
        assert_eq!(rules.root(), Some("/".into()));
        let expected = Rules {
            hidden: true,
            globs: vec!["!*.s".into()],
            groups: vec![outer, inner],
            ..Rules::default()
        };
        assert_eq!(rules, expected);
        assert_eq!(read("path /a/b/c\npath /a/b/d/e\n").unwrap().root(), Some("/a/b".into()));
    }

    #[test]
    fn a_line_that_means_nothing_is_named() {
        for (text, line, why) in [
            ("path /a\ninclude (", 2, "unclosed group"),
            ("path", 1, "missing after `path`"),
            ("path /a\nendgroup", 2, "without a `group`"),
            ("group\npath /a\n", 2, "no `endgroup`"),
            ("", 0, "no `path`"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("/config/p.cfg:{line}: ")) && error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "((path|file|include|exclude|group|endgroup|hidden|#)?[ a-z/(]{0,8}\n){0,12}") {
            let _ = read(&text).map(|rules| rules.root());
        }
    }
}
