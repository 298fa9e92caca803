"""Figures of other programs for the same work: faults by `perf stat`, prices by will-it-scale and `perf bench`.

A ratio is theirs / ours. It agrees if its interval lies within the tolerance of 1, differs if it lies wholly beyond, and
otherwise cannot say.
"""
import json, os, re, shutil

from harness import record
from harness.figures import interval, median, text
from harness.limits import CANNOT_SAY, FAILS, FEWEST, HOLDS, judge
from harness.process import PRCTL, run, warm
from harness.rounds import rounds
from topics import left_out, rows_of, topic

FIELDS = ["round", "order", "check", "side", "value", "unit", "command"]
ANSWERS = {HOLDS: "agrees", FAILS: "differs", CANNOT_SAY: "cannot say"}
# Equal loops differ by so much from build to build, because of the layout of code and data; addresses are random, so a
# program's start takes some faults more or less.
TOLERANCE = {"us per page": 0.05, "GB/s": 0.05, "faults": 0.005}
PR_SET_THP_DISABLE = 41
# page_fault1 maps so much, and measures for 2 s after a warm-up; our cells beside it take 40 to 80 ms each.
WIS_MIB, WIS_CELLS = 128, 75
COPY_MIB = 256
# Rows of `stat` that come from wait4: no event counts them, so no counter of other programs does.
NOT_COUNTED = ("before_exec", "populate", "kernel_or_populate")
COUNTED = {"calloc-full": "faultless workload --quiet calloc-full",
           "python3": "python3 -I -c 'print(sum(len(str(i)) for i in list(range(300000))))'", "gcc": "gcc -O1 -c -o functions.o functions.c"}


def shell(command):
    """Runs it on base pages, whatever the machine's setting: its output."""
    PRCTL(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    row, out = run(command)
    PRCTL(PR_SET_THP_DISABLE, 0, 0, 0, 0)
    if row[6]:
        record.fail(f"`{command}` ended with status {row[6]}")
    return out.decode(errors="replace")


def number(pattern, said):
    found = re.search(pattern, said)
    return float(found[1]) if found else record.fail(f"no {pattern!r} in {said[:200]!r}")


def cells(cell, times):
    """Samples of `lab cell`: values by (phase, quantity)."""
    said = shell(f"sh -c 'for i in $(seq {times}); do faultless lab cell {cell} || exit; done'")
    return [{(value["phase"], value["quantity"]): value["value"] for value in json.loads(line)["values"]}
            for line in said.splitlines() if line.startswith('{"values"')]


def counted_by_perf(command):
    shell(f"perf stat -x, -e page-faults -o perf.csv -- {command}")
    with open("perf.csv") as file:
        return number(r"(?m)^(\d+),,page-faults", file.read())


def counted_by_stat(command):
    shell(f"faultless stat --json -o stat.json -- {command}")
    with open("stat.json") as file:
        return sum(row["faults"] for row in json.load(file)["rows"] if row["kind"] not in NOT_COUNTED)


def price_of_cells(tasks):
    samples = cells(f"fault-rate arm=kernel mib={WIS_MIB * tasks} threads={tasks} lines=1", WIS_CELLS)[WIS_CELLS // 3:]
    ns = sum(sample[phase, "wall_ns"] for sample in samples for phase in ("timed", "free")) / len(samples)
    return ns * tasks / samples[0]["timed", "pages"] / 1e3


def speed(kind):
    name, phase = {"memcpy": ("copy", "warm"), "memset": ("write", "timed")}[kind]
    return (COPY_MIB << 20) / median([sample[phase, "wall_ns"] for sample in cells(f"copy kind={name} mib={COPY_MIB} threads=1", 5)])


# Check -> its unit, the program that it needs, their figure and ours.
CHECKS = {f"page_fault1_threads-{tasks}": (
    "us per page", "page_fault1_threads",
    lambda tasks=tasks: tasks * 1e6 / number(r"average:(\d+)", shell(f"page_fault1_threads -n -t {tasks} -s 2")),
    lambda tasks=tasks: price_of_cells(tasks)) for tasks in (1, 2)}
CHECKS |= {f"perf stat {name}": ("faults", "perf", lambda command=command: counted_by_perf(command), lambda command=command: counted_by_stat(command))
           for name, command in COUNTED.items()}
CHECKS |= {f"perf bench {kind}": (
    "GB/s", "perf", lambda kind=kind: number(r"(?m)^([\d.]+)\s*$", shell(f"perf bench -f simple mem {kind} -s {COPY_MIB}MB")) / 1e9,
    lambda kind=kind: speed(kind)) for kind in ("memcpy", "memset")}


def print_crosschecks(paths):
    rows = rows_of(paths, "check")
    print(f"{'check':28} {'unit':14} {'n':>3} {'theirs':>10} {'ours':>10} {'theirs / ours':>24}  answer")
    for name in dict.fromkeys(row["check"] for row in rows):
        theirs, ours = ({int(row["round"]): float(row["value"]) for row in rows if (row["check"], row["side"]) == (name, side)} for side in ("theirs", "ours"))
        ratio = interval([theirs[number] / ours[number] for number in sorted(theirs.keys() & ours.keys())])
        unit = next(row["unit"] for row in rows if row["check"] == name)
        answer = judge(*ratio[1:], 1 - TOLERANCE[unit], 1 + TOLERANCE[unit]) if ratio.count >= FEWEST else CANNOT_SAY
        print(f"{name:28} {unit:14} {ratio.count:3} {median(theirs.values()):10.5g} {median(ours.values()):10.5g} {text(ratio, 4):>24}  {ANSWERS[answer]}")


@topic("crosschecks", print_crosschecks, rounds=12)
def take_crosschecks(to):
    """figures of other programs for the same work; will-it-scale's page_fault1_threads takes part if it is on the PATH"""
    jobs = [(name, side) for name, (_, program, *_) in CHECKS.items() for side in ("theirs", "ours") if shutil.which(program)]
    for name, (_, program, *_) in CHECKS.items():
        if (name, "ours") not in jobs:
            left_out(name, f"there is no {program}")
    os.sync()
    with to.table("crosschecks", FIELDS) as table:
        # The warm-up round fills the page cache.
        for at, order in rounds(to.rounds, jobs, warmup=1, name="crosschecks"):
            for place, (name, side) in enumerate(order):
                unit, program, theirs, ours = CHECKS[name]
                warm(1024)
                value = theirs() if side == "theirs" else ours()
                if at >= 0:
                    table.row(at, place, name, side, value, unit, program if side == "theirs" else "faultless")
