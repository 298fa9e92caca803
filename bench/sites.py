#!/usr/bin/env python3
"""Compares the figures of `record` and `report` for each site with the program's own counts and times.

    bench/sites.py --out record/sites/DATE-HOST --faultless \\
        target/release/faultless

Each round runs programs/sites.c plain, under `record --all` and under `record`, by threads and user. Counts are compared
with the program's own of the same run, times per fault with the mean of its plain runs in this round and the next:
recording every fault slows the program's own clock readings too. An interval holds if it contains the plain time.
"""
import json, os, statistics, subprocess, tempfile

from harness import record
from harness.figures import interval, text
from harness.memory import warm
from harness.process import output
from harness.rounds import rounds

SITES = ["first_write", "read_zero", "write_after_read", "refault", "read_file", "write_file", "shared_leaf"]
FIELDS = ["round", "program", "threads", "user", "arm", "site", "own_faults", "own_p50_ns", "own_mean_ns", "faults", "faults_low", "faults_high",
          "time_ns", "time_low_ns", "time_high_ns", "recorded", "lost"]


def own(printed):
    """Faults, median and mean by function; the two callers of shared_leaf together."""
    found = json.loads(printed)
    a, b = found.pop("deep_a"), found.pop("deep_b")
    both = max(a["touches"] + b["touches"], 1)
    found["shared_leaf"] = {"faults": a["faults"] + b["faults"], "touches": a["touches"] + b["touches"]}
    for key in ("p50_ns", "mean_ns"):
        found["shared_leaf"][key] = (a[key] * a["touches"] + b[key] * b["touches"]) / both
    return found


def rows(args, number, program, threads, user, arm, folder):
    trace = os.path.join(folder, "trace")
    command = [f"{args.built}/{program}", str(threads), str(args.ms), os.path.join(folder, "file")]
    recorded = [args.faultless, "record", "-o", trace, *(["--all"] if arm == "all" else []), "--"]
    warm(300)
    truth = own(output(command if arm == "plain" else recorded + command, user))
    said, coverage = {}, {}
    if arm != "plain":
        report = json.loads(output([args.faultless, "report", "--json", "--by", "function", "--top", "1000", trace], user))
        table = next(table["sites"] for table in report["tables"] if table["sites"]["by"] == "function")
        said, coverage = {row["label"]: row for row in table["rows"]}, report["coverage"]
    nothing = {"value": 0, "low": 0, "high": 0}
    for site in SITES:
        row, mine = said.get(site, {}), truth[site]
        faults, time = row.get("faults", nothing), row.get("time_ns", nothing)
        yield [number, program, threads, user or "root", arm, site, mine["faults"], mine["p50_ns"], mine["mean_ns"],
               *(round(figure[key], 1) for figure in (faults, time) for key in ("value", "low", "high")),
               coverage.get("timed", 0), coverage.get("lost", 0)]


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    plain = {}
    for row in rows:
        if row["arm"] == "plain":
            plain[row["round"], row["program"], row["threads"], row["user"], row["site"]] = float(row["own_mean_ns"])
    print(f"{'arm':8} {'site':18} {'n':>4} {'counts':>22} {'exact':>6} {'held':>6} {'time per fault / plain':>24} {'held':>6}")
    for arm in ("all", "default"):
        for site in SITES:
            mine = [row for row in rows if row["arm"] == arm and row["site"] == site and int(row["own_faults"]) > 0]
            counts, times, exact, count_held, time_held, timed = [], [], 0, 0, 0, 0
            for row in mine:
                own_faults, faults = int(row["own_faults"]), float(row["faults"])
                counts.append(faults / own_faults)
                exact += abs(faults - own_faults) < 0.5
                count_held += float(row["faults_low"]) - 0.5 <= own_faults <= float(row["faults_high"]) + 0.5
                key = lambda number: (str(number), row["program"], row["threads"], row["user"], row["site"])
                near = [plain[key(number)] for number in (int(row["round"]), int(row["round"]) + 1) if plain.get(key(number), 0) > 0]
                if near and faults > 0:
                    timed += 1
                    truth = statistics.mean(near)
                    times.append(float(row["time_ns"]) / faults / truth)
                    time_held += float(row["time_low_ns"]) <= truth * own_faults <= float(row["time_high_ns"])
            if counts and times:
                print(f"{arm:8} {site:18} {len(mine):4} {text(interval(counts)):>22} {exact:3}/{len(mine)} {count_held:3}/{len(mine)} "
                      f"{text(interval(times)):>24} {time_held:3}/{timed}")


def build(args):
    """Both builds of the program: with frame pointers and without."""
    source = os.path.join(os.path.dirname(os.path.realpath(__file__)), "programs", "sites.c")
    for name, flag in (("sites-fp", "-fno-omit-frame-pointer"), ("sites-nofp", "-fomit-frame-pointer")):
        subprocess.run(["cc", "-O2", "-g", flag, "-pthread", "-o", f"{args.built}/{name}", source], check=True)
    os.chmod(args.built, 0o755)


def more(parser):
    parser.add_argument("--ms", type=int, default=1000, help="length of a run [%(default)s]")
    parser.add_argument("--threads", default="1,2,4,8", help="numbers of threads [%(default)s]")
    parser.add_argument("--users", default="root,nobody", help="[%(default)s]")


def measure(args):
    cells = [(program, int(threads), None if user == "root" else user, arm) for program in ("sites-fp", "sites-nofp")
             for threads in args.threads.split(",") for user in args.users.split(",") for arm in ("plain", "all", "default")]
    with record.Record(args, FIELDS) as table, tempfile.TemporaryDirectory() as args.built:
        build(args)
        for number, order in rounds(args.rounds, cells, name=args.name):
            for program, threads, user, arm in order:
                with tempfile.TemporaryDirectory() as folder:
                    os.chmod(folder, 0o777)
                    for row in rows(args, number, program, threads, user, arm, folder):
                        table.row(*row)
    table.summarize(summary)


if __name__ == "__main__":
    record.script(__doc__, "sites", 20, measure, summary, more)
