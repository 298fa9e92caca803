//! What belongs to a database: its tree, or the folders of a project.
//!
//! In: a root and [`Rules`]. Out: [`Source`]s, each a folder that is walked with ripgrep's rules and a project's expressions.
//!
//! What it does not do: walk.

use std::path::{Path, PathBuf};

use ignore::{IncrementalIgnore, WalkBuilder};
use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::error::{Error, Result};
use crate::walk::FOLDER;

/// Which files belong to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Also hidden files and folders.
    pub hidden: bool,
    /// Also what .gitignore, .ignore and .rgignore leave out.
    pub no_ignore: bool,
    /// Globs: only files that match one; with `!` before it none that do. As ripgrep's `-g`.
    pub globs: Vec<String>,
    /// Folders and files of a project; none: the whole tree.
    pub groups: Vec<Group>,
}

/// Folders and files of a project that have their expressions in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Folders.
    pub folders: Vec<PathBuf>,
    /// Files, whatever the expressions say.
    pub files: Vec<PathBuf>,
    /// A file below a folder must match one of each.
    pub include: Vec<Vec<String>>,
    /// No file or folder below a folder may match any.
    pub exclude: Vec<String>,
}

/// A folder that is walked.
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    builder: WalkBuilder,
    names: Names,
}

/// The expressions of a group.
#[derive(Clone)]
pub(crate) struct Names {
    root: PathBuf,
    include: Vec<RegexSet>,
    exclude: RegexSet,
}

/// A source that tells of single paths whether a walk would come to them.
pub(crate) struct Judge {
    names: Names,
    ignore: Vec<IncrementalIgnore>,
}

impl Source {
    /// The sources of the database of the tree at `root`.
    ///
    /// # Errors
    /// A glob or an expression is none.
    pub(crate) fn all(root: &Path, rules: &Rules) -> Result<Vec<Self>> {
        let mut overrides = ignore::overrides::OverrideBuilder::new(root);
        for glob in &rules.globs {
            overrides.add(glob).map_err(|error| Error::Pattern(format!("glob {glob}: {error}")))?;
        }
        let overrides = overrides.build().map_err(|error| Error::Pattern(error.to_string()))?;
        let whole = [Group { folders: vec![root.to_path_buf()], ..Group::default() }];
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
                let names = Names { root: folder.clone(), include, exclude };
                all.push(Self { root: folder.clone(), builder, names });
            }
        }
        Ok(all)
    }

    /// What walks it.
    pub(crate) fn walker(&self, threads: usize) -> ignore::WalkParallel {
        let (mut builder, names) = (self.builder.clone(), self.names.clone());
        builder.threads(threads);
        builder.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.depth() == 0 || names.accept(entry.path(), is_folder)
        });
        builder.build_parallel()
    }

    /// Tells of single paths. What the files of rules say now counts, so it is made anew for each occasion.
    pub(crate) fn judge(&self) -> Judge {
        Judge { names: self.names.clone(), ignore: self.builder.build_matchers() }
    }
}

impl Names {
    /// Whether a walk that has come to the folder of `path` takes it.
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

impl Judge {
    /// Whether a walk would come to `path`, which is absolute.
    pub(crate) fn accepts(&mut self, path: &Path, is_folder: bool) -> bool {
        let Ok(below) = path.strip_prefix(&self.names.root) else { return false };
        if below.as_os_str().is_empty() {
            return is_folder;
        }
        let folders = path.ancestors().skip(1).take(below.components().count() - 1);
        let named = |path: &Path, is_folder| self.names.accept(path, is_folder);
        named(path, is_folder)
            && folders.into_iter().all(|folder| named(folder, true))
            && !self.ignore.iter_mut().any(|ignore| ignore.matched(below, is_folder).is_ignore())
    }
}

/// What project files are written in: expressions for which case does not matter.
fn set(expressions: &[String]) -> Result<RegexSet> {
    let set = RegexSetBuilder::new(expressions).case_insensitive(true).build();
    set.map_err(|error| Error::Pattern(error.to_string()))
}
