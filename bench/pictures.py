#!/usr/bin/env python3
"""Takes the two pictures of "A queue of page faults": timelines of a search with a pool and without.

    bench/pictures.py --out record/timeline/DATE-HOST --tree linux-source-6.1
    bench/pictures.py --trial --out /tmp/pictures --tree . --threads 4

`faultless grep` searches every chunk of TREE for the document's expression, with blocks from the pool and from mmap, and
`faultless record` records both runs. Leaves pool.html and mmap.html, which open without network, and lanes.json.gz with
the lanes of both. The database of TREE is built if it is missing. Each search runs once before, so that the database is
in the page cache.
"""
import gzip, os, shutil, subprocess, sys, tempfile

from harness import record
from harness.memory import warm

PATTERN = "fooo?bar"
# What the decompressed text of a search needs at most: memory is made guest-warm before each run.
WARM_MIB = 512


def timeline(faultless, work, *words, read=None):
    """What `faultless timeline` writes, to stdout or into a file."""
    done = subprocess.run([faultless, "timeline", *words], cwd=work, check=True, stdout=subprocess.PIPE)
    if not read:
        return done.stdout
    with open(f"{work}/{read}", "rb") as file:
        return file.read()


def without(paths, text):
    for path in paths:
        text = text.replace(path, b"")
    return text


def main():
    parser = record.parser(__doc__)
    record.options(parser, "lanes", 1)
    parser.add_argument("--tree", required=True, help="folder to search")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="threads [%(default)s]")
    args = parser.parse_args()
    head = record.check(args)
    faultless = shutil.which(args.faultless) or record.fail(f"--faultless: no program {args.faultless}; name the one to record")
    faultless, out, tree = (os.path.realpath(path) for path in (faultless, args.out, args.tree))
    os.makedirs(out, exist_ok=True)
    if os.path.exists(f"{out}/pool.html"):
        record.fail(f"{out}/pool.html exists: records are never overwritten")
    # The traces stay in a folder of their own: they are large, and name files of this machine.
    with tempfile.TemporaryDirectory() as work:
        if not os.path.isdir(f"{tree}/.faultless"):
            subprocess.run([faultless, "index", "init", tree], check=True, stdout=sys.stderr)
        for memory in ("pool", "mmap"):
            search = [faultless, "grep", f"-j{args.threads}", "--brute-force", f"--memory={memory}", PATTERN]
            for before in ([], [faultless, "record", "-o", f"{work}/{memory}", "--"]):
                warm(WARM_MIB)
                done = subprocess.run([*before, *search], cwd=tree, stdout=subprocess.DEVNULL)
                if done.returncode > 1:
                    record.fail(f"{' '.join(search)}: status {done.returncode}")
        # Paths of this machine say nothing to a reader.
        paths = [f"{path}/".encode() for path in (work, tree, os.path.dirname(faultless))]
        for memory in ("pool", "mmap"):
            with open(f"{out}/{memory}.html", "wb") as file:
                file.write(without(paths, timeline(faultless, work, "-o", "page.html", memory, read="page.html")))
        lanes = without(paths, timeline(faultless, work, "--json", "pool", "mmap"))
    with open(f"{out}/{args.name}.json.gz", "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(lanes)
    with open(f"{out}/host.txt", "w") as file:
        file.write(record.host(head, record.command_line()))
    for name in sorted(os.listdir(out)):
        print(f"{os.path.getsize(f'{out}/{name}'):10,} {name}")


if __name__ == "__main__":
    main()
