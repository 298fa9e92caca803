//! Paths of the command line -> folders and files to search.
//!
//! In: [`Args`] and paths. Out: [`Scope`]: folders, grouped by the tree of their database; and named files.
//! This module does not walk folders (`disk`).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use faultless_grepdb::engine::{Database, DiskFile};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use crate::caller::{self, Caller};
use crate::databases::Chosen;
use crate::flags::Args;
use crate::flags::looks::Sort;
use crate::flags::types::TypeChange;
use crate::stdin::Stdin;
use faultless_console::{Failure, reason};

#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) trees: Vec<Tree>,
    /// Standard input, if it is one of them.
    pub(crate) stdin: Option<Stdin>,
    /// Errors about named paths that don't exist.
    pub(crate) trouble: Vec<String>,
    /// Exactly one file was named, so its name is not printed.
    pub(crate) one_file: bool,
}

/// Folders of one tree, and named files. They are searched together.
#[derive(Default)]
pub(crate) struct Tree {
    /// The root, if there is a database.
    pub(crate) root: Option<PathBuf>,
    /// The project, if the tree is one.
    pub(crate) project: Option<Chosen>,
    pub(crate) folders: Vec<Folder>,
    /// Files named on the command line.
    pub(crate) named: Vec<DiskFile>,
}

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// The path as named, which prefixes its files' paths. Empty for the current folder if no path was given.
    pub(crate) named: PathBuf,
    pub(crate) below: Vec<u8>,
}

pub(crate) fn scope(args: &Args, caller: &Caller, paths: &[OsString]) -> Result<Scope, Failure> {
    let mut scope = Scope::default();
    if paths.is_empty() {
        scope.add_folder(PathBuf::new(), &caller.folder, false);
        return Ok(scope);
    }
    let real = |path: &OsString| if path == "-" { Ok(path.into()) } else { Path::new(path).canonicalize() };
    let real: Vec<std::io::Result<PathBuf>> = paths.iter().map(real).collect();
    let is_ordered = args.looks.sort == Sort::Path || args.engine.threads == Some(1);
    let apart = is_ordered || overlap(real.iter().flatten());
    for (path, real) in paths.iter().zip(real) {
        match real {
            // Standard input can be read only once.
            Ok(_) if path == "-" && scope.stdin.is_some() => {}
            Ok(_) if path == "-" => {
                let file = named(args, &scope.stdin.insert(Stdin::new()?).path(), b"<stdin>");
                scope.add_file(file, apart);
            }
            Ok(real) if real.is_dir() => scope.add_folder(path.into(), &real, apart),
            Ok(_) => scope.add_file(named(args, Path::new(path), path.as_bytes()), apart),
            Err(error) => scope.add_missing(Path::new(path), &error),
        }
    }
    scope.one_file = paths.len() == 1 && scope.trees.iter().all(|tree| tree.folders.is_empty());
    Ok(scope)
}

/// Whether one path is another, or lies below it.
fn overlap<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> bool {
    let mut paths: Vec<&PathBuf> = paths.collect();
    paths.sort_unstable();
    paths.windows(2).any(|pair| pair[1].starts_with(pair[0]))
}

/// All of `projects`, or the parts of them that lie below `paths`.
pub(crate) fn projects(projects: Vec<Chosen>, paths: &[OsString]) -> Result<Scope, Failure> {
    let here = caller::here()?;
    let mut scope = Scope::default();
    let mut named: Vec<(&Path, PathBuf)> = Vec::new();
    for path in paths.iter().map(Path::new) {
        match path.canonicalize() {
            Ok(real) => named.push((path, real)),
            Err(error) => scope.add_missing(path, &error),
        }
    }
    for project in projects {
        let root = project.open_root()?;
        let whole = Folder { named: root.strip_prefix(&here).unwrap_or(&root).into(), below: Vec::new() };
        let part = |(path, real): &(&Path, PathBuf)| {
            let below = real.strip_prefix(&root).ok()?.as_os_str().as_bytes().to_vec();
            Some(Folder { named: path.to_path_buf(), below })
        };
        let folders = if paths.is_empty() { vec![whole] } else { named.iter().filter_map(part).collect() };
        scope.trees.push(Tree { root: Some(root), project: Some(project), folders, named: Vec::new() });
    }
    Ok(scope)
}

fn named(args: &Args, path: &Path, shown: &[u8]) -> DiskFile {
    let has_encoding = args.which.names_encoding();
    DiskFile {
        path: path.into(),
        display_path: shown.into(),
        tree_path: shown.into(),
        is_named: true,
        has_encoding,
    }
}

impl Scope {
    fn add_missing(&mut self, path: &Path, error: &std::io::Error) {
        self.trouble.push(format!("{}: {}; name what exists", path.display(), reason(error)));
    }

    /// Adds a folder to its tree. `apart`: its matches come after those of the paths before it.
    fn add_folder(&mut self, named: PathBuf, real: &Path, apart: bool) {
        let root = Database::find_root(real);
        let below = root.as_ref().and_then(|root| real.strip_prefix(root).ok());
        let below = below.map_or(Vec::new(), |below| below.as_os_str().as_bytes().to_vec());
        let folder = Folder { named, below };
        match self.trees.iter_mut().find(|tree| !apart && tree.root == root) {
            Some(tree) => tree.folders.push(folder),
            None => self.trees.push(Tree { root, folders: vec![folder], ..Tree::default() }),
        }
    }

