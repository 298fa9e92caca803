//! Runs a search over several trees, one after another. A tree is searched through its database. Files that
//! the database lacks are read from disk.
//!
//! In: [`Job`] and [`scope::Scope`]. Out: matches, and [`Summary`]. This module does not parse flags
//! (`patterns`, `printing`, `scope`). `faultless_grepdb` reads files and databases.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use faultless_grepdb::Notice;
use faultless_grepdb::engine::{
    Database, DiskFile, FileKind, LineMatcher, Location, QueryPlan, Search, SearchReport, threads,
};
use grep_printer::Stats;
use grep_searcher::{BinaryDetection, SearcherBuilder};

use crate::caller::Caller;
use crate::databases::Chosen;
use crate::disk::Disk;
use crate::flags::Args;
use crate::flags::looks::Sort;
use crate::printing::Looks;
use crate::scope::{self, Filter, Folder, Tree};
use crate::{patterns, totals};
use faultless_console::{Failure, no_stdout};

/// Files from disk that may wait for a worker.
const DISK_FILES_QUEUED: usize = 256;

pub(crate) struct Job<'a> {
    pub(crate) args: &'a Args,
    pub(crate) caller: &'a Caller,
    pub(crate) matcher: LineMatcher,
    pub(crate) plan: QueryPlan,
    pub(crate) searcher: SearcherBuilder,
    pub(crate) looks: Looks,
    pub(crate) filter: Filter,
}

/// The results of all trees together.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) matched: bool,
    pub(crate) failed: bool,
    /// Whether any file could have been searched.
    pub(crate) has_files: bool,
    /// Whether a folder without a database has been reported.
    lacks_database: bool,
    /// Databases that were compared with the disk.
    refreshed: Vec<Arc<Database>>,
    stats: Stats,
    pub(crate) searched: SearchReport,
}

impl Summary {
    /// Notes and prints that something could not be read.
    pub(crate) fn trouble(&mut self, args: &Args, caller: &Caller, trouble: &dyn std::fmt::Display) {
        self.failed = true;
        if !args.looks.no_messages {
            caller.tell(&format_args!("faultless: {trouble}"));
        }
    }

    fn add(&mut self, args: &Args, caller: &Caller, searched: SearchReport) {
        // If the output is closed, something was printed.
        self.matched |= searched.matched || searched.output_error.is_some();
        for trouble in &searched.trouble {
            let failed = self.failed;
            self.trouble(args, caller, trouble);
            // Damaged files have been read from the tree.
            self.failed = failed || !trouble.is_damage();
        }
        self.stats += &searched.stats;
        self.searched.files += searched.files;
        self.searched.files_with_matches += searched.files_with_matches;
        self.searched.chunks += searched.chunks;
        self.searched.of_chunks += searched.of_chunks;
        self.searched.text_bytes += searched.text_bytes;
        self.searched.has_printed |= searched.has_printed;
        self.searched.output_error = searched.output_error;
    }
}

