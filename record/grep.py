#!/usr/bin/env python3
"""`faultless grep` beside other search programs, query by query, in shuffled interleaved rounds: see record/README.md.

Builds the databases that are missing, runs every query with every program that is there, and leaves OUT/NAME.csv. Prints the table and
whether it shows what it must: wall times, ratios, and that all found the same number of lines.
"""
import argparse, csv, os, random, shlex, shutil, subprocess, sys, tempfile, time

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
# Minutes long, with nothing to learn from the second.
HOPELESS = {("heavy", "ugrep")}
# Builds and updates -> most seconds, CPU seconds, MB written.
WORK = {"build": (7, 12, 300), "no-op": (0.25, None, None), "one": (0.2, None, 1), "hundred": (0.5, None, None)}
FIELDS = ["query", "round", "order", "arm", "wall_s", "user_s", "sys_s", "minflt", "majflt", "maxrss_kib", "status", "lines"]


def commands(args, pattern, ignore_case):
    """Arm -> command that prints path, number and line of every match."""
    quoted, i = shlex.quote(pattern), "-i " if ignore_case else ""
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
    found["grep"] = f"grep --exclude-dir=.faultless -rn {i}-E {quoted} ."
    chosen = args.arms.split(",") if args.arms else list(found)
    return {arm: command for arm, command in found.items() if arm in chosen}


