#!/usr/bin/env python3
"""What each verb says of ordinary programs: record/ordinary.py FAULTLESS [--python PYTHON] [--rounds N]. CSV on stdout, a table on stderr.

In each round every program runs plain, under `stat`, under `record` and under `record --all`, in shuffled order of the programs. Programs
that time their own touches tell the truth of a run: their ticks in it, less what the verb adds to a fault in the median of all rounds.
chunk-pipeline times a part of its touches, whose mean stands for all. Of the pandas job the median of `--all` stands in for the truth.
PYTHON is one that has pandas.
"""
import argparse, csv, json, os, random, statistics, subprocess, sys, tempfile

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
    "chunk-pipeline": "{faultless} workload --json chunk-pipeline",
    "pandas": "{python} pandas_job.py",
}
VERBS = ["plain", "stat", "record", "record --all"]
FIELDS = ["round", "program", "verb", "own_s", "own_faults", "seconds", "low", "high", "worst_kind", "worst_ratio"]
# Kinds of fewer of the faults are not looked at.
KIND_SHARE = 0.1


def run(faultless, verb, command, folder):
    """Stdout of the program, and seconds with interval and counts by kind as the verb has them."""
    watch = {"plain": [], "stat": ["stat", "--json", "-o", "said.json", "--"], "record": ["record", "-o", "said.trace", "--"],
             "record --all": ["record", "--all", "-o", "said.trace", "--"]}[verb]
    words = ([faultless] + watch if watch else []) + command
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    kinds = {}
    if verb == "plain":
        return done.stdout, None, kinds
    if verb == "stat":
        with open(f"{folder}/said.json") as file:
            said = json.load(file)
        for row in said["rows"]:
            kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["faults"]
        return done.stdout, said["time"]["seconds"], kinds
    report = subprocess.run([faultless, "report", "--json", "--by", "kind", "--top", "99", "said.trace"], cwd=folder, capture_output=True, check=True)
    said = json.loads(report.stdout)
    for row in said["tables"][0]["sites"]["rows"]:
        for kind, faults, _ in row["kinds"]:
            kinds[kind] = kinds.get(kind, 0) + faults
    return done.stdout, {end: ns / 1e9 for end, ns in said["time_ns"].items()}, kinds


def worst(said, true):
    """The kind whose count is off most, as a ratio, of those that are a tenth of the faults and more."""
    looked_at = [kind for kind, faults in true.items() if faults >= KIND_SHARE * sum(true.values())]
    ratios = {kind: said.get(kind, 0) / true[kind] for kind in looked_at}
    return max(ratios.items(), key=lambda item: abs(item[1] - 1), default=("", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faultless")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    faultless = os.path.abspath(args.faultless)
    programs = {name: words.format(faultless=faultless, python=args.python).split() for name, words in PROGRAMS.items()}
    if subprocess.run([args.python, "-c", "import pandas"], stderr=subprocess.DEVNULL).returncode:
        del programs["pandas"]
        print("not here: pandas", file=sys.stderr)
    out = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    out.writeheader()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/pandas_job.py", "w") as file:
            file.write(PANDAS)
        for number in range(args.rounds):
            for name in random.sample(list(programs), len(programs)):
                for verb in VERBS:
                    stdout, seconds, kinds = run(faultless, verb, programs[name], folder)
                    row = {"round": number, "program": name, "verb": verb}
                    if " timed " in PROGRAMS[name]:
                        told = json.loads(stdout)
                        row["own_s"] = sum(kind["ns"] for kind in told.values()) / 1e9
                        row["own_faults"] = sum(kind["faults"] for kind in told.values())
                        true = {kind: found["faults"] for kind, found in told.items()}
                        row["worst_kind"], row["worst_ratio"] = worst(kinds, true) if kinds else ("", "")
                    elif "--json" in PROGRAMS[name]:
                        told = json.loads(stdout)
                        row["own_faults"] = told["faults"]
                        row["own_s"] = told["faults"] * told["first_touch_mean_ns"] / 1e9
                    if seconds:
                        row |= {"seconds": seconds["value"], "low": seconds["low"], "high": seconds["high"]}
                    rows.append(row)
                    out.writerow(row)
                    sys.stdout.flush()
    table(programs, rows)


def table(programs, rows):
    print(f"{'program':15} {'verb':13} {'truth ms':>8} {'said ms':>8} {'ratio':>6} {'max/min':>7} {'plain':>6} {'hold':>6}  worst kind", file=sys.stderr)
    for name in programs:
        of = lambda verb: [row for row in rows if row["program"] == name and row["verb"] == verb]
        plain = [row for row in of("plain") if "own_s" in row]
        truth = statistics.median([row["own_s"] for row in plain] or [row["seconds"] for row in of("record --all")])
        # A fault's time, where the number of faults varies.
        each = lambda row, seconds: row[seconds] / row.get("own_faults", 1)
        spread = lambda values: max(values) / min(values)
        for verb in VERBS[1:]:
            runs = of(verb)
            # What the verb adds to the program's own time, in the median.
            longer = statistics.median(each(row, "own_s") / each(before, "own_s") for row, before in zip(runs, plain)) if plain else 1
            true = [row["own_s"] / longer if plain else truth for row in runs]
            ratios = [row["seconds"] / truth for row, truth in zip(runs, true)]
            said = [row["seconds"] for row in runs]
            holds = sum(row["low"] <= truth <= row["high"] for row, truth in zip(runs, true))
            kinds = sorted((row["worst_ratio"], row["worst_kind"]) for row in runs if row.get("worst_kind"))
            kind = "" if not kinds else "{1} {0:.3f}".format(*max(kinds[0], kinds[-1], key=lambda kind: abs(kind[0] - 1)))
            print(f"{name:15} {verb:13} {1e3 * truth:8.1f} {1e3 * statistics.median(said):8.1f} {statistics.median(ratios):6.3f} "
                  f"{spread([each(row, 'seconds') for row in runs]):7.2f} {spread([each(row, 'own_s') for row in plain] or [1]):6.2f} "
                  f"{holds:3}/{len(runs)}  {kind}", file=sys.stderr)


if __name__ == "__main__":
    main()