impl Job<'_> {
    fn threads(&self) -> usize {
        threads(self.args.engine.threads)
    }

    pub(crate) fn everywhere<W: Write + Send>(
        &self,
        scope: scope::Scope,
        mut out: W,
        summary: &mut Summary,
    ) -> Result<(), Failure> {
        let begin = std::time::Instant::now();
        for tree in scope.trees {
            let searched;
            (out, searched) = self.tree(tree, out, summary)?;
            summary.add(self.args, self.caller, searched);
            let unwritten = out.flush().err().map(|error| error.kind());
            match unwritten.or(summary.searched.output_error) {
                // The reader has seen enough.
                Some(std::io::ErrorKind::BrokenPipe) => return Ok(()),
                Some(kind) => return Err(no_stdout(&kind.into())),
                None if summary.matched && self.looks.only_whether => return Ok(()),
                None => {}
            }
        }
        if self.looks.stats {
            let text = totals::text(&summary.stats, begin.elapsed(), self.args.looks.json);
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    return Err(no_stdout(&error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Searches the folders of a tree, and the named files.
    fn tree<W: Write + Send>(
        &self,
        mut tree: Tree,
        out: W,
        summary: &mut Summary,
    ) -> Result<(W, SearchReport), Failure> {
        let root = tree.root.clone().unwrap_or_default();
        let named = std::mem::take(&mut tree.named);
        // Named files keep their order.
        let sorted = self.args.looks.sort == Sort::Path && !tree.folders.is_empty();
        let (mut database, mut disk) = self.asked(tree, summary)?;
        let mut folders = disk.rest.clone();
        match self.add_left_out(&database, &root, &folders, &mut disk) {
            // Nobody knows what else the database leaves out.
            Err(damage) if damage.is_damage() => {
                summary.trouble(self.args, self.caller, &format!("{damage}; until then the files are read"));
                (database, disk.rest, disk.has) = Default::default();
                disk.whole.extend(folders.clone());
            }
            added => added?,
        }
        disk.files.extend(named);
        // A file that lies in two folders is printed with the narrower one.
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.below.len()));
        let within: Vec<Vec<u8>> = folders.iter().map(|folder| folder.below.clone()).collect();
        let everything = self.filter.is_empty();
        let (binary, binary_named) = patterns::binary(self.args);
        let search = Search {
            matcher: &self.matcher,
            plan: self.plan.clone(),
            searcher: &self.searcher,
            format: &self.looks.format,
            separator: &self.looks.separator,
            follows_output: summary.searched.has_printed,
            binary,
            binary_named,
            every_file: self.looks.every_file,
            sorted,
            folders: if within.iter().any(Vec::is_empty) { &[] } else { &within },
            is_wanted: &|path| self.wanted(&root, &folders, path, everything),
            display_path: &|path| shown(&folders, path),
            threads: &|| self.threads(),
            block_source: self.args.engine.memory.block_source(),
            at_once: self.looks.at_once,
            first_match_only: self.looks.only_whether,
            cancel: None,
        };
        let (out, mut searched) = if disk.is_empty() {
            search.run(&database, None, out)?
        } else {
            let failed = AtomicBool::new(false);
            let result = std::thread::scope(|scope| {
                let (to, on_disk) = sync_channel(DISK_FILES_QUEUED);
                let failed = &failed;
                scope.spawn(move || {
                    disk.send(self.args, self.caller, &self.filter, self.threads(), &to, failed)
                });
                search.run(&database, Some(on_disk), out)
            });
            summary.failed |= failed.load(Ordering::Relaxed);
            result?
        };
        let any_wanted = |kinds| match database.paths(kinds) {
            // There may be some.
            Err(error) if error.is_damage() => Ok(true),
            paths => paths.map(|paths| paths.iter().any(|path| (search.is_wanted)(path))),
        };
        // ripgrep counts a file that it leaves as binary as one without a match, but does not print it.
        if self.args.looks.files_without_match && !searched.matched && self.leaves_binary() {
            searched.matched = any_wanted(&[FileKind::Binary])?;
        }
        // The index skips files without a candidate. These count as searched too.
        let has = || if everything { Ok(!folders.is_empty()) } else { any_wanted(&FileKind::ALL) };
        summary.has_files |= searched.matched || searched.files > 0 || has()?;
        // A stale file shows that the database is out of date.
        if !self.args.looks.no_messages {
            self.caller.tell_all(&Notice::of_search(&database, &searched));
        }
        Ok((out, searched))
    }

    /// Adds to `disk` the files below `folders` that the flags ask for and the database leaves out.
    fn add_left_out(
        &self,
        database: &Database,
        root: &Path,
        folders: &[Folder],
        disk: &mut Disk,
    ) -> faultless_grepdb::Result<()> {
        if !self.is_wider(database) {
            disk.rest.clear();
        } else if !disk.rest.is_empty() {
            disk.has = database.paths(&FileKind::ALL)?;
            disk.has.extend(database.changed_paths().cloned());
        }
        if !self.leaves_binary() {
            let paths = database.paths(&[FileKind::Binary])?;
            let wanted = |path: &&Vec<u8>| self.wanted(root, folders, path, self.filter.is_empty());
            let shown = |path: &[u8]| shown(folders, path);
            // The database has only the names of binary files.
            let there = |path: &Vec<u8>| DiskFile::at(database.location(), path, &shown);
            disk.files.extend(paths.iter().filter(wanted).filter_map(there));
        }
        Ok(())
    }

    /// Opens the database of `tree`. Sorts the folders by whether it has files below them: `rest` if it has,
    /// else `whole`.
    fn asked(&self, tree: Tree, summary: &mut Summary) -> Result<(Arc<Database>, Disk), Failure> {
        let whole = |folders| (Arc::default(), Disk { whole: folders, ..Disk::default() });
        let Some(root) = &tree.root else {
            let is_quiet = self.args.looks.no_messages || self.args.looks.quiet;
            if !tree.folders.is_empty() && !is_quiet && !std::mem::replace(&mut summary.lacks_database, true)
            {
                self.caller.tell(
                    &"faultless: no database here: the files are read; `faultless index init` makes one",
                );
            }
            return Ok(whole(tree.folders));
        };
        let is_project = tree.project.is_some();
        let chosen =
            tree.project.unwrap_or_else(|| Chosen { location: Location::in_tree(root), project: None });
        if !is_project && self.args.beyond_databases().is_some() {
            return Ok(whole(tree.folders));
        }
        let opened = if self.args.which.fresh { self.refreshed(&chosen, summary) } else { chosen.opened() };
        let database = match opened {
            Ok(database) => database,
            Err(error) if is_project || self.caller.is_elsewhere() => return Err(error),
            Err(error) => {
                summary.trouble(self.args, self.caller, &format!("{error}; until then the files are read"));
                return Ok(whole(tree.folders));
            }
        };
        let mut disk = Disk::default();
        for folder in tree.folders {
            let has = match database.has_files_below(&folder.below) {
                // The search reports the damage, and reads the lost files from disk.
                Err(error) if error.is_damage() => true,
                has => has?,
            };
            if has { disk.rest.push(folder) } else { disk.whole.push(folder) }
        }
        Ok((database, disk))
    }

    /// Compares the database with the disk, once in a search.
    fn refreshed(&self, chosen: &Chosen, summary: &mut Summary) -> Result<Arc<Database>, Failure> {
        let is_same = |database: &&Arc<Database>| *database.location() == chosen.location;
        if let Some(database) = summary.refreshed.iter().find(is_same) {
            return Ok(database.clone());
        }
        let database = Arc::new(chosen.refreshed(self.caller)?);
        summary.refreshed.push(database.clone());
        Ok(database)
    }

    /// Whether a NUL byte ends the search of a file that was found.
    fn leaves_binary(&self) -> bool {
        patterns::binary(self.args).0 == BinaryDetection::quit(0)
    }

    /// Whether the flags ask for files that the database leaves out.
    fn is_wider(&self, database: &Database) -> bool {
        let (flags, rules) = (&self.args.which, database.rules());
        (flags.asks_hidden() || scope::names_hidden(self.args)) && !rules.hidden
            || flags.asks_ignored() && !rules.no_ignore
    }

    fn wanted(&self, root: &Path, folders: &[Folder], path: &[u8], everything: bool) -> bool {
        let is_wanted = |folder: &Folder| {
            let below = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&folder.below);
            folder.rest(path).is_some_and(|rest| everything || self.filter.wants(&root.join(below), rest))
        };
        folders.iter().any(is_wanted)
    }
}

fn shown(folders: &[Folder], path: &[u8]) -> Vec<u8> {
    let shown = folders.iter().find_map(|folder| folder.rest(path).map(|rest| folder.shown(rest)));
    shown.unwrap_or_else(|| path.to_vec())
}
