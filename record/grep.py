#!/usr/bin/env python3
"""`faultless grep` beside other search programs, query by query, in shuffled interleaved rounds: see record/README.md.

Builds the databases that are missing, runs every query with every program that is there, and leaves OUT/NAME.csv. Prints the table and
whether it shows what it must: wall times, ratios, and that all found the same number of lines.
"""
import argparse, csv, os, random, shlex, shutil, subprocess, sys

from paired import median, run

# Name -> pattern, whether case matters not, most ms on two threads, least times as fast as qgrep.
QUERIES = {
    "rare": ("foobar", False, 4, 6),
    "nomatch": ("nosuchthinganywhere", False, 2, 6),
    "optional": ("fooo?bar", False, 5, 60),
    "rare-i": ("foobar", True, 5, 6),
    "int": ("int", False, 500, 1.7),
    "heavy": (r"\w+_lock\(.*irq", False, 170, 4),
    "classes": ("[a-z]+_[a-z]+_[0-9]+x[0-9]+", False, 400, 2.5),
}
SCAN = ("fooo?bar", False, 200, 1.7)
FIELDS = ["query", "round", "order", "arm", "wall_s", "user_s", "sys_s", "minflt", "majflt", "maxrss_kib", "status", "lines"]


def commands(args, pattern, ignore_case):
    """Arm -> command that prints path, number and line of every match."""
    quoted, i = shlex.quote(pattern), "-i " if ignore_case else ""
    tree = shlex.quote(args.tree)
    found = {"faultless": f"{args.faultless} grep -j2 -nH {i}{quoted}"}
    if shutil.which("qgrep"):
        found["qgrep"] = f"qgrep search tree {i.strip(' -')} {quoted}".replace("  ", " ")
    if shutil.which("csearch"):
        found["csearch"] = f"csearch -n {i}{quoted}"
    for rg in [name for name in ("rg", "rg15") if shutil.which(name)]:
        found[rg] = f"{rg} -j2 -nH --no-heading {i}{quoted} ."
    if shutil.which("ugrep"):
        found["ugrep"] = f"ugrep -J2 -rn {i}{quoted} ."
    if shutil.which("git") and os.path.isdir(f"{args.tree}/.git"):
        found["git"] = f"git grep -n {i}-E {quoted}"
    found["grep"] = f"grep -rn {i}-E {quoted} ."
    chosen = args.arms.split(",") if args.arms else list(found)
    return {arm: f"env -C {tree} LC_ALL=C {command}" for arm, command in found.items() if arm in chosen}


def databases(args):
    """Makes those that are missing."""
    os.environ["QGREP_HOME"] = f"{args.work}/qgrep"
    os.environ["CSEARCHINDEX"] = f"{args.work}/csearchindex"
    os.makedirs(args.work, exist_ok=True)
    if not os.path.isdir(f"{args.tree}/.faultless"):
        subprocess.run([args.faultless, "grep", "init", args.tree], check=True, stdout=sys.stderr)
    if shutil.which("qgrep") and not os.path.isdir(os.environ["QGREP_HOME"]):
        os.makedirs(os.environ["QGREP_HOME"])
        with open(os.environ["QGREP_HOME"] + "/tree.cfg", "w") as file:
            file.write(f"path {args.tree}\nexclude /\\.\n")
        subprocess.run(["qgrep", "build", "tree"], check=True, stdout=subprocess.DEVNULL)
    if shutil.which("cindex") and not os.path.exists(os.environ["CSEARCHINDEX"]):
        subprocess.run(["cindex", args.tree], check=True, stderr=subprocess.DEVNULL)


