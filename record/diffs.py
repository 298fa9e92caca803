#!/usr/bin/env python3
"""Whether `diff` names what differs between two builds of a program, and nothing else: see record/README.md.

Every round records each build of record/diffs.c, and the first one twice, shuffled, for each number of threads and each user, and
compares the recordings: the second of the first build (self), and the two builds after (pages, price). With --against it compares
those of GROUP rounds at once, each in one comparison only. A diff is right if it names exactly the functions that differ, each with its
class; a change of price alone is not expected to show with one recording a side. A row of the CSV is a diff; faults and time are those
of the function that is twice as slow.
"""
import argparse, csv, itertools, json, os, random, subprocess, sys, tempfile

from paired import warm

GROUP = 10
CHANGED = {"added:added", "removed:removed", "grown:changed"}
RIGHT = {"self": set(), "pages": CHANGED, "price": CHANGED}
BUILD = {"self": "a", "pages": "pages", "price": "price"}
FIELDS = ["round", "threads", "user", "pair", "recordings", "right", "named", "cause", "faults_before", "faults_after", "time_before_ns",
          "time_after_ns", "price_ratio", "warnings"]


def run(words, user):
    return subprocess.run(words, capture_output=True, text=True, check=True, user=user).stdout


def record(args, folder, number, threads, user):
    """Records every build of a round."""
    arms = ["a", *BUILD]
    random.shuffle(arms)
    for arm in arms:
        warm(100)
        command = [f"./diffs-{BUILD.get(arm, arm)}", str(threads), os.path.join(folder, "file")]
        run([args.faultless, "record", "-o", os.path.join(folder, f"{arm}-{number}"), "--", *command], user)


def rows(args, folder, numbers, threads, user):
    """Compares the recordings of some rounds at once."""
    files = lambda arm: [os.path.join(folder, f"{arm}-{number}") for number in numbers]
    for pair, right in RIGHT.items():
        diff = json.loads(run([args.faultless, "diff", "--json", *files("a"), "--against", *files(pair)], user))
        named = {f"{row['class']}:{row['name']}": row for row in diff["rows"] if row["class"] != "unchanged"}
        changed = next(row for row in diff["rows"] if row["name"] == "changed")
        yield [numbers[-1], threads, user or "root", pair, len(numbers), int(set(named) == right), " ".join(sorted(named)),
               changed["cause"] or "", *(round(changed[figure][side]["value"], 1) for figure in ("faults", "time_ns")
               for side in ("before", "after")), round(diff["price"]["ratio"], 4), len(diff["warnings"])]


def summary(path):
    found = list(csv.DictReader(open(path)))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--faultless", default="faultless")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--summary", metavar="CSV")
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    args.faultless = os.path.realpath(args.faultless)
    path = os.path.join(args.out, "diffs.csv")
    if os.path.exists(path):
        sys.exit(f"{path} exists: records are never overwritten")
    with tempfile.TemporaryDirectory() as folder, open(path + ".new", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        os.chmod(folder, 0o777)
        cells = list(itertools.product((1, 4), (None, "nobody")))
        for number in range(args.rounds):
            random.shuffle(cells)
            for threads, user in cells:
                own = os.path.join(folder, f"{threads}-{user}")
                os.makedirs(own, exist_ok=True)
                os.chmod(own, 0o777)
                record(args, own, number, threads, user)
                writer.writerows(rows(args, own, [number], threads, user))
                if (number + 1) % GROUP == 0:
                    writer.writerows(rows(args, own, range(number + 1 - GROUP, number + 1), threads, user))
            file.flush()
            print(f"\rround {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    os.rename(path + ".new", path)
    summary(path)


main()
