#!/usr/bin/env python3
"""Compares figures of faultless with those of other programs for the same work.

    bench/crosschecks.py --out record/crosschecks/DATE-HOST --will-it-scale \\
        BUILD/will-it-scale

A ratio is theirs / ours. It agrees if its interval lies within the check's tolerance of 1, differs if it lies wholly
beyond, and otherwise cannot say. If the sides differ, the reason is given with figures of the same record. A missing
program is named with the way to get it; the rest is measured.
"""
import os, shutil, sys, tempfile

from foreign import CHECKS, FILE_MIB, HOW_TO_GET, JOBS, SOURCE, Failed, unit
from harness import record
from harness.figures import interval, median, text
from harness.limits import CANNOT_SAY, FAILS, FEWEST, HOLDS, judge
from harness.memory import warm
from harness.process import PRCTL, run
from harness.rounds import rounds

FIELDS = ["round", "order", "check", "side", "value", "unit", "command"]
# Touched before each job, MiB: more than any job needs.
WARM_MIB = 1024
PR_SET_THP_DISABLE = 41
ANSWERS = {HOLDS: "agrees", FAILS: "differs", CANNOT_SAY: "cannot say"}


class Shell:
    """Runs the commands of a job. Keeps them, and the CPU time of the last one."""

    def __init__(self):
        self.commands, self.cpu_s = [], 0

    def __call__(self, command):
        self.commands.append(command)
        # Children inherit it: base pages on both sides, whatever the machine's setting.
        PRCTL(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        row, out = run(command)
        PRCTL(PR_SET_THP_DISABLE, 0, 0, 0, 0)
        self.cpu_s = row[1] + row[2]
        if row[6]:
            raise Failed(f"`{command}` ended with status {row[6]}")
        return out.decode(errors="replace")


def missing(job):
    """Why a job cannot run here; empty if it can."""
    return "; ".join(f"there is no {name}: {HOW_TO_GET.get(name, 'install it')}" for name in job.needs if not shutil.which(name))


def find_programs(args):
    """Puts the named programs first on the PATH, so that a record names no folders."""
    places = [os.path.dirname(os.path.realpath(sys.executable))]
    named = {"--faultless": (args.faultless, "faultless"), "--lat-pagefault": (args.lat_pagefault, "lat_pagefault"),
             "--will-it-scale": (args.will_it_scale and os.path.join(args.will_it_scale, "page_fault1_threads"), "page_fault1_threads")}
    for option, (path, name) in named.items():
        found = path and shutil.which(path)
        if path and not (found and os.path.basename(found) == name):
            record.fail(f"{option}: no program {name} at {path}")
        if found:
            places.insert(0, os.path.dirname(os.path.abspath(found)))
    os.environ["PATH"] = os.pathsep.join(places + [os.environ["PATH"]])


def chosen(args):
    """The jobs that can run, and why others cannot."""
    names = args.jobs.split(",") if args.jobs else [*JOBS]
    for name in names:
        if name not in JOBS:
            record.fail(f"--jobs: there is no {name}; there are {', '.join(JOBS)}")
    skipped = {name: why for name in names if (why := missing(JOBS[name]))}
    if len(skipped) == len(names):
        record.fail("nothing can run: " + "; ".join(skipped.values()))
    return [name for name in names if name not in skipped], skipped


def take(name):
    """One run of a job: its figures, its commands, and what went wrong."""
    warm(WARM_MIB)
    shell = Shell()
    try:
        return JOBS[name].take(shell), shell.commands, None
    except (Failed, OSError, ValueError, LookupError) as error:
        return {}, shell.commands, str(error)


def measure(args):
    find_programs(args)
    jobs, skipped = chosen(args)
    with record.Record(args, FIELDS, {f"skipped {name}": why for name, why in skipped.items()}) as table, tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open("sum.c", "w") as source:
            source.write(SOURCE)
        Shell()(f"faultless lab datafile --mib {FILE_MIB} datafile")
        os.sync()
        # The warm-up round fills the page cache and shows what works.
        for number, order in rounds(args.rounds, lambda: jobs, warmup=1, name=args.name):
            for place, name in enumerate(order):
                figures, commands, wrong = take(name)
                if wrong:
                    table.comment(f"{'skipped' if number < 0 else 'failed'} {name}: {wrong}")
                    print(f"\n{name}: {wrong}", file=sys.stderr)
                    if number < 0:
                        jobs.remove(name)
                for (check, side), value in figures.items() if number >= 0 else ():
                    table.row(number, place, check, side, value, unit(check), " ; ".join(commands))
        os.chdir("/")
    table.summarize(summary)


def summary(paths):
    found, left_out = {}, []
    for path in paths:
        rows, comments = record.read(path)
        left_out += [f"{name}: {why}" for name, why in comments.items() if name.startswith(("skipped ", "failed "))]
        if "check" not in rows[0]:
            record.fail(f"{path}: not a table of crosschecks.py")
        for row in rows:
            found.setdefault((row["check"], row["side"]), {})[int(row["round"])] = float(row["value"])

    def figure(check, side="ours"):
        return median(found[check, side].values())

    print(f"{'check':28} {'unit':14} {'n':>3} {'theirs':>10} {'ours':>10} {'theirs / ours':>24}  answer")
    reasons = []
    for name, check in CHECKS.items():
        theirs, ours = found.get((name, "theirs"), {}), found.get((name, "ours"), {})
        numbers = sorted(theirs.keys() & ours.keys())
        if not numbers:
            print(f"{name:28} not measured")
            continue
        ratio = interval([theirs[number] / ours[number] for number in numbers])
        answer = judge(*ratio[1:], 1 - check.tolerance, 1 + check.tolerance) if len(numbers) >= FEWEST else CANNOT_SAY
        if answer == FAILS:
            try:
                reasons.append(f"{name}: {check.reason(figure)}")
            except KeyError as lacking:
                reasons.append(f"{name}: its reason needs {lacking}, which was not measured")
        print(f"{name:28} {check.unit:14} {len(numbers):3} {figure(name, 'theirs'):10.5g} {figure(name):10.5g} "
              f"{text(ratio, 4):>24}  {ANSWERS[answer]} ({check.tolerance:.1%})")
    for line in reasons + left_out:
        print("\n" + line)


def more(parser):
    parser.add_argument("--will-it-scale", metavar="DIR", help="folder of page_fault1_threads and page_fault1_processes")
    parser.add_argument("--lat-pagefault", metavar="PATH", help="lmbench's program")
    parser.add_argument("--jobs", help="only these, separated by commas")


if __name__ == "__main__":
    record.script(__doc__, "crosschecks", 12, measure, summary, more)
