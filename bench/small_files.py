#!/usr/bin/env python3
"""Cuts the text of a tree into many small files, a thousand per folder.

Pieces end at line ends and hold 200 to 2,000 bytes; the same tree gives the same files.
"""
import argparse, os, random


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", metavar="TREE", help="folder of text")
    parser.add_argument("out", metavar="OUT", help="folder for the files")
    parser.add_argument("count", metavar="COUNT", nargs="?", type=int, default=1_000_000, help="files [%(default)s]")
    args = parser.parse_args()
    if not os.path.isdir(args.tree):
        parser.error(f"{args.tree} is no folder; name one with text")
    main(args.tree, args.out, args.count)
