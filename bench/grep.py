#!/usr/bin/env python3
"""Compares `faultless grep` with qgrep, csearch, ripgrep, ugrep, git grep and GNU grep on one tree.

    bench/grep.py --out record/grep/DATE-HOST --tree linux-source-6.1
    bench/grep.py --out record/grep/DATE-HOST --tree linux-source-6.1 --name \\
        builds --builds
    bench/grep.py --out record/grep/DATE-HOST --tree TREE --name threads --scaling

Programs on the PATH take part; install faultless as a copy (METHODOLOGY.md says why). Missing databases are built. Each
cell runs twice: through a shell for faults and memory, then directly for the times, which a shell would double.
"""
import contextlib, os, shlex, shutil, subprocess, sys, time

from harness import record
from harness.figures import Arms, cpu_s, faults, interval, median, peak_mib, wall_s
from harness.limits import Limits
from harness.process import run, timed
from harness.rounds import rounds

# Name -> pattern, whether to ignore case, limits: ms on two threads, and times as fast as qgrep.
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
# Minutes long.
HOPELESS = {("heavy", "ugrep")}
# Work -> limits: seconds, CPU seconds, MB written.
WORK = {"build": (7, 12, 300), "no-op": (0.25, None, None), "one": (0.2, None, 1), "hundred": (0.5, None, None)}
# With these numbers of threads `--scaling` searches.
THREADS = (1, 2, 4, 8, 16)
FIELDS = ["query", "round", "order", "arm", "wall_s", "user_s", "sys_s", "minflt", "majflt", "maxrss_kib", "status", "lines"]


def verb(args, name):
    """`faultless NAME`, or the program of that name beside a `faultless-grep`."""
    folder, program = os.path.split(args.faultless)
    return f"{folder}/faultless-{name}" if program == "faultless-grep" else f"{args.faultless} {name}"


def commands(args, pattern, ignore_case, flags="", mode="-n"):
    """Arm -> command that prints path, number and line of every match; with mode -c or -l counts or paths.

    `flags` are flags that all programs share, `-w` for example; qgrep and csearch know none.
    """
    quoted, i = shlex.quote(pattern), "".join(f"{flag} " for flag in ("-i" if ignore_case else "", flags) if flag)
    found = {"faultless": f"{verb(args, 'grep')} -j2 {mode}H {i}-e {quoted}"}
    if shutil.which("qgrep") and not flags and mode == "-n":
        found["qgrep"] = f"qgrep search tree {i.strip(' -')} {quoted}".replace("  ", " ")
    if shutil.which("csearch") and not flags:
        found["csearch"] = f"csearch {mode} {i}-- {quoted}"
    for rg in [name for name in ("rg", "rg15") if shutil.which(name)]:
        found[rg] = f"{rg} -j2 {mode}H --no-heading {i}-e {quoted} ."
    if shutil.which("ugrep"):
        found["ugrep"] = f"ugrep -J2 -rI{mode.strip('-')} {'-m1, ' if mode == '-c' else ''}{i}-e {quoted} ."
    if shutil.which("git") and "-U" not in flags:
        # Not --exclude-standard: without a repository, a root's .gitignore that ignores `.*` ignores the whole tree.
        index, rest = ("", "") if os.path.isdir(f"{args.tree}/.git") else ("--no-index ", " -- . ':!.faultless'")
        found["git"] = f"git grep {index}-I {mode} {i}-E -e {quoted}{rest}"
    found["grep"] = f"grep --exclude-dir=.faultless -r {mode} {i}-E -e {quoted} ."
    chosen = args.arms.split(",") if args.arms else list(found)
    return {arm: command for arm, command in found.items() if arm in chosen}


def databases(args):
    """Builds the missing databases."""
    os.environ["QGREP_HOME"] = f"{args.work}/qgrep"
    os.environ["CSEARCHINDEX"] = f"{args.work}/csearchindex"
    os.environ["LC_ALL"] = "C"
    os.makedirs(args.work, exist_ok=True)
    os.chdir(args.tree)
    if not os.path.isdir(f"{args.tree}/.faultless"):
        subprocess.run([*verb(args, "index").split(), "init", args.tree], check=True, stdout=sys.stderr)
    if shutil.which("qgrep") and not os.path.isdir(os.environ["QGREP_HOME"]):
        os.makedirs(os.environ["QGREP_HOME"] + "/.qgrep")
        with open(os.environ["QGREP_HOME"] + "/.qgrep/tree.cfg", "w") as file:
            file.write(f"path {args.tree}\nexclude (^|/)\\.\n")
        subprocess.run(["qgrep", "build", "tree"], check=True, stdout=subprocess.DEVNULL)
    if shutil.which("cindex") and not os.path.exists(os.environ["CSEARCHINDEX"]):
        subprocess.run(["cindex", args.tree], check=True, stderr=subprocess.DEVNULL)


