#!/usr/bin/env python3
"""Checks that `faultless grep`, ripgrep and GNU grep -a print the same lines for random queries.

    bench/grep_same.py --out record/grep/DATE-HOST --tree linux-source-6.1

The output is compared sorted, with path, number and text of every line. Expressions that match nearly everything are
compared by count per file. The exit status is 1 if an output differs.
"""
import hashlib, os, random, re, shutil, subprocess, sys

from harness import record

FIELDS = ["kind", "flags", "pattern", "lines", "rg_same", "grep_same"]


def escape(text):
    """An expression that both read alike."""
    return re.sub(r"([][\\.^$*+?(){}|])", r"\\\1", text)


def words(tree, files, rng):
    """Words of the tree by their position in a line, and lines."""
    found, lines = [], []
    for name in rng.sample(files, min(len(files), 400)):
        with open(os.path.join(tree, name), "rb") as file:
            text = file.read(200_000).decode("utf-8", "ignore")
        found += rng.sample(re.findall(r"[A-Za-z_][A-Za-z0-9_]{2,}", text) or ["none"], 1)
        lines += [line for line in rng.sample(text.split("\n"), 1) if line.strip()]
    return found, lines


def queries(tree, files, count, rng):
    """Kind, flags, pattern, and whether GNU grep reads it the same way: -E for an expression."""
    found, lines = words(tree, files, rng)
    word = lambda: rng.choice(found)
    part = lambda: (lambda w: w[(at := rng.randrange(max(1, len(w) - 2))):at + rng.randrange(2, 9)])(word())
    text = lambda: (lambda l: l[(at := rng.randrange(max(1, len(l) - 4))):at + rng.randrange(3, 30)])(rng.choice(lines))
    kinds = [
        ("literal", lambda: (["-F"], text(), True)),
        ("word", lambda: (["-w"], word(), True)),
        ("any case", lambda: (["-i"], part().replace("k", "n").replace("s", "t").replace("K", "N").replace("S", "T"), True)),
        ("alternation", lambda: ([], "|".join(word() for _ in range(rng.randrange(2, 6))), True)),
        ("class", lambda: ([], f"{part()}[a-z0-9_]+[;,=( ]", True)),
        ("digits", lambda: ([], rf"{part()}[0-9]{{{rng.randrange(1, 4)}}}", True)),
        ("begin", lambda: ([], f"^{escape(rng.choice(lines)[:rng.randrange(1, 12)])}", False)),
        ("end", lambda: ([], f"{part()}.?$", False)),
        ("boundary", lambda: ([], rf"\b{part()}|{part()}\b", False)),
        ("gap", lambda: ([], f"{part()}.*{part()}", False)),
        ("optional", lambda: ([], (lambda w: f"{w[:2]}{w[2:3]}?{w[3:]}")(word()), True)),
        ("unicode", lambda: (["-i"], rng.choice(["ü", "é", "ß", "µ", "größe", "Σ", "ø[a-z]", "№|©", "\\p{Greek}+", "[äöü]\\w"]), False)),
        ("empty", lambda: (["-c"], rng.choice([f"({part()})*", "x*", "^", "$", f"^$|{part()}"]), False)),
        ("inverted", lambda: (["-v", "-c"], rng.choice(["[a-z]", "e", ";", "^"]), False)),
        ("white", lambda: ([], rf"{part()}\s+{part()}|\t{{{rng.randrange(5, 9)}}}{part()}", False)),
    ]
    for number in range(count):
        kind, make = kinds[number % len(kinds)]
        flags, pattern, posix = make()
        yield kind, flags, pattern, posix


def lines(command, tree, env=None, stdin=None):
    """The sorted lines of its output. A failure is no output."""
    done = subprocess.run(command, cwd=tree, env=env, input=stdin, stdin=None if stdin else subprocess.DEVNULL, capture_output=True)
    if done.returncode > 1 and done.returncode != 123:
        sys.exit(f"{command}: {done.stderr.decode()}")
    out = done.stdout.split(b"\n")
    out.sort()
    return len(out) - 1, hashlib.sha256(b"\n".join(out)).hexdigest()


def measure(args):
    if not args.tree:
        record.fail("name the folder to search with --tree")
    if not shutil.which(args.rg):
        record.fail(f"--rg: no program {args.rg}; install ripgrep")
    rng = random.Random(args.seed)
    listed = subprocess.run([args.rg, "--files", "-0"], cwd=args.tree, capture_output=True, check=True).stdout
    files = sorted(os.fsdecode(name) for name in listed.split(b"\0") if name)
    # Words depend on the alphabet; nothing else here does.
    locales = {"word": {**os.environ, "LC_ALL": "C.UTF-8"}}
    c = {**os.environ, "LC_ALL": "C"}
    wrong = 0
    with record.Record(args, FIELDS) as table:
        for number, (kind, flags, pattern, posix) in enumerate(queries(args.tree, files, args.queries, rng)):
            common = ["-nH", *flags, "-e", pattern]
            count, ours = lines([args.faultless, "grep", *common], args.tree)
            rg = ours == lines([args.rg, "--no-heading", *common], args.tree)[1]
            grep = ""
            if posix:
                # NUL bytes are text to both.
                form = [] if "-F" in flags else ["-E"]
                grep = lines(["xargs", "-0", "grep", "-a", *form, *common], args.tree, locales.get(kind, c), listed)[1]
                grep = grep == lines([args.faultless, "grep", "-a", *common], args.tree)[1]
            wrong += (not rg) + (grep is False)
            table.row(kind, " ".join(flags), pattern, count, rg, grep)
            print(f"\r{number + 1} of {args.queries} queries, {wrong} differ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    table.summarize(summary)
    return wrong > 0


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    if "rg_same" not in rows[0]:
        record.fail(f"{paths[0]}: not a table of grep_same.py")
    for other in ("rg_same", "grep_same"):
        told = [row[other] for row in rows if row[other]]
        print(f"{other.removesuffix('_same'):5} same lines in {told.count('True')} of {len(told)} queries")


def more(parser):
    parser.add_argument("--tree", metavar="DIR", help="a tree with a database")
    parser.add_argument("--rg", default="rg", metavar="PATH", help="ripgrep [%(default)s]")
    parser.add_argument("--queries", type=int, default=225, metavar="N", help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="[%(default)s]")


if __name__ == "__main__":
    sys.exit(record.script(__doc__, "same", 1, measure, summary, more))
