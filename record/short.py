#!/usr/bin/env python3
"""What `stat` says of short programs: record/short.py FAULTLESS [--rounds N]. CSV of every run on stdout, a table on stderr.

In each round every program runs under `stat` and under `record --all`, in shuffled order. The second records each fault: where caches
are colder a fault then reads longer, so its seconds are set beside those of `stat`, not called the truth. A run with more than twice
the major faults of the others found a cold page cache; it is kept and left out of the table.
"""
import argparse, csv, json, os, random, shutil, statistics, subprocess, sys, tempfile

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


def quietly(command, folder):
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def stat(faultless, command, folder):
    quietly([faultless, "stat", "--json", "-o", "stat.json", "--", "sh", "-c", f"exec {command}"], folder)
    with open(f"{folder}/stat.json") as file:
        said = json.load(file)
    seconds, usage = said["time"]["seconds"], said["usage"]
    return [seconds["value"], seconds["low"], seconds["high"], sum(row["faults"] for row in said["rows"]), usage["major_faults"],
            (usage["user_ns"] + usage["system_ns"]) / 1e9, said["time"]["timed"]]


def every_fault(faultless, command, folder):
    quietly([faultless, "record", "--all", "-o", "all.trace", "--", "sh", "-c", f"exec {command}"], folder)
    done = subprocess.run([faultless, "report", "--json", "all.trace"], cwd=folder, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    time = said["time_ns"]
    return [time["value"] / 1e9, time["low"] / 1e9, time["high"] / 1e9, said["faults"], said.get("usage", {}).get("major_faults", ""),
            said["cpu_ns"] / 1e9, said["coverage"]["timed"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faultless")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    faultless = os.path.abspath(args.faultless)
    repository = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    programs = {name: command.format(repository=repository) for name, command in PROGRAMS.items() if shutil.which(command.split()[0])}
    for name in sorted(PROGRAMS.keys() - programs.keys()):
        print(f"not here: {name}", file=sys.stderr)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(FIELDS)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for command in programs.values():
            quietly(["sh", "-c", f"exec {command}"], folder)
        for number in range(args.rounds):
            cells = [(name, verb) for name in programs for verb in (stat, every_fault)]
            random.shuffle(cells)
            for name, verb in cells:
                row = [name, number, verb.__name__, *verb(faultless, programs[name], folder)]
                rows.append(row)
                out.writerow(row)
                sys.stdout.flush()
    table(programs, rows)


def table(programs, rows):
    print(f"{'program':14} {'faults':>7} {'CPU ms':>7} {'stat ms':>8} {'high/low':>8} {'max/min':>7}  holds   --all ms", file=sys.stderr)
    for name in programs:
        ours = [row for row in rows if row[0] == name and row[2] == "stat"]
        usual = statistics.median(row[7] for row in ours)
        kept = [row for row in ours if row[7] <= 2 * usual + 2]
        values = [row[3] for row in kept]
        middle = statistics.median(values)
        holds = sum(row[4] <= middle <= row[5] for row in kept)
        every = statistics.median(row[3] for row in rows if row[0] == name and row[2] == "every_fault")
        print(f"{name:14} {statistics.median(row[6] for row in kept):7.0f} {1e3 * statistics.median(row[8] for row in kept):7.1f} "
              f"{1e3 * middle:8.2f} {statistics.median(row[5] / row[4] for row in kept):8.2f} {max(values) / min(values):7.2f}  "
              f"{holds}/{len(kept)}  {1e3 * every:9.2f}", file=sys.stderr)


if __name__ == "__main__":
    main()
