//! Which databases a command uses: the database of the current tree, or of projects.
//!
//! A project is a file `$XDG_CONFIG_HOME/faultless/grep/NAME.cfg`. Its database is in
//! `$XDG_DATA_HOME/faultless/grep/NAME`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use faultless_grepdb::Rules;
use faultless_grepdb::engine::{Database, DatabaseCache, Location, threads};

use ignore::{DirEntry, WalkBuilder};

use crate::caller::{self, Caller};
use faultless_console::Failure;

#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Which {
    /// Use the databases of these projects.
    ///
    /// They replace the database of the current tree. `*` means all projects, NAME/ those below NAME.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) project: Vec<String>,
}

/// A database that a command uses.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) location: Location,
    /// The project's name, and the rules in its file.
    pub(crate) project: Option<(String, Rules)>,
}

impl Which {
    /// The databases to use. They may not exist yet.
    pub(crate) fn chosen(&self) -> Result<Vec<Chosen>, Failure> {
        if self.project.is_empty() {
            return Ok(vec![Chosen { location: Location::find(&caller::here()?)?, project: None }]);
        }
        let all = names()?;
        let mut chosen = Vec::new();
        for wanted in &self.project {
            let is_meant = |name: &&String| match wanted.strip_suffix('/') {
                Some(_) => name.starts_with(wanted.as_str()),
                None => *name == wanted || wanted == "*",
            };
            let before = chosen.len();
            for name in all.iter().filter(is_meant) {
                chosen.push(project(name)?);
            }
            if chosen.len() == before {
                let folder = config()?;
                return Err(Failure(format!(
                    "{wanted}: no such project in {}; `faultless index projects` lists them, `faultless index init --name {wanted} PATH` makes one",
                    folder.display()
                )));
            }
        }
        Ok(chosen)
    }
}

impl Chosen {
    pub(crate) fn open(&self) -> Result<Database, Failure> {
        Database::open(&self.location)?.ok_or_else(|| self.missing())
    }

    /// Opens the database, or returns the open one if it has not changed since.
    pub(crate) fn opened(&self) -> Result<Arc<Database>, Failure> {
        static OPEN: DatabaseCache = DatabaseCache::new();
        OPEN.open(&self.location)?.ok_or_else(|| self.missing())
    }

    /// The root of its paths.
    pub(crate) fn open_root(&self) -> Result<PathBuf, Failure> {
        Ok(self.opened()?.location().root.clone())
    }

    /// Opens the database and compares it with the disk.
    pub(crate) fn refreshed(&self, caller: &Caller) -> Result<Database, Failure> {
        let mut database = self.open()?;
        for trouble in database.refresh(threads(None))? {
            caller.tell(&format_args!("faultless: {trouble}; it is left out"));
        }
        Ok(database)
    }

    /// The database does not exist.
    pub(crate) fn missing(&self) -> Failure {
        match &self.project {
            Some((name, _)) => Failure(format!(
                "project {name} has no database; `faultless index build --project {name}` makes it"
            )),
            None => faultless_grepdb::Error::Missing(self.location.root.clone()).into(),
        }
    }
}

fn project(name: &str) -> Result<Chosen, Failure> {
    let path = file(name)?;
    let text =
        std::fs::read_to_string(&path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    let rules = faultless_grepdb::engine::parse_project(&path, &text)?;
    let root = rules.root().unwrap_or_else(|| "/".into());
    let location = Location { folder: data()?.join(name), root };
    Ok(Chosen { location, project: Some((name.to_owned(), rules)) })
}

pub(crate) fn file(name: &str) -> Result<PathBuf, Failure> {
    let is_plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    if name.is_empty()
        || name == "*"
        || name.contains(',')
        || name.ends_with('/')
        || !Path::new(name).components().all(is_plain)
    {
        return Err(Failure(format!("{name:?} is no name for a project; take letters and digits")));
    }
    Ok(config()?.join(format!("{name}.cfg")))
}

/// The names of all projects, sorted.
pub(crate) fn names() -> Result<Vec<String>, Failure> {
    let folder = config()?;
    let files = WalkBuilder::new(&folder).standard_filters(false).follow_links(true).build().flatten();
    let name = |file: DirEntry| {
        let below = file.path().strip_prefix(&folder).ok()?.to_str()?;
        below.strip_suffix(".cfg").map(str::to_owned)
    };
    let mut names: Vec<String> = files.filter_map(name).collect();
    names.sort_unstable();
    Ok(names)
}

fn config() -> Result<PathBuf, Failure> {
    below("XDG_CONFIG_HOME", ".config")
}

fn data() -> Result<PathBuf, Failure> {
    below("XDG_DATA_HOME", ".local/share")
}

fn below(variable: &str, usual: &str) -> Result<PathBuf, Failure> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = named.or_else(|| Some(std::env::home_dir()?.join(usual)));
    let folder = folder.ok_or_else(|| Failure(format!("neither {variable} nor HOME is set; set one")))?;
    Ok(folder.join("faultless/grep"))
}