def timed(command):
    """One run without a shell before it, which would take longer than a search: wall, user, system time, written MB; status; output."""
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        words = shlex.split(command)
        null = os.open(os.devnull, os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, null, 2)]
        pid = os.posix_spawnp(words[0], words, os.environ, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        wall = time.monotonic() - begin
        os.close(null)
        out.seek(0)
        times = [wall, usage.ru_utime, usage.ru_stime, usage.ru_oublock * 512 / 1e6]
        return [round(x, 6) for x in times], os.waitstatus_to_exitcode(status), out.read()


def databases(args):
    """Makes those that are missing."""
    os.environ["QGREP_HOME"] = f"{args.work}/qgrep"
    os.environ["CSEARCHINDEX"] = f"{args.work}/csearchindex"
    os.environ["LC_ALL"] = "C"
    os.makedirs(args.work, exist_ok=True)
    os.chdir(args.tree)
    if not os.path.isdir(f"{args.tree}/.faultless"):
        subprocess.run([args.faultless, "grep", "init", args.tree], check=True, stdout=sys.stderr)
    if shutil.which("qgrep") and not os.path.isdir(os.environ["QGREP_HOME"]):
        os.makedirs(os.environ["QGREP_HOME"] + "/.qgrep")
        with open(os.environ["QGREP_HOME"] + "/.qgrep/tree.cfg", "w") as file:
            file.write(f"path {args.tree}\nexclude (^|/)\\.\n")
        subprocess.run(["qgrep", "build", "tree"], check=True, stdout=subprocess.DEVNULL)
    if shutil.which("cindex") and not os.path.exists(os.environ["CSEARCHINDEX"]):
        subprocess.run(["cindex", args.tree], check=True, stderr=subprocess.DEVNULL)


def measure(args, path):
    cells = [(query, arm, command) for query, (pattern, ignore, *_) in QUERIES.items()
             for arm, command in commands(args, pattern, ignore).items() if (query, arm) not in HOPELESS]
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
                # The first run has faults and resident memory, and leaves a warm cache to the second, which has the times.
                usage, _ = run(command)
                times, status, text = timed(command)
                if number >= 0:
                    writer.writerow([query, number, place, arm] + times[:3] + usage[3:6] + [status, text.count(b"\n")])
            print(f"\r{args.name}: round {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    os.rename(path + ".new", path)


def work(args, path):
    """Builds by each program, and updates of ours."""
    ours, grep = f"{args.tree}/.faultless", f"{args.faultless} grep"
    builds = {"faultless": (f"{grep} init -j2 .", lambda: shutil.rmtree(ours, ignore_errors=True))}
    if shutil.which("qgrep"):
        builds["qgrep"] = ("qgrep build tree", lambda: os.remove(os.environ["QGREP_HOME"] + "/.qgrep/tree.qgd"))
    if shutil.which("cindex"):
        builds["cindex"] = (f"cindex -reset {shlex.quote(args.tree)}", lambda: None)
    found = sorted(os.path.join(folder, name) for folder, _, names in os.walk(f"{args.tree}/drivers/net") for name in names)
    files = found[:: len(found) // 100][:100]

    def change(some):
        for name in some:
            with open(name, "a") as file:
                file.write(f"{time.time()}\n")

    def back(some, texts):
        for name, text in zip(some, texts):
            with open(name, "wb") as file:
                file.write(text)

    with open(path + ".new", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["work", "round", "arm", "wall_s", "user_s", "sys_s", "written_mb", "status"])
        for number in range(-1, args.rounds):
            rows = []
            for arm in random.sample(list(builds), len(builds)):
                command, before = builds[arm]
                before()
                times, status, _ = timed(command)
                rows.append(["build", number, arm, *times, status])
            for name, some in (("no-op", []), ("one", files[:1]), ("hundred", files)):
                texts = [open(file, "rb").read() for file in some]
                change(some)
                # A time that is as fresh as the walk is not trusted, and its file read again.
                time.sleep(0.1)
                times, status, _ = timed(f"{grep} update -j2")
                rows.append([name, number, "faultless", *times, status])
                back(some, texts)
                time.sleep(0.1)
                timed(f"{grep} update -j2")
            if number >= 0:
                writer.writerows(rows)
            print(f"\r{args.name}: round {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    os.rename(path + ".new", path)


def report_work(path):
    """The table of builds and updates, and what of it is not as it must be."""
    with open(path) as file:
        rows = list(csv.DictReader(file))
    print(f"{'work':8} {'arm':10} {'n':>3} {'wall s':>8} {'min':>8} {'CPU s':>8} {'MB written':>10}")
    missed = []
    for name, limits in WORK.items():
        for arm in dict.fromkeys(row["arm"] for row in rows if row["work"] == name):
            own = [row for row in rows if row["work"] == name and row["arm"] == arm]
            wall = [float(row["wall_s"]) for row in own]
            cpu = median([float(row["user_s"]) + float(row["sys_s"]) for row in own])
            written = median([float(row["written_mb"]) for row in own])
            print(f"{name:8} {arm:10} {len(own):3} {median(wall):8.3f} {min(wall):8.3f} {cpu:8.2f} {written:10.3f}")
            if arm == "faultless":
                values = zip(("s", "CPU s", "MB written"), (median(wall), cpu, written), limits)
                missed += [f"{name}: {value:.3f} {unit}, not {limit}" for unit, value, limit in values if limit and value > limit]
    print("\n".join(missed) if missed else "Everything is as it must be.")


def report(path):
    """The table, and what of it is not as it must be."""
    with open(path) as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    pick = lambda query, arm, get: [get(row) for row in rows if row["query"] == query and row["arm"] == arm]
    wall = lambda row: float(row["wall_s"]) * 1e3
    cpu = lambda row: (float(row["user_s"]) + float(row["sys_s"])) * 1e3
    start = median(pick("start", "true", wall))
    print(f"A process that does nothing takes {start:.2f} ms here, which is in all that follows.")
    print(f"{'query':10} {'arm':10} {'n':>3} {'wall ms':>9} {'min':>9} {'CPU ms':>9} {'faults':>8} {'RSS MiB':>8} {'lines':>9} {'times ours':>10}")
    missed = []
    for query in list(QUERIES) + ["scan"]:
        ours = median(pick(query, "faultless", wall))
        lines = median(pick(query, "faultless", lambda row: int(row["lines"])))
        limit, ratio = (QUERIES.get(query) or SCAN)[2:]
        for arm in dict.fromkeys(row["arm"] for row in rows if row["query"] == query):
            values = pick(query, arm, wall)
            own = median(values)
            print(f"{query:10} {arm:10} {len(values):3} {own:9.2f} {min(values):9.2f} {median(pick(query, arm, cpu)):9.2f} "
                  f"{median(pick(query, arm, lambda r: int(r['minflt']))):8.0f} {median(pick(query, arm, lambda r: int(r['maxrss_kib']))) / 1024:8.1f} "
                  f"{median(pick(query, arm, lambda r: int(r['lines']))):9.0f} {own / ours:10.2f}")
            if abs(median(pick(query, arm, lambda row: int(row["lines"]))) - lines) > 0.002 * lines:
                missed.append(f"{query}: {arm} found another number of lines")
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
    parser.add_argument("--builds", action="store_true", help="builds and updates, not searches; changes files of the tree, and back")
    parser.add_argument("--arms", help="only these, as a,b,c")
    parser.add_argument("--report", action="store_true", help="only print the table of what is recorded")
    args = parser.parse_args()
    path = os.path.join(args.out, args.name + ".csv")
    if not args.report:
        if os.path.exists(path):
            sys.exit(f"{path} exists: records are never overwritten")
        args.tree, path = os.path.realpath(args.tree), os.path.realpath(path)
        os.makedirs(args.out, exist_ok=True)
        databases(args)
        (work if args.builds else measure)(args, path)
    (report_work if args.builds else report)(path)


if __name__ == "__main__":
    main()
