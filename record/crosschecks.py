#!/usr/bin/env python3
"""Our figures beside those of programs that are not ours, for the same work, in shuffled interleaved rounds: see record/README.md.

Leaves OUT/crosschecks.csv and prints the table: the ratio theirs / ours, whether it agrees, and else the reason.
"""
import argparse, csv, os, random, shutil, sys, tempfile

from foreign import CHECKS, FILE_MIB, HOW_TO_GET, JOBS, SOURCE, Failed, unit
from paired import PRCTL, interval, median, read, run, warm

FIELDS = ["round", "order", "check", "side", "value", "unit", "command"]
# Touched before each job, MiB: more than any of them needs.
WARM_MIB = 1024
PR_SET_THP_DISABLE = 41
# Fewer have no interval.
FEWEST = 3
# An interval that holds 1 and is so many times wider than the tolerance says nothing.
WIDE = 4


def fail(text):
    print(f"crosschecks.py: {text}", file=sys.stderr)
    raise SystemExit(2)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(message)


class Shell:
    """Runs the commands of one job; remembers them, and the CPU time of the last one."""

    def __init__(self):
        self.commands, self.cpu_s = [], 0

    def __call__(self, command):
        self.commands.append(command)
        # Children inherit it: base pages on both sides, whatever the machine's setting.
        PRCTL(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        row, text = run(command)
        PRCTL(PR_SET_THP_DISABLE, 0, 0, 0, 0)
        self.cpu_s = row[1] + row[2]
        if row[6]:
            raise Failed(f"`{command}` ended with status {row[6]}")
        return text.decode(errors="replace")


def missing(job):
    """Why a job can't be run here; nothing where it can."""
    return "; ".join(f"there is no {name}: {HOW_TO_GET.get(name, 'install it')}" for name in job.needs if not shutil.which(name))


def find_programs(args):
    """From now on what the user named comes first on the PATH. So a record names no folders."""
    places = [os.path.dirname(os.path.realpath(sys.executable))]
    named = {"--faultless": (args.faultless, "faultless"), "--lat-pagefault": (args.lat_pagefault, "lat_pagefault"),
             "--will-it-scale": (args.will_it_scale and os.path.join(args.will_it_scale, "page_fault1_threads"), "page_fault1_threads")}
    for option, (path, name) in named.items():
        found = path and shutil.which(path)
        if path and not (found and os.path.basename(found) == name):
            fail(f"{option}: no program {name} at {path}")
        if found:
            places.insert(0, os.path.dirname(os.path.abspath(found)))
    os.environ["PATH"] = os.pathsep.join(places + [os.environ["PATH"]])


def chosen(args):
    """The jobs that can be run, and why others can't."""
    names = args.jobs.split(",") if args.jobs else [*JOBS]
    for name in names:
        if name not in JOBS:
            fail(f"--jobs: there is no {name}; there are {', '.join(JOBS)}")
    skipped = {name: why for name in names if (why := missing(JOBS[name]))}
    return [name for name in names if name not in skipped], skipped


def take(name):
    """One run of a job: its figures, and the commands that told them; or what was wrong."""
    warm(WARM_MIB)
    shell = Shell()
    try:
        return JOBS[name].take(shell), shell.commands, None
    except (Failed, OSError, ValueError, LookupError) as error:
        return {}, shell.commands, str(error)


def measure(args, path):
    jobs, skipped = chosen(args)
    if not jobs:
        fail("nothing can be run: " + "; ".join(skipped.values()))
    os.makedirs(args.out, exist_ok=True)
    with open(path + ".new", "w", newline="") as file, tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open("sum.c", "w") as source:
            source.write(SOURCE)
        Shell()(f"faultless lab datafile --mib {FILE_MIB} datafile")
        os.sync()
        file.writelines(f"# skipped {name}: {why}\n" for name, why in skipped.items())
        table = csv.writer(file)
        table.writerow(FIELDS)
        # The first round is there to fill the page cache, and to see what works.
        for number in range(-1, args.rounds):
            random.shuffle(jobs)
            for order, name in enumerate([*jobs]):
                figures, commands, wrong = take(name)
                if wrong:
                    wrong = " ".join(wrong.split())
                    file.write(f"# {'skipped' if number < 0 else 'failed'} {name}: {wrong}\n")
                    print(f"\n{name}: {wrong}", file=sys.stderr)
                if number < 0:
                    jobs = [job for job in jobs if job != name or not wrong]
                    continue
                table.writerows([number, order, check, side, f"{value:.6g}", unit(check), " ; ".join(commands)]
                                for (check, side), value in figures.items())
                file.flush()
            print(f"\rcrosschecks: round {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        os.fsync(file.fileno())
        os.chdir(os.path.dirname(path))
    os.rename(path + ".new", path)


def summary(path):
    found = {}
    try:
        rows, _ = read(path)
        for row in rows:
            found.setdefault((row["check"], row["side"]), {})[int(row["round"])] = float(row["value"])
    except (ValueError, KeyError, TypeError):
        found.clear()
    if not found:
        fail(f"{path}: not a table of crosschecks.py's, or an empty one")
    with open(path) as file:
        left_out = [line[2:].rstrip() for line in file if line.startswith(("# skipped", "# failed"))]
    figure = lambda check, side="ours": median([*found[check, side].values()])
    print(f"{'check':28} {'unit':14} {'n':>3} {'theirs':>10} {'ours':>10} {'theirs / ours':>22}  verdict")
    reasons = []
    for name, check in CHECKS.items():
        theirs, ours = found.get((name, "theirs"), {}), found.get((name, "ours"), {})
        rounds = sorted(theirs.keys() & ours.keys())
        if not rounds:
            print(f"{name:28} not measured")
            continue
        value, low, high = interval([theirs[number] / ours[number] for number in rounds])
        verdict = judge(low, high, check.tolerance) if len(rounds) >= FEWEST else "cannot say: too few rounds"
        if verdict == "differs":
            try:
                reasons.append(f"{name}: {check.reason(figure)}")
            except KeyError as lacking:
                reasons.append(f"{name}: its reason needs {lacking}, which was not measured")
        print(f"{name:28} {check.unit:14} {len(rounds):3} {figure(name, 'theirs'):10.5g} {figure(name):10.5g} "
              f"{f'{value:.4f} [{low:.4f} {high:.4f}]':>22}  {verdict}")
    for line in reasons + left_out:
        print("\n" + line)


def judge(low, high, tolerance):
    if low <= 1 <= high:
        return "agrees" if high - low < WIDE * tolerance else "cannot say: too few rounds"
    if abs(low - 1) <= tolerance and abs(high - 1) <= tolerance:
        return f"agrees within {tolerance:.1%}"
    return "differs"


def main():
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="folder of the record")
    parser.add_argument("--faultless", default="faultless", help="the binary")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--will-it-scale", metavar="DIR", help="where page_fault1_threads and page_fault1_processes are")
    parser.add_argument("--lat-pagefault", metavar="PROGRAM", help="lmbench's")
    parser.add_argument("--jobs", help="only these, by commas")
    parser.add_argument("--summary", metavar="CSV", help="print what is recorded")
    args = parser.parse_args()
    try:
        if args.summary:
            return summary(args.summary)
        if not args.out or args.rounds < 1:
            fail("give --out DIR, and --rounds from 1 on")
        find_programs(args)
        path = os.path.join(os.path.realpath(args.out), "crosschecks.csv")
        if os.path.exists(path):
            fail(f"{path} exists: records are never overwritten")
        measure(args, path)
        summary(path)
    except OSError as error:
        fail(": ".join(filter(None, (error.filename, error.strerror))))
    except KeyboardInterrupt:
        print(f"\ninterrupted: what was measured is in {path}.new", file=sys.stderr)
        raise SystemExit(130)


if __name__ == "__main__":
    main()
