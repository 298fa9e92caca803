#!/usr/bin/env python3
"""Compares the fault time that each verb reports with the time that programs measure themselves.

    bench/ordinary.py --out record/ordinary/DATE-HOST --rounds 10 --python \\
        PYTHON

Each round runs every program plain, under `stat`, `record` and `record --all`. The truth of a run is the time that
the program measured in it, less the median time that the verb adds to a fault. chunk-pipeline times 15 of 16
touches, whose mean stands for all. The pandas job times nothing: its truth is the median of `record --all`.
"""
import json, os, statistics, subprocess, sys, tempfile

from harness import record
from harness.process import output
from harness.rounds import rounds

PANDAS = """
import numpy, pandas
draw = numpy.random.default_rng(1)
table = pandas.DataFrame({'key': draw.integers(0, 1000, 1_000_000), 'value': draw.random(1_000_000)})
for _ in range(5):
    table['more'] = table.value * 2 + table.key
    table.groupby('key').agg({'value': 'mean', 'more': 'sum'})
    table.sort_values('value')
"""
PROGRAMS = {
    "touch 8 MiB": "{faultless} workload timed first-touch --pages 2048 --rounds 100",
    "touch 64 MiB": "{faultless} workload timed first-touch --pages 16384 --rounds 13",
    "touch 500 MiB": "{faultless} workload timed first-touch --pages 128000 --rounds 2",
    "huge and base": "{faultless} workload timed thp --pages 2048 --rounds 50",
    "phases": "{faultless} workload timed phases --pages 8192 --rounds 1",
    "chunk-pipeline": "{faultless} workload --json --all-touches chunk-pipeline",
    "pandas": "{python} pandas_job.py",
}
VERBS = ["plain", "stat", "record", "record --all"]
FIELDS = ["round", "program", "verb", "own_s", "own_faults", "seconds", "low", "high", "worst_kind", "worst_ratio"]
# Kinds with a smaller share of the faults are left out.
KIND_SHARE = 0.1


def run(faultless, verb, command, folder):
    """Stdout of the program, and seconds with interval and counts by kind as the verb reports them."""
    watch = {"plain": [], "stat": ["stat", "--json", "-o", "said.json", "--"], "record": ["record", "-o", "said.trace", "--"],
             "record --all": ["record", "--all", "-o", "said.trace", "--"]}[verb]
    printed = output(([faultless] + watch if watch else []) + command, folder=folder)
    kinds = {}
    if verb == "plain":
        return printed, None, kinds
    if verb == "stat":
        with open(f"{folder}/said.json") as file:
            said = json.load(file)
        for row in said["rows"]:
            kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["faults"]
        return printed, said["time"]["seconds"], kinds
    said = json.loads(output([faultless, "report", "--json", "--by", "kind", "--top", "99", "said.trace"], folder=folder))
    for row in said["tables"][0]["sites"]["rows"]:
        for kind, faults, _ in row["kinds"]:
            kinds[kind] = kinds.get(kind, 0) + faults
    return printed, {end: ns / 1e9 for end, ns in said["time_ns"].items()}, kinds


def worst(said, true):
    """The kind with the worst count, as a ratio, among kinds of at least a tenth of the faults."""
    looked_at = [kind for kind, faults in true.items() if faults >= KIND_SHARE * sum(true.values())]
    ratios = {kind: said.get(kind, 0) / true[kind] for kind in looked_at}
    return max(ratios.items(), key=lambda item: abs(item[1] - 1), default=("", ""))


def row_of(name, printed, seconds, kinds):
    """The program's own figures, and the verb's."""
    row = {}
    if " timed " in PROGRAMS[name]:
        told = json.loads(printed)
        row["own_s"] = sum(kind["ns"] for kind in told.values()) / 1e9
        row["own_faults"] = sum(kind["faults"] for kind in told.values())
        if kinds:
            row["worst_kind"], row["worst_ratio"] = worst(kinds, {kind: found["faults"] for kind, found in told.items()})
    elif "--json" in PROGRAMS[name]:
        told = json.loads(printed)
        row["own_faults"] = told["faults"]
        row["own_s"] = told["faults"] * told["first_touch_mean_ns"] / 1e9
    if seconds:
        row |= {"seconds": seconds["value"], "low": seconds["low"], "high": seconds["high"]}
    return row


def measure(args):
    programs = {name: words.format(faultless=args.faultless, python=args.python).split() for name, words in PROGRAMS.items()}
    if subprocess.run([args.python, "-c", "import pandas"], stderr=subprocess.DEVNULL).returncode:
        del programs["pandas"]
        print(f"left out: pandas: {args.python} cannot import it", file=sys.stderr)
    with record.Record(args, FIELDS) as table, tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/pandas_job.py", "w") as file:
            file.write(PANDAS)
        for number, order in rounds(args.rounds, programs, name=args.name):
            for name in order:
                for verb in VERBS:
                    row = row_of(name, *run(args.faultless, verb, programs[name], folder))
                    table.row(number, name, verb, *(row.get(field, "") for field in FIELDS[3:]))
    table.summarize(summary)


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    if "worst_ratio" not in rows[0]:
        record.fail(f"{paths[0]}: not a table of ordinary.py")
    for row in rows:
        row.update({field: float(row[field]) for field in FIELDS[3:] if field != "worst_kind" and row[field] != ""})
    print(f"{'program':15} {'verb':13} {'truth ms':>8} {'said ms':>8} {'ratio':>6} {'max/min':>7} {'plain':>6} {'hold':>6}  worst kind")
    for name in dict.fromkeys(name for name in PROGRAMS if any(row["program"] == name for row in rows)):
        of = lambda verb: [row for row in rows if row["program"] == name and row["verb"] == verb]
        plain = [row for row in of("plain") if row["own_s"] != ""]
        truth = statistics.median([row["own_s"] for row in plain] or [row["seconds"] for row in of("record --all")])
        # The time of one fault, since the number of faults varies.
        each = lambda row, seconds: row[seconds] / (row["own_faults"] or 1)
        spread = lambda values: max(values) / min(values)
        for verb in VERBS[1:]:
            runs = of(verb)
            # What the verb adds to the program's own time, in the median.
            longer = statistics.median(each(row, "own_s") / each(before, "own_s") for row, before in zip(runs, plain)) if plain else 1
            true = [row["own_s"] / longer if plain else truth for row in runs]
            ratios = [row["seconds"] / truth for row, truth in zip(runs, true)]
            said = [row["seconds"] for row in runs]
            holds = sum(row["low"] <= truth <= row["high"] for row, truth in zip(runs, true))
            kinds = sorted((row["worst_ratio"], row["worst_kind"]) for row in runs if row["worst_kind"])
            kind = "" if not kinds else "{1} {0:.3f}".format(*max(kinds[0], kinds[-1], key=lambda kind: abs(kind[0] - 1)))
            print(f"{name:15} {verb:13} {1e3 * truth:8.1f} {1e3 * statistics.median(said):8.1f} {statistics.median(ratios):6.3f} "
                  f"{spread([each(row, 'seconds') for row in runs]):7.2f} {spread([each(row, 'own_s') for row in plain] or [1]):6.2f} "
                  f"{holds:3}/{len(runs)}  {kind}")


def more(parser):
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="a Python that has pandas")


if __name__ == "__main__":
    record.script(__doc__, "ordinary", 10, measure, summary, more)
