"""The order of runs: every round runs every cell once, in an order of its own."""
import random, sys, time


def rounds(count, cells, warmup=0, name="", minutes=None):
    """Yields (round, cells in a new order). Warm-up rounds have negative numbers and are not kept.

    `cells` is a list, or a function that returns the list for the next round. With `minutes` no round begins that would
    not end in time, so all cells have run equally often. Without a name there is no progress to see.
    """
    begin = time.monotonic()
    for number in range(-warmup, count):
        found = list(cells() if callable(cells) else cells)
        random.shuffle(found)
        yield number, found
        if name:
            print(f"\r{name}: round {number + 1} of {count}", end="", file=sys.stderr, flush=True)
        passed = time.monotonic() - begin
        if minutes and passed * (1 + 1 / (number + warmup + 1)) > minutes * 60:
            break
    if name:
        print(file=sys.stderr)
