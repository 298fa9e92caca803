//! [`Index`]: a tree with its database, to update and to search.
//!
//! In: a path, patterns and options. Out: matches, each to a callback, and a [`SearchSummary`].

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use grep_searcher::{BinaryDetection, SearcherBuilder};

use crate::api::matches::MatchWriter;
use crate::api::notice::Notice;
use crate::api::options::SearchOptions;
use crate::build::commit::UpdateReport;
use crate::build::segments::Progress;
use crate::error::{Error, Result};
use crate::search::block_source::BlockSource;
use crate::search::print::OutputFormat;
use crate::search::print::records::Match;
use crate::search::request::Search;
use crate::store::cache::DatabaseCache;
use crate::store::database::{Database, Location};
use crate::threads::threads;
use crate::tree::rules::Rules;

/// A tree with its database.
///
/// Threads may share it. Each search sees the newest state of the database, whichever process updated it, and searches
/// the files of the whole tree. A file that changed since is searched as it is now; the summary has a [`Notice`].
///
/// ```
/// use std::ops::ControlFlow;
/// use faultless_grepdb::{Index, Rules, SearchOptions};
///
/// # let tree = tempfile::tempdir().unwrap();
/// # std::fs::write(tree.path().join("a.c"), "int main(void)\n{\n\treturn 0;\n}\n").unwrap();
/// # let path = tree.path();
/// Index::build(path, &Rules::default(), |_| ControlFlow::Continue(()))?; // once: makes the database
///
/// let index = Index::open(path)?;
/// index.update(|_| ControlFlow::Continue(()))?; // now and then: reads what changed
/// let mut lines = Vec::new();
/// let summary = index.search(r"return \d", &SearchOptions::default(), |found| {
///     let line = String::from_utf8_lossy(found.line);
///     lines.push(format!("{}:{}:{line}", found.path.display(), found.line_number));
///     assert_eq!(found.spans, [1..9]);
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(lines, ["a.c:3:\treturn 0;\n"]);
/// assert!(summary.is_complete && summary.notices.is_empty());
/// # Ok::<(), faultless_grepdb::Error>(())
/// ```
#[derive(Debug)]
pub struct Index {
    location: Location,
    open: DatabaseCache,
}

/// The result of [`Index::search`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SearchSummary {
    /// Matches that the callback got.
    pub matches: u64,
    /// Files with a match. If the search was stopped, the callback may not have seen all of them.
    pub files_with_matches: u64,
    /// Every file was searched: neither the callback, nor the limit, nor the token stopped the search.
    pub is_complete: bool,
    /// Where the result may not be what the tree holds now.
    pub notices: Vec<Notice>,
    /// What could not be read. Files in a damaged part of the database have been searched in the tree.
    pub trouble: Vec<Error>,
}

