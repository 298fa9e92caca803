"""Large NumPy arrays from a pool that keeps its pages: they fault once, and not in every round.

>>> import faultless, numpy
>>> with faultless.numpy_pool():            # in this thread, inside the block
...     a = numpy.ones(1 << 20)
>>> faultless.use_for_numpy()               # from now on, in the whole process
>>> faultless.stats()["in_use_bytes"] >= a.nbytes
True
"""

from contextlib import contextmanager

from faultless._native import (
    THRESHOLD_BYTES,
    exchange_handler,
    pool_handler,
    prewarm,
    replace_default_handler,
    stats,
    stats_text,
)

__all__ = ["THRESHOLD_BYTES", "numpy_pool", "prewarm", "stats", "stats_text", "use_for_numpy"]


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
