"""The order of runs: every round runs every cell once, in an order of its own."""
import random, sys


def rounds(count, cells, warmup=0, name=""):
    """Yields (round, cells in a new order). Warm-up rounds have negative numbers and are not kept.

    Without a name there is no progress to see.
    """
    cells = list(cells)
    for number in range(-warmup, count):
        yield number, random.sample(cells, len(cells))
        if name:
            print(f"\r{name}: round {number + 1} of {count}", end="" if number + 1 < count else "\n", file=sys.stderr, flush=True)
