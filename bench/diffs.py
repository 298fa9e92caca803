#!/usr/bin/env python3
"""Checks that `diff` names what differs between two builds of a program, and nothing else.

    bench/diffs.py --out record/diffs/DATE-HOST --faultless \\
        target/release/faultless

Each round records every build of programs/diffs.c, the first one twice, by threads and user. It compares the first
build with itself (self), with a build that faults more often (pages), and with one whose faults take longer (price).
Every tenth round also compares ten recordings a side. A diff is right if it names exactly the functions that differ,
each with its class. A row of the table is a diff; its faults and times are those of the function that is twice as slow.
"""
import itertools, json, os, random, subprocess, tempfile

from harness import record
from harness.memory import warm
from harness.process import output
from harness.rounds import rounds

GROUP = 10
CHANGED = {"added:added", "removed:removed", "grown:changed"}
RIGHT = {"self": set(), "pages": CHANGED, "price": CHANGED}
BUILD = {"self": "a", "pages": "pages", "price": "price"}
FIELDS = ["round", "threads", "user", "pair", "recordings", "right", "named", "cause", "faults_before", "faults_after", "time_before_ns",
          "time_after_ns", "price_ratio", "warnings"]


def recordings(args, folder, number, threads, user):
    """Records every build of a round."""
    arms = ["a", *BUILD]
    random.shuffle(arms)
    for arm in arms:
        warm(100)
        command = [f"{args.built}/diffs-{BUILD.get(arm, arm)}", str(threads), os.path.join(folder, "file")]
        output([args.faultless, "record", "-o", os.path.join(folder, f"{arm}-{number}"), "--", *command], user)


def rows(args, folder, numbers, threads, user):
    """Compares the recordings of some rounds at once."""
    files = lambda arm: [os.path.join(folder, f"{arm}-{number}") for number in numbers]
    for pair, right in RIGHT.items():
        diff = json.loads(output([args.faultless, "diff", "--json", *files("a"), "--against", *files(pair)], user))
        # A row names a function and its caller.
        own_name = lambda row: row["name"].split(" <- ")[0]
        named = {f"{row['class']}:{own_name(row)}": row for row in diff["rows"] if row["class"] != "unchanged"}
        changed = next(row for row in diff["rows"] if own_name(row) == "changed")
        yield [numbers[-1], threads, user or "root", pair, len(numbers), int(set(named) == right), " ".join(sorted(named)),
               changed["cause"] or "", *(round(changed[figure][side]["value"], 1) for figure in ("faults", "time_ns")
               for side in ("before", "after")), round(diff["price"]["ratio"]["value"], 4), len(diff["warnings"])]


def summary(paths):
    found = [row for path in paths for row in record.read(path)[0]]
    cells = [("root", "1"), ("root", "4"), ("nobody", "1"), ("nobody", "4")]
    print(f"{'pair':6} {'recordings':>10}" + "".join(f"{user + ' ' + threads:>11}" for user, threads in cells) + f"{'all':>11}  wrong")
    for recordings, pair in itertools.product(("1", str(GROUP)), RIGHT):
        mine = [row for row in found if (row["pair"], row["recordings"]) == (pair, recordings)]
        told = [[int(row["right"]) for row in mine if (row["user"], row["threads"]) == cell] for cell in cells]
        told.append([int(row["right"]) for row in mine])
        named = [set(row["named"].split()) for row in mine]
        wrong = [f"not {name} ({sum(name not in names for names in named)})" for name in sorted(RIGHT[pair])
                 if any(name not in names for names in named)]
        extra = sorted(name for names in named for name in names - RIGHT[pair])
        wrong += [f"{name} ({len(list(each))})" for name, each in itertools.groupby(extra)]
        print(f"{pair:6} {recordings:>10}" + "".join(f"{f'{sum(right)}/{len(right)}':>11}" for right in told) + "  " + ", ".join(wrong))


def build(args):
    source = os.path.join(os.path.dirname(os.path.realpath(__file__)), "programs", "diffs.c")
    for name, flags in (("a", []), ("pages", ["-DPAGES"]), ("price", ["-DPRICE"])):
        subprocess.run(["cc", "-O2", "-g", "-fno-ipa-icf", "-fno-inline", "-pthread", *flags, "-o", f"{args.built}/diffs-{name}", source], check=True)
    os.chmod(args.built, 0o755)


def measure(args):
    with record.Record(args, FIELDS) as table, tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as args.built:
        build(args)
        os.chmod(folder, 0o777)
        for number, order in rounds(args.rounds, [*itertools.product((1, 4), (None, "nobody"))], name=args.name):
            for threads, user in order:
                own = os.path.join(folder, f"{threads}-{user}")
                os.makedirs(own, exist_ok=True)
                os.chmod(own, 0o777)
                recordings(args, own, number, threads, user)
                groups = [[number]] + [range(number + 1 - GROUP, number + 1)] * ((number + 1) % GROUP == 0)
                for group in groups:
                    for row in rows(args, own, group, threads, user):
                        table.row(*row)
    table.summarize(summary)


if __name__ == "__main__":
    record.script(__doc__, "diffs", 20, measure, summary)
