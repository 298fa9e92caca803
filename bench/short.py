#!/usr/bin/env python3
"""Compares `stat` with `record --all` on short programs.

    bench/short.py --out record/short/DATE-HOST --rounds 10

Each round runs every program under both. `record --all` records each fault, and a fault reads longer if caches are colder,
so its time is a comparison, not the truth. Runs with more than twice the usual major faults met a cold page cache:
they stay in the record and out of the table.
"""
import json, os, random, shutil, statistics, sys, tempfile

from harness import record
from harness.process import output
from harness.rounds import rounds

PROGRAMS = {
    "gcc -c": "gcc -c small.c -o small.o",
    "python3 json": "python3 -c 'import json'",
    "node": "node -e 1",
    "java": "java -version",
    "git log": "git -C {repository} log --stat -20",
    "sort 10 MB": "sort ten.txt -o sorted.txt",
    "zstd 5 MB": "zstd -qf five.txt -o five.zst",
    "go version": "go version",
    "rustc": "rustc --version",
    "find": "find /usr/share/doc",
    "200 children": "sh -c 'i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done'",
    "sqlite3": "sqlite3 :memory: 'create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 100000) "
    "insert into t select x, hex(x) from c; select count(*), sum(a) from t'",
}
FIELDS = ["program", "round", "verb", "seconds", "low", "high", "faults", "majors", "cpu_s", "timed"]


def prepare(folder):
    with open(f"{folder}/small.c", "w") as out:
        out.write('#include <stdio.h>\nint main(void) { return printf("hi\\n") < 0; }\n')
    lines = [f"{number}\n" for number in range(1, 1_400_001)]
    random.Random(1).shuffle(lines)
    text = "".join(lines)
    for name, length in [("ten.txt", len(text)), ("five.txt", 5_000_000)]:
        with open(f"{folder}/{name}", "w") as out:
            out.write(text[:length])


def stat(faultless, command, folder):
    output([faultless, "stat", "--json", "-o", "stat.json", "--", "sh", "-c", f"exec {command}"], folder=folder)
    with open(f"{folder}/stat.json") as file:
        said = json.load(file)
    seconds, usage = said["time"]["seconds"], said["usage"]
    return [seconds["value"], seconds["low"], seconds["high"], sum(row["faults"] for row in said["rows"]), usage["major_faults"],
            (usage["user_ns"] + usage["system_ns"]) / 1e9, said["time"]["timed"]]


def every_fault(faultless, command, folder):
    output([faultless, "record", "--all", "-o", "all.trace", "--", "sh", "-c", f"exec {command}"], folder=folder)
    said = json.loads(output([faultless, "report", "--json", "all.trace"], folder=folder))
    time = said["time_ns"]
    return [time["value"] / 1e9, time["low"] / 1e9, time["high"] / 1e9, said["faults"], said.get("usage", {}).get("major_faults", ""),
            said["cpu_ns"] / 1e9, said["coverage"]["timed"]]


def measure(args):
    programs = {name: command.format(repository=record.ROOT) for name, command in PROGRAMS.items() if shutil.which(command.split()[0])}
    for name in sorted(PROGRAMS.keys() - programs.keys()):
        print(f"left out: {name}: not installed", file=sys.stderr)
    cells = [(name, verb) for name in programs for verb in (stat, every_fault)]
    with record.Record(args, FIELDS) as table, tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for number, order in rounds(args.rounds, cells, warmup=1, name=args.name):
            for name, verb in order:
                row = verb(args.faultless, programs[name], folder)
                if number >= 0:
                    table.row(name, number, verb.__name__, *row)
    table.summarize(summary)


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    if "majors" not in rows[0]:
        record.fail(f"{paths[0]}: not a table of short.py")
    print(f"{'program':14} {'faults':>7} {'CPU ms':>7} {'stat ms':>8} {'high/low':>8} {'max/min':>7}  holds   --all ms")
    for name in [name for name in PROGRAMS if any(row["program"] == name for row in rows)]:
        ours = [row for row in rows if row["program"] == name and row["verb"] == "stat"]
        usual = statistics.median(float(row["majors"]) for row in ours)
        kept = [{field: float(row[field]) for field in FIELDS[3:]} for row in ours if float(row["majors"]) <= 2 * usual + 2]
        values = [row["seconds"] for row in kept]
        middle = statistics.median(values)
        holds = sum(row["low"] <= middle <= row["high"] for row in kept)
        every = statistics.median(float(row["seconds"]) for row in rows if row["program"] == name and row["verb"] == "every_fault")
        print(f"{name:14} {statistics.median(row['faults'] for row in kept):7.0f} {1e3 * statistics.median(row['cpu_s'] for row in kept):7.1f} "
              f"{1e3 * middle:8.2f} {statistics.median(row['high'] / row['low'] for row in kept):8.2f} {max(values) / min(values):7.2f}  "
              f"{holds}/{len(kept)}  {1e3 * every:9.2f}")


if __name__ == "__main__":
    record.script(__doc__, "short", 10, measure, summary)
