#!/usr/bin/env python3
"""Compares `faultless grep` with ripgrep, csearch, ugrep, git grep and qgrep on random queries, and checks its lines.

    bench/grep_random.py --out record/grep/DATE-HOST --trees linux-6.12 mixed --queries 200 --seed 1

`--old PATH` compares with another faultless-grep alone, kind by kind.

The queries are drawn from eleven kinds; the words in them are the tree's own. A seed and a tree give the same queries.
Each query runs with three modes (lines, -c, -l), to a pipe and to the null device. ripgrep must print the same lines.

Three interleaved rounds screen. Where a peer was faster, both run again in fresh rounds. A loss is a ratio whose lower
99 % bound exceeds 1.02. A peer that finds another number of lines takes no part in a query: it does other work. csearch
takes no part in a tree of which its index has less than half of the files: it leaves out files with long lines.
"""
import collections, hashlib, math, os, random, re, shutil, string, subprocess, sys

import grep
from harness import record
from harness.figures import PERCENT_99, Arms, cpu_s, wall_s
from harness.process import timed
from harness.rounds import rounds

ROW = ["round", "arm", "wall_s", "user_s", "sys_s"]
FIELDS = ["tree", "number", "kind", "mode", "to", "flags", "pattern", *ROW, "lines", "same"]
MODES, OUTPUTS = ("-n", "-c", "-l"), ("pipe", "null")
SCREENING_ROUNDS = 3
# A ratio that is a loss, at the lower end of its interval.
LOSS = 1.02
# A peer that takes this many times the fastest time once does not run again.
HOPELESS = 2.5
# A program that takes longer is ended. ugrep may take hours for a class in a line of megabytes.
ENDLESS_S, TIMED_OUT = 20, 124
BY = {"cpu": cpu_s, "wall": wall_s}
# Smallest share of a tree's files in an index.
KNOWN = 0.5
# These end at the first match where the output is the null device.
QUITS_AT_NULL = {"ugrep"}


def escape(text):
    """An expression that all programs read alike."""
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