impl Index {
    /// Opens the database of the folder `path`, or of the nearest folder above it that has one.
    ///
    /// # Errors
    /// [`Error::Missing`]: no such folder has a database. [`Error::Damaged`], [`Error::Version`], [`Error::Io`]: the
    /// database can't be used. Each text ends with the remedy.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().canonicalize().map_err(Error::io("open", path.as_ref()))?;
        let index = Self { location: Location::find(&path)?, open: DatabaseCache::new() };
        index.database()?;
        Ok(index)
    }

    /// Builds the database of the tree at `root` from scratch, in the folder `.faultless`. Replaces an existing one.
    ///
    /// `progress` is called after each group of files. If it returns [`ControlFlow::Break`], the build ends and leaves
    /// no trace in an existing database.
    ///
    /// # Errors
    /// [`Error::Pattern`]: a glob of `rules` is wrong. [`Error::Locked`]: another process updates the database.
    /// [`Error::Cancelled`]: `progress` ended the build. [`Error::Io`]: the tree can't be read, or its database can't
    /// be written.
    pub fn build(
        root: impl AsRef<Path>,
        rules: &Rules,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Self, UpdateReport)> {
        let root = root.as_ref().canonicalize().map_err(Error::io("open", root.as_ref()))?;
        let index = Self { location: Location::in_tree(&root), open: DatabaseCache::new() };
        let report = Database::build(&index.location, rules, threads(None), &mut progress)?;
        Ok((index, report))
    }

    /// Reads the files that changed since the last update, drops those that are gone, and repairs damage that a search
    /// found. `progress` as for [`build`](Self::build).
    ///
    /// # Errors
    /// As [`build`](Self::build); or [`Error::Missing`]: the database is gone.
    pub fn update(&self, mut progress: impl FnMut(Progress) -> ControlFlow<()>) -> Result<UpdateReport> {
        Database::update(&self.location, None, threads(None), &mut progress)
    }

    /// The root of the tree, without symbolic links. The paths of matches are relative to it.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.location.root
    }

    /// Searches the tree for `pattern`, a regular expression of the crate `regex`, and calls `found` for each matching
    /// line.
    ///
    /// Threads search in parallel, but only one at a time calls `found`, in the order of the matches. A slow callback
    /// slows the search down; memory stays bounded. [`ControlFlow::Break`] ends the search, and so does
    /// [`SearchOptions::cancel`]; then `found` is not called again.
    ///
    /// # Errors
    /// [`Error::Pattern`]: the pattern or a glob is wrong. Otherwise as [`open`](Self::open). What could not be read is
    /// in the summary.
    pub fn search(
        &self,
        pattern: &str,
        options: &SearchOptions,
        found: impl FnMut(&Match<'_>) -> ControlFlow<()> + Send,
    ) -> Result<SearchSummary> {
        let (matcher, plan) = options.compiled(pattern)?;
        let filter = options.path_filter(self.root())?;
        let mut summary = SearchSummary::default();
        if options.limit == Some(0) || options.cancel.is_cancelled() {
            return Ok(summary);
        }
        let database = if options.fresh {
            Arc::new(self.refreshed(options, &mut summary.notices)?)
        } else {
            self.database()?
        };
        let mut searcher = SearcherBuilder::new();
        searcher.line_number(true).multi_line(options.multi_line);
        let search = Search {
            matcher: &matcher,
            plan,
            searcher: &searcher,
            format: &OutputFormat::Records,
            separator: b"",
            follows_output: false,
            at_once: false,
            binary: BinaryDetection::quit(0),
            binary_named: BinaryDetection::quit(0),
            every_file: false,
            sorted: options.sorted,
            folders: &[],
            is_wanted: &|path| filter.as_ref().is_none_or(|filter| filter.wants(path)),
            display_path: &<[u8]>::to_vec,
            threads: &|| threads(options.threads),
            block_source: BlockSource::Pool,
            first_match_only: false,
            cancel: Some(&options.cancel),
        };
        let (limit, cancel) = (options.limit, &options.cancel);
        let writer = MatchWriter { found, limit, cancel, matches: 0, spans: Vec::new() };
        let (writer, report) = search.run(&database, None, writer)?;
        summary.notices.extend(Notice::of_search(&database, &report));
        Ok(SearchSummary {
            matches: writer.matches,
            files_with_matches: report.files_with_matches,
            is_complete: report.output_error.is_none() && !options.cancel.is_cancelled(),
            trouble: report.trouble,
            ..summary
        })
    }

    fn database(&self) -> Result<Arc<Database>> {
        self.open.open(&self.location)?.ok_or_else(|| Error::Missing(self.location.root.clone()))
    }

    fn refreshed(&self, options: &SearchOptions, notices: &mut Vec<Notice>) -> Result<Database> {
        let mut database =
            Database::open(&self.location)?.ok_or_else(|| Error::Missing(self.location.root.clone()))?;
        notices.extend(database.refresh(threads(options.threads))?.into_iter().map(Notice::LeftOut));
        Ok(database)
    }
}
