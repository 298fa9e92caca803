//! Files that a search reads from disk: those without a database, and those that the database leaves out.
//!
//! In: folders and [`Args`]. Out: files, sent as they are found, by ripgrep's ignore rules. This module does
//! not search.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use faultless_grepdb::engine::DiskFile;
use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::caller::Caller;
use crate::flags::Args;
use crate::scope::{Filter, Folder};

#[derive(Default)]
pub(crate) struct Disk {
    /// Known files.
    pub(crate) files: Vec<DiskFile>,
    /// Folders that are read completely.
    pub(crate) whole: Vec<Folder>,
    /// Folders in which only files missing in the database are read.
    pub(crate) rest: Vec<Folder>,
    /// The tree paths of the database's files.
    pub(crate) has: HashSet<Vec<u8>>,
}

impl Disk {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.whole.is_empty() && self.rest.is_empty()
    }

    /// Sends the files until all are sent or the receiver is gone. Prints errors of the walk, and sets
    /// `failed`.
    pub(crate) fn send(
        self,
        args: &Args,
        caller: &Caller,
        filter: &Filter,
        threads: usize,
        to: &SyncSender<DiskFile>,
        failed: &AtomicBool,
    ) {
        let none = HashSet::new();
        if self.files.into_iter().any(|file| to.send(file).is_err()) {
            return;
        }
        let whole = self.whole.iter().map(|folder| (folder, &none));
        for (folder, has) in whole.chain(self.rest.iter().map(|folder| (folder, &self.has))) {
            walker(args, caller, filter, threads, folder).build_parallel().run(|| {
                Box::new(move |entry| {
                    let found = entry.map(|entry| disk_file(args, &entry, folder));
                    match found {
                        Ok(Some(file)) if !has.contains(&file.tree_path) => {
                            if to.send(file).is_err() {
                                return WalkState::Quit;
                            }
                        }
                        Ok(_) => {}
                        Err(error) => {
                            failed.store(true, Ordering::Relaxed);
                            if !args.looks.no_messages {
                                caller.tell(&format_args!("faultless: {error}"));
                            }
                        }
                    }
                    WalkState::Continue
                })
            });
        }
    }
}

fn walker(args: &Args, caller: &Caller, filter: &Filter, threads: usize, folder: &Folder) -> WalkBuilder {
    let flags = &args.which;
    let ignored = flags.no_ignore || flags.unrestricted > 0;
    let named = if folder.named.as_os_str().is_empty() { Path::new("./") } else { &folder.named };
    let mut builder = WalkBuilder::new(named);
    builder
        .threads(threads)
        .max_depth(flags.max_depth)
        .follow_links(flags.follow)
        .max_filesize(flags.max_filesize)
        .same_file_system(flags.one_file_system)
        .overrides(filter.globs.clone())
        .hidden(!flags.asks_hidden())
        .parents(!ignored && !flags.no_ignore_parent)
        .ignore(!ignored && !flags.no_ignore_dot)
        .git_global(!ignored && !flags.no_ignore_vcs)
        .git_ignore(!ignored && !flags.no_ignore_vcs)
        .git_exclude(!ignored && !flags.no_ignore_vcs)
        .filter_entry(|entry| entry.file_name() != faultless_grepdb::engine::FOLDER);
    if let Some(types) = &filter.types {
        builder.types(types.clone());
    }
    if !ignored && !flags.no_ignore_dot {
        builder.add_custom_ignore_filename(".rgignore");
    }
    for path in flags.ignore_files.iter().filter(|_| !ignored) {
        if let Some(error) = builder.add_ignore(path) {
            caller.tell(&format_args!("faultless: {error}"));
        }
    }
    builder
}

fn disk_file(args: &Args, entry: &DirEntry, folder: &Folder) -> Option<DiskFile> {
    entry.file_type().filter(std::fs::FileType::is_file)?;
    let path: PathBuf = entry.path().to_path_buf();
    let below = if folder.named.as_os_str().is_empty() { Path::new("./") } else { &folder.named };
    let rest = path.strip_prefix(below).ok()?.as_os_str().as_bytes();
    let (display_path, tree_path) = (folder.shown(rest), folder.tree_path(rest));
    Some(DiskFile {
        display_path,
        tree_path,
        path,
        is_named: false,
        has_encoding: args.which.names_encoding(),
    })
}