def measure(args, path):
    cells = [(query, arm, command) for query, (pattern, ignore, *_) in QUERIES.items()
             for arm, command in commands(args, pattern, ignore).items()]
    scan = commands(args, SCAN[0], SCAN[1])
    cells += [("scan", arm, command.replace("grep -j2", "grep --brute-force -j2") if arm == "faultless" else command)
              for arm, command in scan.items() if arm in ("faultless", "qgrep", "rg", "rg15", "ugrep")]
    cells += [("start", "true", "true"), ("start", "faultless", f"{args.faultless} --version")]
    with open(path + ".new", "w", newline="") as file:
        for query, arm, command in cells:
            file.write(f"# {query} {arm}: {command}\n")
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for number in range(-1, args.rounds):
            order = list(cells)
            random.shuffle(order)
            for place, (query, arm, command) in enumerate(order):
                # As root a slow arm may leave others without their warm cache: each is run twice, and the second time counts.
                result, text = run(command)
                result, text = run(command)
                if number >= 0:
                    rounded = [round(x, 6) if isinstance(x, float) else x for x in result[:-1]]
                    writer.writerow([query, number, place, arm] + rounded + [text.count(b"\n")])
            print(f"\r{args.name}: round {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    os.rename(path + ".new", path)


def report(path):
    """The table, and what of it is not as it must be."""
    with open(path) as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    pick = lambda query, arm, get: [get(row) for row in rows if row["query"] == query and row["arm"] == arm]
    wall = lambda row: float(row["wall_s"]) * 1e3
    cpu = lambda row: (float(row["user_s"]) + float(row["sys_s"])) * 1e3
    start = median(pick("start", "true", wall))
    print(f"A process that does nothing takes {start:.2f} ms here; that is taken off below.")
    print(f"{'query':10} {'arm':10} {'n':>3} {'wall ms':>9} {'min':>9} {'CPU ms':>9} {'faults':>8} {'RSS MiB':>8} {'lines':>9} {'times ours':>10}")
    missed = []
    for query in list(QUERIES) + ["scan"]:
        ours = median(pick(query, "faultless", wall)) - start
        limit, ratio = (QUERIES.get(query) or SCAN)[2:]
        for arm in dict.fromkeys(row["arm"] for row in rows if row["query"] == query):
            values = pick(query, arm, wall)
            own = median(values) - start
            print(f"{query:10} {arm:10} {len(values):3} {own:9.2f} {min(values) - start:9.2f} {median(pick(query, arm, cpu)):9.2f} "
                  f"{median(pick(query, arm, lambda r: int(r['minflt']))):8.0f} {median(pick(query, arm, lambda r: int(r['maxrss_kib']))) / 1024:8.1f} "
                  f"{median(pick(query, arm, lambda r: int(r['lines']))):9.0f} {own / ours:10.2f}")
            if arm == "qgrep" and own / ours < ratio:
                missed.append(f"{query}: {own / ours:.1f} times as fast as qgrep, not {ratio}")
            if arm not in ("faultless", "qgrep") and query != "scan" and own < ours:
                missed.append(f"{query}: {arm} is faster, {own:.2f} ms")
        if ours > limit:
            missed.append(f"{query}: {ours:.2f} ms, not {limit}")
    print("\n".join(missed) if missed else "Everything is as it must be.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder of the record")
    parser.add_argument("--name", default="grep")
    parser.add_argument("--faultless", default="faultless")
    parser.add_argument("--tree", required=True, help="folder to search; linux-source-6.1 for the limits to mean something")
    parser.add_argument("--work", default="/tmp/faultless-grep-record", help="where others' databases lie")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--arms", help="only these, as a,b,c")
    parser.add_argument("--report", action="store_true", help="only print the table of what is recorded")
    args = parser.parse_args()
    path = os.path.join(args.out, args.name + ".csv")
    if not args.report:
        if os.path.exists(path):
            sys.exit(f"{path} exists: records are never overwritten")
        args.tree = os.path.realpath(args.tree)
        os.makedirs(args.out, exist_ok=True)
        databases(args)
        measure(args, path)
    report(path)


if __name__ == "__main__":
    main()