def lines(command, tree):
    """The sorted lines of its output. A failure is no output."""
    done = subprocess.run(command, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode > 1:
        sys.exit(f"{command}: {done.stderr.decode()}")
    out = done.stdout.split(b"\n")
    out.sort()
    return len(out) - 1, hashlib.sha256(b"\n".join(out)).hexdigest()


def rarity(tree, files, rng):
    """The tree's words from rare to frequent, from a sample of its files."""
    counts = collections.Counter()
    for name in rng.sample(files, min(len(files), 400)):
        with open(os.path.join(tree, name), "rb") as file:
            counts.update(re.findall(r"[A-Za-z_][A-Za-z0-9_]{2,}", file.read(200_000).decode("utf-8", "ignore")))
    return sorted(counts, key=lambda word: (counts[word], word)) or ["none"]


def queries(tree, files, count, rng):
    """Kind, flags and pattern of `count` queries."""
    ranked, found = rarity(tree, files, rng), words(tree, files, rng)
    word = lambda: rng.choice(found[0])
    # Evenly over the logarithm of the rank, from both ends: rare and frequent words alike.
    by_rank = lambda: ranked[min(len(ranked) - 1, int(len(ranked) ** rng.random()))]
    frequent = lambda: ranked[-1 - min(len(ranked) - 1, int(len(ranked) ** (rng.random() * 0.7)))]
    absent = lambda: "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(8, 15)))
    literal = lambda: rng.choice([by_rank, by_rank, frequent, absent])()
    part = lambda: (lambda w: w[(at := rng.randrange(max(1, len(w) - 3))):at + rng.randrange(3, 9)])(word())
    begin = lambda: escape(rng.choice(found[1])[:rng.randrange(1, 14)])
    kinds = {
        "literal": lambda: ("", literal()),
        "alternation": lambda: ("", "|".join(literal() for _ in range(rng.randrange(2, 7)))),
        "class with literal": lambda: ("", rng.choice([
            f"{part()}[a-z0-9_]+[;,=( ]", f"[0-9a-f]{{8}}{rng.choice(['ULL', 'u32', '_', ' ', part()])}", f"{part()}[0-9]{{1,3}}",
            rf"\w+_{part()}\(", f"[a-z]+{part()}[0-9]+", f"{part()}.*{part()}", rf"0x[0-9a-f]+\s+{part()}", f"[{part()[:2]}xyz]{part()}"])),
        "class": lambda: ("", rng.choice([
            "[a-z]+_[a-z]+_[0-9]+x[0-9]+", "[A-Z]{3,}_[0-9]+", "0x[0-9a-f]{8}", "[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[A-Z][a-z]+[A-Z][a-z]+", r"\w+\s*=\s*\w+",
            r"[0-9]+\.[0-9]+", r"\b[a-z]{2}\b", "[0-9]{7,}", "[^ -~\t]", r"\w{30,}", "[aeiou]{4}", r"\(\w*\)", "[A-Z]+[0-9]+[A-Z]+"])),
        "anchor": lambda: ("", rng.choice([f"^{begin()}", f"{part()}.?$", rf"^\s*{word()}", "^$", r"[;,]\s+$", f"^.{{{rng.randrange(80, 120)},}}$", rf"^\s*{part()}\s*$"])),
        "case fold": lambda: ("-i", rng.choice([literal(), part(), f"{part()}.*{part()}", f"{literal()}|{literal()}"])),
        "unicode": lambda: (rng.choice(["", "-i"]), rng.choice(["ü", "é", "größe", "Σ", "ø[a-z]", "№|©", r"\p{Greek}+", r"[äöü]\w", r"\p{Han}", "µs", "—"])),
        "multi-line": lambda: ("-U", rng.choice([rf"{part()}\s*\{{\n\s*{part()}", r";\n\n\n", rf"{word()}[^;]*;\n\}}", rf"{part()}\n[^\n]*{part()}", r"\{\n\}"])),
        "word": lambda: ("-w", literal()),
        "dense": lambda: ("", rng.choice(["e", ".", "[a-z]", r"\w+", " ", "int", "the", "0", "[0-9]", "=", "t[a-z]"])),
        "empty": lambda: ("", rng.choice(["", "x*", "^", "$", f"({part()})*"])),
    }
    for number in range(count):
        kind = list(kinds)[number % len(kinds)]
        yield kind, *kinds[kind]()


def listed(tree, args):
    """The files of a tree."""
    found = subprocess.run([args.rg, "--files", "-0"], cwd=tree, capture_output=True, check=True).stdout
    return sorted(os.fsdecode(name) for name in found.split(b"\0") if name)


def left_out(tree, files):
    """The programs whose index of a tree has too few of its files."""
    if not shutil.which("csearch"):
        return set()
    known = subprocess.run(["csearch", "-l", "--", "^|."], cwd=tree, capture_output=True).stdout.count(b"\n")
    return {"csearch"} if known < KNOWN * len(files) else set()


def drawn(tree, files, args):
    """The queries of a tree. They do not depend on the other trees."""
    some = queries(tree, files, args.queries, random.Random(args.seed))
    return [query for query in some if not args.kinds or query[0] in args.kinds.split(",")]


def cells(args, number, flags, pattern, without=frozenset()):
    """Mode, output, and arm -> command. One mode and output per query in turn, or all of them with --all."""
    chosen = [(mode, to) for to in args.to.split(",") for mode in args.modes.split(",")]
    for mode, to in chosen if args.all else [chosen[number % len(chosen)]]:
        arms = grep.commands(args, pattern, "-i" in flags, flags.replace("-i", ""), mode)
        if args.old:
            arms = {"faultless": arms["faultless"], "old": arms["faultless"].replace(grep.verb(args, "grep"), args.old, 1)}
        yield mode, to, {arm: command for arm, command in arms.items() if arm not in {"grep", *without}}


def is_same_work(ours, theirs):
    """Whether a peer found about what we found. csearch leaves some files out; git refuses `\\p{Greek}`."""
    return (theirs > 0 or ours == 0) and abs(ours - theirs) <= max(2, 0.02 * ours)


def is_peer(arm, to):
    """Whether a program searches everything for this output."""
    return arm != "faultless" and (to != "null" or arm not in QUITS_AT_NULL)


def times(arms, names, count, to):
    """Rows of `count` interleaved rounds: round, arm, wall, user and system time."""
    return [dict(zip(ROW, (at, arm, *timed(arms[arm], to)[0][:3]))) for at, order in rounds(count, names) for arm in order]


def compare(arms, args, to):
    """The rows of a cell, with a number of lines for each arm."""
    warm, rows, get = {}, [], BY[args.by]
    for arm, command in arms.items():
        figures, status, out = timed(f"timeout {ENDLESS_S} {command}")
        if arm == "faultless" and status == TIMED_OUT:
            record.fail(f"no end within {ENDLESS_S} s: {command}")
        rows.append(dict(zip(ROW, (-1, arm, *figures[:3]))))
        warm[arm] = out.count(b"\n")
    first = {row["arm"]: get(row) for row in rows}
    most = HOPELESS * first["faultless"]
    left = ["faultless", *(arm for arm in arms if is_peer(arm, to) and is_same_work(warm["faultless"], warm[arm]) and first[arm] < most)]
    screened = times(arms, left, SCREENING_ROUNDS, to)
    found = Arms(screened)
    faster = ["old"] if args.old else [arm for arm in left if found.median(arm, get) < found.median("faultless", get)]
    again = times(arms, ["faultless", *faster], args.rounds, to) if faster else []
    for row in again:
        row["round"] += SCREENING_ROUNDS
    return [{**row, "lines": warm[row["arm"]]} for row in rows + screened + again]


def measure(args):
    if not args.trees:
        record.fail("name the folders to search with --trees")
    version = subprocess.run([args.rg, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    with record.Record(args, FIELDS, {"seed": str(args.seed), "by": args.by, "ripgrep": version}) as table:
        for name in args.trees:
            args.tree = os.path.realpath(name)
            args.work = f"{args.databases}/{os.path.basename(args.tree)}"
            grep.databases(args)
            files = listed(args.tree, args)
            without = left_out(args.tree, files)
            for number, (kind, flags, pattern) in enumerate(drawn(args.tree, files, args)):
                print(f"\r{args.tree}: query {number + 1}", end="", file=sys.stderr, flush=True)
                for mode, to, arms in cells(args, number, flags, pattern, without):
                    common = [f"{mode}H", *flags.split(), "-e", pattern]
                    ours = lines([*grep.verb(args, "grep").split(), *common], args.tree)
                    same = ours == lines([args.rg, "--no-heading", *common], args.tree)
                    for row in compare(arms, args, to):
                        table.row(os.path.basename(args.tree), number, kind, mode, to, flags, pattern, *row.values(), same)
    print(file=sys.stderr)
    table.summarize(summary)


def judged(rows, get):
    """Of a cell: the peer that is nearest and its ratio, ours divided by its own time; whether that is a loss."""
    again = [row for row in rows if int(row["round"]) >= SCREENING_ROUNDS]
    found = Arms(again or [row for row in rows if int(row["round"]) >= 0])
    peers = [arm for arm in found.names if is_peer(arm, rows[0]["to"])]
    ratios = {arm: found.ratio("faultless", arm, get, PERCENT_99) for arm in peers}
    if not ratios:
        return None
    arm = max(ratios, key=lambda arm: ratios[arm][0])
    return arm, ratios[arm], bool(again) and any(ratio[1] > LOSS for ratio in ratios.values())


def by_kind(told):
    """Prints what is as fast as before, by kind: the geometric mean of the ratios, and of the times."""
    mean = lambda values: math.exp(sum(map(math.log, values)) / len(values))
    print(f"{'kind':20} {'cells':>5} {'old ms':>9} {'new ms':>9} {'ratio':>6} {'worst':>6}")
    for kind in dict.fromkeys(row["kind"] for _, row, _ in told):
        some = [(judged[1][0], ms) for judged, row, ms in told if row["kind"] == kind]
        ratio, ms = mean([ratio for ratio, _ in some]), mean([ms for _, ms in some])
        print(f"{kind:20} {len(some):5} {ms / ratio:9.2f} {ms:9.2f} {ratio:6.2f} {max(some)[0]:6.2f}")


def summary(paths):
    for path in paths:
        rows, comments = record.read(path)
        if "same" not in rows[0] or "mode" not in rows[0]:
            record.fail(f"{path}: not a table of grep_random.py")
        get, found, kept = BY[comments["by"]], collections.defaultdict(list), []
        for row in rows:
            found[row["tree"], row["number"], row["mode"], row["to"]].append(row)
        for (tree, number, mode, to), cell in found.items():
            ours = Arms([row for row in cell if int(row["round"]) >= 0]).median("faultless", get)
            kept.append((judged(cell, get), cell[0], 1e3 * ours))
        told = sorted((one for one in kept if one[0]), key=lambda one: -one[0][1][0])
        print(f"{path}: seed {comments['seed']}, {comments['by']} time, {comments['ripgrep']}; {len(found)} cells")
        print(f"{'':9} {'ratio':>6} {'99 %':>13} {'ms':>9} {'peer':8} {'lines':>8}  cell")
        if any(one[0][0] == "old" for one in told):
            by_kind(told)
        for (arm, ratio, lost), row, ms in told:
            verdict = "loss" if lost else "faster" if ratio[2] < 1 else "undecided"
            cell = f"{row['tree']} {row['mode']} {row['to']} {row['kind']}: {row['flags']} {row['pattern']!r}"
            print(f"{verdict:9} {ratio[0]:6.2f} {ratio[1]:6.2f} {ratio[2]:6.2f} {ms:9.2f} {arm:8} {row['lines']:>8}  {cell}")
        for _, row, _ in kept:
            if row["same"] == "False":
                print(f"other lines: {row['tree']} {row['mode']} {row['flags']} {row['pattern']!r}")


def more(parser):
    parser.add_argument("--trees", nargs="+", metavar="DIR", help="folders to search; missing databases are built")
    parser.add_argument("--databases", default="/tmp/faultless-grep-random", metavar="DIR", help="databases of others [%(default)s]")
    parser.add_argument("--queries", type=int, default=200, metavar="N", help="queries per tree [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="[%(default)s]")
    parser.add_argument("--kinds", help="only these kinds, separated by commas")
    parser.add_argument("--modes", default="-n,-c,-l", help="[%(default)s]")
    parser.add_argument("--to", default="pipe,null", help="[%(default)s]")
    parser.add_argument("--all", action="store_true", help="every mode and output for every query; otherwise one in turn")
    parser.add_argument("--by", choices=BY, default="cpu", help="the time that judges [%(default)s]")
    parser.add_argument("--arms", help="only these programs, separated by commas")
    parser.add_argument("--old", metavar="PATH", help="another faultless-grep: only it takes part, and all cells run N rounds")
    parser.add_argument("--rg", default="rg", metavar="PATH", help="the ripgrep to compare lines with [%(default)s]")


if __name__ == "__main__":
    record.script(__doc__, "random", 20, measure, summary, more)
