"""A program with planted regressions: `planted.py NAME`, as planted.c."""
import sys

PLANTED = sys.argv[1] if len(sys.argv) > 1 else ""


def parse_rows():
    """About 20 MiB of strings. "strings": longer ones."""
    return [f"{i:0{200 if PLANTED == 'strings' else 160}}" for i in range(100_000)]


def make_index(rows):
    """A dictionary of all rows. "index": a second one."""
    index = {row: number for number, row in enumerate(rows)}
    return [index, {number: [row] for number, row in enumerate(rows)}] if PLANTED == "index" else [index]


def main():
    rows = parse_rows()
    print(len(rows), len(make_index(rows)))


main()
