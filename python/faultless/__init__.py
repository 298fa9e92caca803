"""Large NumPy arrays from a pool that keeps its pages, and an indexed code search.

Pooled arrays fault once, and not in every round:

>>> import faultless, numpy
>>> with faultless.numpy_pool():            # in this thread, inside the block
...     a = numpy.ones(1 << 20)
>>> faultless.use_for_numpy()               # from now on, in the whole process
>>> faultless.stats()["in_use_bytes"] >= a.nbytes
True

The search has a database of the tree's text:

>>> import pathlib, tempfile
>>> tree = pathlib.Path(tempfile.mkdtemp())
>>> _ = (tree / "a.c").write_text("int fooo_bar;\\n")
>>> _ = faultless.Index.build(tree)         # once
>>> for match in faultless.index(tree).search("fooo?.bar"):
...     print(match.path, match.line_number, match.line[slice(*match.spans[0])])
a.c 1 fooo_bar
"""

import os
from contextlib import contextmanager
from typing import Union

from faultless._native import (
    THRESHOLD_BYTES,
    Index,
    Matches,
    exchange_handler,
    pool_handler,
    prewarm,
    replace_default_handler,
    stats,
    stats_text,
)
from faultless.search import (
    DamagedDatabaseError,
    DatabaseVersionError,
    FileError,
    LockedDatabaseError,
    Match,
    MissingDatabaseError,
    PatternError,
    SearchError,
    SearchWarning,
)

__all__ = [
    "THRESHOLD_BYTES",
    "DamagedDatabaseError",
    "DatabaseVersionError",
    "FileError",
    "Index",
    "LockedDatabaseError",
    "Match",
    "Matches",
    "MissingDatabaseError",
    "PatternError",
    "SearchError",
    "SearchWarning",
    "index",
    "numpy_pool",
    "prewarm",
    "stats",
    "stats_text",
    "use_for_numpy",
]


def index(path: Union[str, "os.PathLike[str]"] = ".") -> Index:
    """The database of the folder `path`, or of the nearest folder above it that has one.

    `Index.build` or the command `faultless index init` makes it. `search` of the result finds lines, `update` reads the
    files that changed.
    """
    return Index(path)


@contextmanager
def numpy_pool():
    """NumPy arrays of at least THRESHOLD_BYTES that are made inside the block come from the pool.

    It applies to the calling thread (more precisely, to its context: contextvars), and nests. The arrays may outlive the
    block, and any thread may free them. It is also a decorator.
    """
    outer = exchange_handler(pool_handler())
    try:
        yield
    finally:
        exchange_handler(outer)


def use_for_numpy():
    """From now on every large NumPy array of this process comes from the pool, whichever thread makes it.

    An explicitly chosen memory handler (NEP 49) stays. This call cannot be undone.
    """
    replace_default_handler()
