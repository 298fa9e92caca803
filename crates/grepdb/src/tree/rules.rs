//! The rules that say which files belong to a database: a whole tree, or the folders and files of a project.
//!
//! In: a root and [`Rules`]. Out: [`WalkRoot`]s: folders to walk, with ripgrep's ignore rules and a project's
//! expressions.
//!
//! It does not walk the tree (`walk`).

use std::path::{Path, PathBuf};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{IncrementalIgnore, WalkBuilder};
use regex::bytes::{RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::{FOLDER, any_bytes};

/// Which files belong to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Include hidden files and folders.
    pub hidden: bool,
    /// Include what .gitignore, .ignore and .rgignore exclude.
    pub no_ignore: bool,
    /// Globs, as ripgrep's `-g`: only files that match one of them; with a leading `!` only files that don't match.
    pub globs: Vec<String>,
    /// The groups of a project. Empty: the whole tree.
    pub groups: Vec<RuleGroup>,
}

/// Folders and files of a project that share expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleGroup {
    /// Folders to walk.
    #[serde(with = "any_bytes")]
    pub folders: Vec<PathBuf>,
    /// Files that belong to it whatever the expressions say.
    #[serde(with = "any_bytes")]
    pub files: Vec<PathBuf>,
    /// A file must match one expression of every list.
    pub include: Vec<Vec<String>>,
    /// Files and folders that match one of these are excluded.
    pub exclude: Vec<String>,
}

/// A folder to walk, with its rules.
pub(crate) struct WalkRoot {
    pub(crate) root: PathBuf,
    builder: WalkBuilder,
    expressions: PathExpressions,
}

/// The expressions of a group. They apply to the path below the folder.
#[derive(Clone)]
pub(crate) struct PathExpressions {
    root: PathBuf,
    include: Vec<RegexSet>,
    exclude: RegexSet,
}

/// Decides for single paths whether a walk would visit them.
pub(crate) struct PathMatcher {
    expressions: PathExpressions,
    ignore: Vec<IncrementalIgnore>,
}

impl WalkRoot {
    pub(crate) fn all(root: &Path, rules: &Rules) -> Result<Vec<Self>> {
        let overrides = overrides(root, &rules.globs)?;
        let whole = [RuleGroup { folders: vec![root.to_path_buf()], ..RuleGroup::default() }];
        let groups = if rules.groups.is_empty() { &whole[..] } else { &rules.groups };
        let mut all = Vec::new();
        for group in groups {
            let include = group.include.iter().map(|of| set(of)).collect::<Result<Vec<_>>>()?;
            let exclude = set(&group.exclude)?;
            for folder in &group.folders {
                let mut builder = WalkBuilder::new(folder);
                builder.hidden(!rules.hidden).overrides(overrides.clone());
                if rules.no_ignore {
                    builder.ignore(false).git_ignore(false).git_global(false).git_exclude(false);
                    builder.parents(false);
                } else {
                    builder.add_custom_ignore_filename(".rgignore");
                }
                let (include, exclude) = (include.clone(), exclude.clone());
                let expressions = PathExpressions { root: folder.clone(), include, exclude };
                all.push(Self { root: folder.clone(), builder, expressions });
            }
        }
        Ok(all)
    }

    pub(crate) fn walker(&self, threads: usize) -> ignore::WalkParallel {
        let (mut builder, expressions) = (self.builder.clone(), self.expressions.clone());
        builder.threads(threads);
        builder.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.depth() == 0 || expressions.accept(entry.path(), is_folder)
        });
        builder.build_parallel()
    }

    /// A matcher for single paths. It reads the ignore files as they are now, so each use needs a new one.
    pub(crate) fn path_matcher(&self) -> PathMatcher {
        PathMatcher { expressions: self.expressions.clone(), ignore: self.builder.build_matchers() }
    }
}

impl PathExpressions {
    /// Whether a walk that visits the parent of `path` visits `path`.
    fn accept(&self, path: &Path, is_folder: bool) -> bool {
        if is_folder && path.file_name().is_some_and(|name| name == FOLDER) {
            return false;
        }
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
        let below = path.strip_prefix(&self.root).unwrap_or(path).as_os_str().as_encoded_bytes();
        let included = || is_folder || self.include.iter().all(|any| any.is_match(below));
        !self.exclude.is_match(below) && included()
    }
}

impl PathMatcher {
    /// Whether a walk would visit `path`, an absolute path.
    pub(crate) fn accepts(&mut self, path: &Path, is_folder: bool) -> bool {
        let Ok(below) = path.strip_prefix(&self.expressions.root) else { return false };
        if below.as_os_str().is_empty() {
            return is_folder;
        }
        let folders = path.ancestors().skip(1).take(below.components().count() - 1);
        let named = |path: &Path, is_folder| self.expressions.accept(path, is_folder);
        named(path, is_folder)
            && folders.into_iter().all(|folder| named(folder, true))
            && !self.ignore.iter_mut().any(|ignore| ignore.matched(below, is_folder).is_ignore())
    }
}

/// Compiles globs as ripgrep's `-g`, for files below `root`.
pub(crate) fn overrides(root: &Path, globs: &[String]) -> Result<Override> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        builder.add(glob).map_err(|error| {
            Error::Pattern(format!("glob {glob}: {error}; a backslash before a character takes it as it is"))
        })?;
    }
    builder.build().map_err(|error| Error::Pattern(error.to_string()))
}

/// Compiles expressions of a project file, which ignore case.
fn set(expressions: &[String]) -> Result<RegexSet> {
    let set = RegexSetBuilder::new(expressions).case_insensitive(true).build();
    set.map_err(|error| Error::Pattern(error.to_string()))
}
