#!/usr/bin/env python3
"""Compares the median fault time of `stat` with the median that a workload times itself.

    bench/truth.py --out record/truth/DATE-HOST --rounds 4

The truth is the mean of two runs without `stat`, before and after it, in warmed memory. The workload's own median inside
`stat` includes the recording; if it is more than twice the truth, that run met guest-cold memory. Such rounds are marked
and left out of the summary.
"""
import json, re, subprocess, tempfile

from harness import record
from harness.figures import interval, text
from harness.memory import warm
from harness.rounds import rounds

# Workload and the MiB that it touches.
WORKLOADS = {"chunk-pipeline": 256, "temporaries": 800, "calloc-sparse": 128, "calloc-full": 128, "growth": 2600, "bursts": 1024,
             "touch-once": 1024}
FIELDS = ["workload", "round", "before_ns", "after_ns", "inside_ns", "cold", "stat_p50_ns", "ratio", "rows_add_up", "faults", "before_exec"]


def own_ns(done):
    return int(re.search(r"first touch p50 (\d+) ns", done.stderr)[1])


def truth_ns(command, mib):
    warm(mib)
    return own_ns(subprocess.run(command, capture_output=True, text=True, check=True))


def stat_of(faultless, command, mib):
    warm(mib)
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([faultless, "stat", "--json", "-o", out.name, "--", *command], capture_output=True, text=True, check=True)
        return json.load(open(out.name)), own_ns(done)


def row_of(faultless, name, number, mib):
    command = [faultless, "workload", name]
    before = truth_ns(command, mib)
    stat, inside = stat_of(faultless, command, mib)
    after = truth_ns(command, mib)
    first = [row for row in stat["rows"] if row["kind"] in ("mmap_first_write", "heap_first_write") and row["p50_ns"]]
    most = max(first, key=lambda row: row["faults"])
    rows, total = sum(row["faults"] for row in stat["rows"]), stat["usage"]["minor_faults"] + stat["usage"]["major_faults"]
    before_exec = sum(row["faults"] for row in stat["rows"] if row["kind"] == "before_exec")
    return [name, number, before, after, inside, inside > before + after, round(most["p50_ns"]), most["p50_ns"] * 2 / (before + after),
            rows == total, total, before_exec]


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    if "stat_p50_ns" not in rows[0]:
        record.fail(f"{paths[0]}: not a table of truth.py")
    for name in dict.fromkeys(row["workload"] for row in rows):
        found = [float(row["ratio"]) for row in rows if row["workload"] == name and row["cold"] == "False"]
        print(f"{name:15} stat / truth {text(interval(found)) if found else '-'}, n {len(found)}")


def main():
    parser = record.parser(__doc__)
    record.options(parser, "truth", 4)
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    with record.Record(args, FIELDS) as table:
        for number, order in rounds(args.rounds, WORKLOADS, name=args.name):
            for name in order:
                table.row(*row_of(args.faultless, name, number, WORKLOADS[name]))
    table.summarize(summary)


if __name__ == "__main__":
    main()
