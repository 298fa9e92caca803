#!/usr/bin/env python3
"""Cuts the text of a tree into many small files, a thousand per folder: bench/small_files.py TREE OUT [COUNT]

Pieces end at line ends and hold 200 to 2,000 bytes; the same tree gives the same files. COUNT is a million by default.
"""
import os, random, sys


def pieces(tree, draw):
    """Pieces of the files of `tree`, in the order of their names, over and over."""
    while True:
        for folder, folders, names in os.walk(tree):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                begin = 0
                while begin < len(text) and b"\0" not in text[:65536]:
                    end = text.find(b"\n", begin + draw.randrange(200, 2000)) + 1 or len(text)
                    yield name, text[begin:end]
                    begin = end


def main(tree, out, count):
    source = pieces(tree, random.Random(20261127))
    for number in range(count):
        folder = f"{out}/{number // 1000:04}"
        if number % 1000 == 0:
            os.makedirs(folder)
        name, text = next(source)
        with open(f"{folder}/{number % 1000:03}-{name}", "wb") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 1_000_000)
