"""The results of a search, its exceptions and its warnings. `faultless.index` begins one."""

from typing import List, NamedTuple, Tuple


class Match(NamedTuple):
    """A matching line."""

    path: str
    """Path of the file below `Index.root`."""
    line_number: int
    """Number of the line, from 1."""
    line: str
    """The line with its line end, if it has one; with `multi_line` all lines of the match. Bytes that are not UTF-8
    are escaped: `line.encode(errors="surrogateescape")` gives them back."""
    spans: List[Tuple[int, int]]
    """The matches: ascending ranges of `line`, so `line[begin:end]` is the text of a match."""


class SearchError(Exception):
    """A database can't be made, updated or searched. The text says what, where, and the remedy."""


class MissingDatabaseError(SearchError):
    """There is no database in the folder, nor in one above it. `Index.build` makes one."""


class DamagedDatabaseError(SearchError):
    """A part of the database that every search needs is not as it was written."""


class DatabaseVersionError(SearchError):
    """The database has another format version. `Index.build` makes it anew."""


class LockedDatabaseError(SearchError):
    """Another process is changing the database."""


class PatternError(SearchError, ValueError):
    """The pattern or a glob can't be used."""


class FileError(SearchError, OSError):
    """The system refused to read or write a file."""


class SearchWarning(UserWarning):
    """The result may not be what the tree holds now, or something could not be read."""
