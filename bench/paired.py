#!/usr/bin/env python3
"""Runs commands in shuffled interleaved rounds and compares each with the first.

    bench/paired.py --out record/TOPIC/DATE-HOST --name sort --rounds 15 \\
        plain='sort lines' run='faultless run -- sort lines'
    bench/paired.py --summary record/TOPIC/DATE-HOST/sort.csv.gz

A ratio is the median over rounds of arm / first arm, with a 95 % bootstrap interval.
"""
import os

from harness import process, record
from harness.figures import Arms, cpu_s, faults, peak_mib, text, wall_s
from harness.memory import warm
from harness.rounds import rounds

FIELDS = ["name", "round", "order", "arm", *process.COLUMNS]


def measure(args, arms):
    user, processors = process.user_ids(args.user), sorted(os.sched_getaffinity(0))
    with record.Record(args, FIELDS, arms) as table:
        for number, order in rounds(args.rounds, arms, args.warmup, args.name):
            if args.together:
                warm(args.warm)
                # One processor for all arms of a round: a change of its speed meets all of them.
                os.sched_setaffinity(0, {processors[number % len(processors)]})
                results = process.run_all([arms[arm] for arm in order], user)
                os.sched_setaffinity(0, processors)
            else:
                results = []
                for arm in order:
                    warm(args.warm)
                    results.append(process.run(arms[arm], user))
            for place, (arm, (row, _)) in enumerate(zip(order, results)):
                if number >= 0:
                    table.row(args.name, number, place, arm, *row)
    table.summarize(summary)


def summary(paths):
    print(f"{'name':24} {'arm':14} {'n':>3} {'wall ms':>9} {'wall ratio':>22} {'CPU ms':>9} {'CPU ratio':>22} {'faults':>9} {'RSS MiB':>8} same")
    for path in paths:
        rows, comments = record.read(path)
        if "stdout_sha" not in rows[0] or "arm" not in rows[0]:
            record.fail(f"{path}: not a table of paired.py")
        found, arms = Arms(rows), list(comments)
        outputs = {arm: {(row["status"], row["stdout_sha"]) for row in rows if row["arm"] == arm} for arm in arms}
        for arm in arms:
            print(f"{rows[0]['name']:24} {arm:14} {len(found.values(arm, wall_s)):3} {found.median(arm, wall_s) * 1e3:9.1f} "
                  f"{text(found.ratio(arm, arms[0], wall_s)):>22} {found.median(arm, cpu_s) * 1e3:9.1f} "
                  f"{text(found.ratio(arm, arms[0], cpu_s)):>22} {found.median(arm, faults):9.0f} "
                  f"{found.median(arm, peak_mib):8.1f} {'yes' if outputs[arm] == outputs[arms[0]] else 'NO'}")


def main():
    parser = record.parser(__doc__)
    record.options(parser, "paired", 15, programs=False)
    parser.add_argument("--warmup", type=int, default=1, metavar="N", help="rounds that are not kept [%(default)s]")
    parser.add_argument("--together", action="store_true", help="run the arms of a round at once on one processor; compare CPU time only")
    parser.add_argument("--warm", type=int, default=0, metavar="MIB", help="touch this much memory before each run (virtual machines)")
    parser.add_argument("--user", help="run as this user (needs root)")
    parser.add_argument("arms", nargs="*", metavar="ARM=COMMAND")
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    if len(args.arms) < 2 or not all("=" in arm for arm in args.arms):
        parser.error("give at least two ARM=COMMAND")
    measure(args, dict(arm.split("=", 1) for arm in args.arms))


if __name__ == "__main__":
    main()
