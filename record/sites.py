#!/usr/bin/env python3
"""What `record` and `report` say of each site beside what the program itself counts and times there: see record/README.md.

Every round runs record/sites.c plain, recorded with --all, and recorded by default, shuffled, for each number of threads. Counts are
held against the program's own of the same run. Times per fault are held against the mean of the plain runs of the same round and the next
(recording every fault slows the program's own clock readings as well). An interval holds if the plain time lies in it.
"""
import argparse, csv, json, os, random, statistics, subprocess, sys, tempfile

from paired import interval, warm

SITES = ["first_write", "read_zero", "write_after_read", "refault", "read_file", "write_file", "shared_leaf"]
FIELDS = ["round", "program", "threads", "user", "arm", "site", "own_faults", "own_p50_ns", "own_mean_ns", "faults", "faults_low", "faults_high",
          "time_ns", "time_low_ns", "time_high_ns", "recorded", "lost"]


def own(text):
    """Faults, median and mean by function; the two callers of shared_leaf together."""
    found = json.loads(text)
    a, b = found.pop("deep_a"), found.pop("deep_b")
    both = max(a["touches"] + b["touches"], 1)
    found["shared_leaf"] = {"faults": a["faults"] + b["faults"], "touches": a["touches"] + b["touches"]}
    for key in ("p50_ns", "mean_ns"):
        found["shared_leaf"][key] = (a[key] * a["touches"] + b[key] * b["touches"]) / both
    return found


def run(words, user):
    return subprocess.run(words, capture_output=True, text=True, check=True, user=user).stdout


def rows(args, number, program, threads, user, arm, folder):
    trace = os.path.join(folder, "trace")
    command = [f"./{program}", str(threads), str(args.ms), os.path.join(folder, "file")]
    record = [args.faultless, "record", "-o", trace, *(["--all"] if arm == "all" else []), "--"]
    warm(300)
    truth = own(run(command if arm == "plain" else record + command, user))
    said, coverage = {}, {}
    if arm != "plain":
        report = json.loads(run([args.faultless, "report", "--json", "--by", "function", "--top", "1000", trace], user))
        table = next(table["sites"] for table in report["tables"] if table["sites"]["by"] == "function")
        said, coverage = {row["label"]: row for row in table["rows"]}, report["coverage"]
    nothing = {"value": 0, "low": 0, "high": 0}
    for site in SITES:
        row, mine = said.get(site, {}), truth[site]
        faults, time = row.get("faults", nothing), row.get("time_ns", nothing)
        yield [number, program, threads, user or "root", arm, site, mine["faults"], mine["p50_ns"], mine["mean_ns"],
               *(round(figure[key], 1) for figure in (faults, time) for key in ("value", "low", "high")),
               coverage.get("timed", 0), coverage.get("lost", 0)]


def summary(path):
    rows = list(csv.DictReader(open(path)))
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
                middle = "{:.3f} [{:.3f} {:.3f}]"
                print(f"{arm:8} {site:18} {len(mine):4} {middle.format(*interval(counts)):>22} {exact:3}/{len(mine)} {count_held:3}/{len(mine)} "
                      f"{middle.format(*interval(times)):>24} {time_held:3}/{timed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--faultless", default="faultless")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ms", type=int, default=500)
    parser.add_argument("--threads", default="1,2,4,8")
    parser.add_argument("--users", default="root,nobody")
    parser.add_argument("--summary", metavar="CSV")
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    args.faultless = os.path.realpath(args.faultless)
    path = os.path.join(args.out, "sites.csv")
    if os.path.exists(path):
        sys.exit(f"{path} exists: records are never overwritten")
    with open(path + ".new", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for number in range(args.rounds):
            cells = [(program, int(threads), None if user == "root" else user, arm) for program in ("sites-fp", "sites-nofp")
                     for threads in args.threads.split(",") for user in args.users.split(",") for arm in ("plain", "all", "default")]
            random.shuffle(cells)
            for program, threads, user, arm in cells:
                with tempfile.TemporaryDirectory() as folder:
                    os.chmod(folder, 0o777)
                    writer.writerows(rows(args, number, program, threads, user, arm, folder))
            print(f"\rround {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    os.rename(path + ".new", path)
    summary(path)


main()