def measure(args):
    cells = [(query, arm, command) for query, (pattern, ignore, *_) in QUERIES.items()
             for arm, command in commands(args, pattern, ignore).items() if (query, arm) not in HOPELESS]
    scan = commands(args, SCAN[0], SCAN[1])
    cells += [("scan", arm, command.replace(" -j2", " --brute-force -j2", 1) if arm == "faultless" else command)
              for arm, command in scan.items() if arm in ("faultless", "qgrep", "rg", "rg15", "ugrep")]
    cells += [("start", "true", "true"), ("start", "faultless", f"{args.faultless} --version")]
    with record.Record(args, FIELDS, {f"{query} {arm}": command for query, arm, command in cells}) as table:
        for number, order in rounds(args.rounds, cells, warmup=1, name=args.name):
            for place, (query, arm, command) in enumerate(order):
                # The first run gives faults and resident memory, and warms the cache for the second.
                usage, _ = run(command)
                times, status, out = timed(command)
                if number >= 0:
                    table.row(query, number, place, arm, *times[:3], *usage[3:6], status, out.count(b"\n"))
    table.summarize(summary)


def measure_scaling(args):
    """By the number of threads: queries beside ripgrep, and all chunks with each source of memory."""
    cells = []
    for threads in THREADS:
        ours = f"{verb(args, 'grep')} -j{threads} -nH"
        for query in ("int", "classes", "optional"):
            pattern = shlex.quote(QUERIES[query][0])
            cells.append((query, threads, "faultless", f"{ours} {pattern}"))
            if shutil.which("rg"):
                cells.append((query, threads, "rg", f"rg -j{threads} -nH --no-heading --no-ignore {pattern} ."))
        for memory in ("pool", "malloc", "mmap", "populate", "thp"):
            cells.append(("scan", threads, memory, f"{ours} --brute-force --memory={memory} {shlex.quote(SCAN[0])}"))
    fields = ["query", "threads", "round", "arm", "wall_s", "user_s", "sys_s", "minflt", "maxrss_kib", "status"]
    with record.Record(args, fields, {f"{query} {arm} {threads}": command for query, threads, arm, command in cells}) as table:
        for number, order in rounds(args.rounds, cells, warmup=1, name=args.name):
            for query, threads, arm, command in order:
                usage, _ = run(command)
                times, status, _ = timed(command)
                if number >= 0:
                    table.row(query, threads, number, arm, *times[:3], usage[3], usage[5], status)
    table.summarize(summary_scaling)


