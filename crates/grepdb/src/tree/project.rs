//! The text of a project file -> the rules of its database.
//!
//! ```text
//! # a comment
//! path /src/linux              a folder; several are allowed
//! file /src/notes.txt          one file; the word may be left out
//! include \.[ch]$              only files whose path below their folder matches this, or another `include` of the group
//! exclude ^Documentation/      no file or folder that matches this
//! group                        the following lines have expressions of their own as well
//! path /src/musl
//! endgroup
//! hidden                       include hidden files
//! no-ignore                    include what .gitignore and similar files exclude
//! glob !*.svg                  as `-g`
//! ```
//! In: text. Out: [`Rules`]. An expression applies to its whole group, wherever it stands, and ignores case.
//!
//! It does not find the file.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::tree::rules::{RuleGroup, Rules};

const DEPTH_MAX: usize = 64;

/// A group, with its own expressions and its parent.
#[derive(Default)]
struct GroupNode {
    own: RuleGroup,
    include: Vec<String>,
    parent: Option<usize>,
}

/// Parses the text of the project file at `path`. Relative paths start at the folder of that file.
///
/// # Errors
/// A line is wrong. The error names the line and the mistake.
pub fn parse_project(path: &Path, text: &str) -> Result<Rules> {
    let base = path.parent().unwrap_or(path);
    let mut rules = Rules::default();
    let mut nodes = vec![GroupNode::default()];
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
        let node = &mut nodes[here];
        let argument = || match rest {
            "" => Err(wrong(format!("something is missing after `{word}`"))),
            rest => Ok(rest),
        };
        match word {
            "path" => node.own.folders.push(absolute(base, argument()?)),
            "file" => node.own.files.push(absolute(base, argument()?)),
            "include" => node.include.push(expression(argument()?).map_err(wrong)?),
            "exclude" => node.own.exclude.push(expression(argument()?).map_err(wrong)?),
            "glob" => rules.globs.push(argument()?.to_owned()),
            "hidden" if rest.is_empty() => rules.hidden = true,
            "no-ignore" if rest.is_empty() => rules.no_ignore = true,
            "group" if rest.is_empty() && open.len() < DEPTH_MAX => {
                open.push(nodes.len());
                nodes.push(GroupNode { parent: Some(here), ..GroupNode::default() });
            }
            "group" if rest.is_empty() => {
                return Err(wrong(format!("more than {DEPTH_MAX} groups in groups")));
            }
            "endgroup" if rest.is_empty() && open.len() > 1 => drop(open.pop()),
            "endgroup" if rest.is_empty() => return Err(wrong("`endgroup` without a `group`".into())),
            _ => node.own.files.push(absolute(base, line)),
        }
    }
    if open.len() > 1 {
        let (line, why) = (text.lines().count(), "a `group` has no `endgroup`".into());
        return Err(Error::Project { path: path.to_path_buf(), line, why });
    }
    rules.groups = (0..nodes.len()).map(|at| with_inherited(&nodes, at)).collect();
    rules.groups.retain(|group| !group.folders.is_empty() || !group.files.is_empty());
    if rules.groups.is_empty() {
        let (line, why) = (text.lines().count(), "no `path` and no file is named".into());
        return Err(Error::Project { path: path.to_path_buf(), line, why });
    }
    Ok(rules)
}

/// The group at `at`, with the expressions of all groups around it.
fn with_inherited(nodes: &[GroupNode], at: usize) -> RuleGroup {
    let mut group = RuleGroup {
        folders: nodes[at].own.folders.clone(),
        files: nodes[at].own.files.clone(),
        ..RuleGroup::default()
    };
    let mut here = Some(at);
    while let Some(node) = here.map(|at| &nodes[at]) {
        group.exclude.extend_from_slice(&node.own.exclude);
        if !node.include.is_empty() {
            group.include.push(node.include.clone());
        }
        here = node.parent;
    }
    group
}

impl Rules {
    /// The common folder of everything in a project.
    pub fn root(&self) -> Option<PathBuf> {
        let folders = self.groups.iter().flat_map(|group| group.folders.iter().map(PathBuf::as_path));
        let files = self.groups.iter().flat_map(|group| group.files.iter().filter_map(|file| file.parent()));
        let common = |a: PathBuf, b: PathBuf| {
            a.ancestors().find(|a| b.starts_with(a)).map_or(a.clone(), Path::to_path_buf)
        };
        folders.chain(files).map(Path::to_path_buf).reduce(common)
    }
}

/// `path` relative to `base`, without `.` and `..`: it is compared with the paths of a walk.
fn absolute(base: &Path, path: &str) -> PathBuf {
    let mut whole = PathBuf::new();
    for node in base.join(path).components() {
        match node {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(whole.pop()),
            node => whole.push(node),
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
        parse_project(Path::new("/config/p.cfg"), text)
    }

    #[test]
    fn groups_have_the_expressions_of_those_they_lie_in() {
        let text = "# all\npath /src/linux\ninclude c$\ninclude h$\n  group\n  path /src/../src/musl\n  exclude ^x\n  include y\n\
            endgroup\nexclude o$\nfile a b\n/else/where\nhidden\nglob !*.s\n";
        let rules = read(text).unwrap();
        let outer = RuleGroup {
            folders: vec!["/src/linux".into()],
            files: vec!["/config/a b".into(), "/else/where".into()],
            include: vec![vec!["c$".into(), "h$".into()]],
            exclude: vec!["o$".into()],
        };
        let inner = RuleGroup {
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