    /// Adds a named file. `apart`: its matches come after those of the paths before it.
    fn add_file(&mut self, file: DiskFile, apart: bool) {
        let tree = if apart { self.trees.last_mut() } else { self.trees.first_mut() };
        match tree.filter(|tree| !apart || tree.folders.is_empty()) {
            Some(tree) => tree.named.push(file),
            None => self.trees.push(Tree { named: vec![file], ..Tree::default() }),
        }
    }
}

impl Folder {
    /// The path below this folder, of the tree path `path`.
    pub(crate) fn rest<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        if self.below.is_empty() {
            return Some(path);
        }
        path.strip_prefix(&self.below[..])?.strip_prefix(b"/")
    }

    /// The printed path of the file `rest` in this folder.
    pub(crate) fn shown(&self, rest: &[u8]) -> Vec<u8> {
        if self.named.as_os_str().is_empty() {
            return rest.to_vec();
        }
        self.named.join(std::ffi::OsStr::from_bytes(rest)).into_os_string().into_vec()
    }

    /// The tree path of the file `rest` in this folder.
    pub(crate) fn tree_path(&self, rest: &[u8]) -> Vec<u8> {
        if self.below.is_empty() { rest.to_vec() } else { [&self.below[..], b"/", rest].concat() }
    }
}

/// Which files of the folders to search.
pub(crate) struct Filter {
    pub(crate) globs: Override,
    /// `None` if no type is chosen: matching the default types takes as long as the index takes to find a
    /// word.
    pub(crate) types: Option<Types>,
    max_depth: Option<usize>,
}

impl Filter {
    /// `folder`: the current folder, which globs are about.
    pub(crate) fn new(args: &Args, folder: &Path) -> Result<Self, Failure> {
        let flags = &args.which;
        let types = if flags.types.0.is_empty() {
            None
        } else {
            Some(types(args)?.build().map_err(|error| remedied(&error, "--type-list lists them"))?)
        };
        let has_globs = !(flags.globs.is_empty() && flags.iglobs.is_empty());
        let globs = if has_globs { globs(args, folder)? } else { Override::empty() };
        Ok(Self { globs, types, max_depth: flags.max_depth })
    }

    /// Whether every file passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.globs.is_empty() && self.types.as_ref().is_none_or(Types::is_empty) && self.max_depth.is_none()
    }

    /// Whether the file `rest` of `folder` passes: neither it nor a folder above it is excluded.
    pub(crate) fn wants(&self, folder: &Path, rest: &[u8]) -> bool {
        let rest = Path::new(std::ffi::OsStr::from_bytes(rest));
        if self.max_depth.is_some_and(|most| rest.components().count() > most) {
            return false;
        }
        let path = folder.join(rest);
        let file = self.globs.matched(&path, false);
        let of_type = |types: &Types| !types.matched(&path, false).is_ignore();
        if file.is_ignore() || file.is_none() && !self.types.as_ref().is_none_or(of_type) {
            return false;
        }
        let above = rest.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        self.globs.is_empty()
            || !above.into_iter().any(|above| self.globs.matched(folder.join(above), true).is_ignore())
    }
}

fn globs(args: &Args, folder: &Path) -> Result<Override, Failure> {
    let flags = &args.which;
    let mut builder = OverrideBuilder::new(folder);
    let wrong = |error| remedied(&error, "a backslash before a character takes it as it is");
    builder.case_insensitive(flags.glob_case_insensitive)?;
    for glob in &flags.globs {
        builder.add(glob).map_err(wrong)?;
    }
    builder.case_insensitive(true)?;
    for glob in &flags.iglobs {
        builder.add(glob).map_err(wrong)?;
    }
    Ok(builder.build()?)
}

fn remedied(error: &ignore::Error, remedy: &str) -> Failure {
    Failure(format!("{error}; {remedy}"))
}

/// All file types, with the chosen ones selected.
pub(crate) fn types(args: &Args) -> Result<TypesBuilder, Failure> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for change in &args.which.types.0 {
        match change {
            TypeChange::Select(name) => _ = builder.select(name),
            TypeChange::Negate(name) => _ = builder.negate(name),
            TypeChange::Clear(name) => _ = builder.clear(name),
            TypeChange::Add(definition) => {
                let remedy = "write it like this: 'web:*.html'";
                builder.add_def(definition).map_err(|error| remedied(&error, remedy))?;
            }
        }
    }
    Ok(builder)
}

/// Whether a glob names hidden files.
pub(crate) fn names_hidden(args: &Args) -> bool {
    // A dot at the begin of a name, or of an alternative.
    let begins = |glob: &str| ["/.", "{.", ",.", "[."].iter().any(|begin| glob.contains(begin));
    let hidden = |glob: &String| !glob.starts_with('!') && begins(&format!("/{glob}"));
    args.which.globs.iter().chain(&args.which.iglobs).any(hidden)
}
