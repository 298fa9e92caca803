//! Files that are read from the disk while searching: what a database leaves out, or where there is none.
//!
//! In: paths. Out: matches, as ripgrep finds them in these files; and in UTF-32 by its mark, as in stored text.
//!
//! What it does not do: walk (`cli`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::Shared;
use super::run::Worker;
use crate::content::{Content, is_utf32};
use crate::database::Place;
use crate::error::{Error, Result};
use crate::files::FileEntry;
use crate::order::Piece;
use crate::print::{Printer, Text};
use crate::walk::full;

/// A file on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Where it is.
    pub path: PathBuf,
    /// How its path is shown.
    pub shown: Vec<u8>,
    /// Its place among the files of the database: its path below the root.
    pub place: Vec<u8>,
    /// The user named it, so a NUL byte does not make it uninteresting.
    pub named: bool,
    /// Its encoding was named, so no mark says what it is.
    pub encoded: bool,
}

impl<W: Write> Shared<'_, W> {
    /// The next live file, with its piece: numbers are given in the order in which files come.
    pub(super) fn next_live(&self) -> Option<(Live, Piece<'_, W>)> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let next = live.1.as_ref()?.recv().ok()?;
        live.0 += 1;
        Some((next, self.order.piece(live.0 - 1)))
    }
}

impl<W: Write + Send> Worker<'_, W> {
    pub(super) fn live(&mut self, live: &Live, piece: Piece<'_, W>) -> Result<()> {
        let search = self.shared.search;
        self.live_file(&mut search.printing.printer(piece, search.color), live)
    }

    pub(super) fn live_file(&mut self, printer: &mut Printer<Piece<'_, W>>, live: &Live) -> Result<()> {
        let search = self.shared.search;
        let file = File::open(&live.path).map_err(Error::io("read", &live.path))?;
        let searcher = self.live.get_or_insert_with(|| search.searcher.build());
        let binary = if live.named { &search.binary_named } else { &search.binary };
        searcher.set_binary_detection(binary.clone());
        let path = Path::new(OsStr::from_bytes(&live.shown));
        let found = if !live.encoded && is_utf32(&file) {
            let mut content = Content::open(&live.path).map_err(Error::io("read", &live.path))?;
            printer.search(searcher, search.matcher, path, Text::Stream(&mut content))
        } else {
            printer.search(searcher, search.matcher, path, Text::File(&file))
        };
        match found {
            Err(error) if !self.shared.order.has_failed() => Err(Error::io("read", &live.path)(error)),
            found => self.note(found),
        }
    }

    /// Whether the file of `entry` is not what the database holds: then it has been searched as it is now, if it is still there.
    pub(super) fn is_other(
        &mut self,
        printer: &mut Printer<Piece<'_, W>>,
        entry: &FileEntry,
    ) -> Result<bool> {
        let place = &self.shared.database.place;
        if !self.shared.checks.is_stale(place, entry) {
            return Ok(false);
        }
        if let Some(live) = Live::at(place, &entry.path, self.shared.search.shown) {
            self.live_file(printer, &live)?;
        }
        Ok(true)
    }
}

impl Live {
    /// The file at `path` below the root, if there is one.
    pub fn at(place: &Place, path: &[u8], shown: &dyn Fn(&[u8]) -> Vec<u8>) -> Option<Self> {
        let whole = full(&place.root, path);
        whole.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { path: whole, shown: shown(path), place: path.to_vec(), named: false, encoded: false })
    }
}