def summary_scaling(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    print(f"{'query':10} {'arm':10} {'threads':>7} {'n':>3} {'wall ms':>9} {'CPU ms':>9} {'faults':>8}")
    for query, arm in sorted({(row["query"], row["arm"]) for row in rows}):
        for threads in sorted({int(row["threads"]) for row in rows}):
            some = Arms([row for row in rows if (row["query"], row["threads"]) == (query, str(threads))])
            if arm in some:
                print(f"{query:10} {arm:10} {threads:7} {len(some.values(arm, wall_s)):3} {1e3 * some.median(arm, wall_s):9.2f} "
                      f"{1e3 * some.median(arm, cpu_s):9.2f} {some.median(arm, faults):8.0f}")


def measure_builds(args):
    """Builds by each program, and updates of ours."""
    ours, index = f"{args.tree}/.faultless", verb(args, "index")
    builds = {"faultless": (f"{index} init -j2 .", lambda: shutil.rmtree(ours, ignore_errors=True))}
    if shutil.which("qgrep"):
        builds["qgrep"] = ("qgrep build tree", lambda: os.remove(os.environ["QGREP_HOME"] + "/.qgrep/tree.qgd"))
    if shutil.which("cindex"):
        builds["cindex"] = (f"cindex -reset {shlex.quote(args.tree)}", lambda: None)
    found = sorted(os.path.join(folder, name) for folder, _, names in os.walk(f"{args.tree}/drivers/net") for name in names)
    files = found[:: len(found) // 100][:100]
    with record.Record(args, ["work", "round", "arm", "wall_s", "user_s", "sys_s", "written_mb", "status"]) as table:
        for number, order in rounds(args.rounds, builds, warmup=1, name=args.name):
            rows = []
            for arm in order:
                command, before = builds[arm]
                before()
                times, status, _ = timed(command)
                rows.append(["build", number, arm, *times, status])
            for name, some in (("no-op", []), ("one", files[:1]), ("hundred", files)):
                with changed(some):
                    times, status, _ = timed(f"{index} update -j2")
                    rows.append([name, number, "faultless", *times, status])
                time.sleep(0.1)
                timed(f"{index} update -j2")
            for row in rows if number >= 0 else ():
                table.row(*row)
    table.summarize(summary_builds)


@contextlib.contextmanager
def changed(files):
    """These files with one more line; put back at the end."""
    texts = {}
    for name in files:
        with open(name, "rb") as file:
            texts[name] = file.read()
        with open(name, "a") as file:
            file.write(f"{time.time()}\n")
    # An update trusts no time stamp as fresh as its own walk, and would read the file again.
    time.sleep(0.1)
    try:
        yield
    finally:
        for name, text in texts.items():
            with open(name, "wb") as file:
                file.write(text)


def summary_builds(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    print(f"{'work':8} {'arm':10} {'n':>3} {'wall s':>8} {'min':>8} {'CPU s':>8} {'MB written':>10}")
    found = Limits()
    for name, limits in WORK.items():
        work = Arms([row for row in rows if row["work"] == name])
        for arm in work.names:
            columns = {"s": wall_s, "CPU s": cpu_s, "MB written": lambda row: float(row["written_mb"])}
            values = {unit: work.values(arm, get) for unit, get in columns.items()}
            middle = {unit: median(column) for unit, column in values.items()}
            print(f"{name:8} {arm:10} {len(values['s']):3} {middle['s']:8.3f} {min(values['s']):8.3f} {middle['CPU s']:8.2f} {middle['MB written']:10.3f}")
            for (unit, column), limit in zip(values.items(), limits):
                if arm == "faultless" and limit:
                    found.at_most(f"{name}: {unit}", interval(column), limit)
    found.print()


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    if "work" in rows[0]:
        return summary_builds(paths)
    if "threads" in rows[0]:
        return summary_scaling(paths)
    if "query" not in rows[0]:
        record.fail(f"{paths[0]}: not a table of grep.py")
    lines = lambda row: int(row["lines"])
    start = median([wall_s(row) for row in rows if (row["query"], row["arm"]) == ("start", "true")])
    print(f"A process that does nothing takes {1e3 * start:.2f} ms here, which is in all figures.")
    print(f"{'query':10} {'arm':10} {'n':>3} {'wall ms':>9} {'min':>9} {'CPU ms':>9} {'faults':>8} {'RSS MiB':>8} {'lines':>9} {'times ours':>10}")
    found, other = Limits(), []
    for query in [*QUERIES, "scan"]:
        cell = Arms([row for row in rows if row["query"] == query])
        if "faultless" not in cell:
            continue
        limit, times = (QUERIES.get(query) or SCAN)[2:]
        ours = cell.median("faultless", wall_s)
        found.at_most(f"{query}: ms", interval([1e3 * value for value in cell.values("faultless", wall_s)]), limit)
        for arm in cell.names:
            own, values = cell.median(arm, wall_s), cell.values(arm, wall_s)
            print(f"{query:10} {arm:10} {len(values):3} {1e3 * own:9.2f} {1e3 * min(values):9.2f} {1e3 * cell.median(arm, cpu_s):9.2f} "
                  f"{cell.median(arm, faults):8.0f} {cell.median(arm, peak_mib):8.1f} {cell.median(arm, lines):9.0f} {own / ours:10.2f}")
            if abs(cell.median(arm, lines) - cell.median("faultless", lines)) > 0.002 * cell.median("faultless", lines):
                other.append(f"{query}: {arm} found another number of lines")
            if arm == "qgrep":
                found.at_least(f"{query}: wall time, {arm} / faultless", cell.ratio(arm, "faultless", wall_s), times)
            elif arm != "faultless" and query != "scan":
                found.at_least(f"{query}: wall time, {arm} / faultless", cell.ratio(arm, "faultless", wall_s), 1)
    found.print()
    print("\n".join(other))


def more(parser):
    parser.add_argument("--tree", metavar="DIR", help="folder to search; the limits are for linux-source-6.1")
    parser.add_argument("--work", default="/tmp/faultless-grep-record", metavar="DIR", help="databases of others [%(default)s]")
    parser.add_argument("--builds", action="store_true", help="measure builds and updates; changes files of the tree, and back")
    parser.add_argument("--scaling", action="store_true", help="measure with 1 to 16 threads, and each source of memory")
    parser.add_argument("--arms", help="only these, separated by commas")


def start(args):
    if not args.tree:
        record.fail("name the folder to search with --tree")
    args.tree = os.path.realpath(args.tree)
    databases(args)
    (measure_builds if args.builds else measure_scaling if args.scaling else measure)(args)


if __name__ == "__main__":
    record.script(__doc__, "grep", 9, start, summary, more)
