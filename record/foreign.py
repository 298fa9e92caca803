"""What is compared with programs that are not ours, and why a figure may differ. Used by crosschecks.py; no program of its own.

A job runs one command or several and tells figures, by (check, side). A check compares the two sides of one figure; a figure without
a check is evidence for a reason. A reason is told only where a check fails, and only from figures of the same record.
"""
import json, mmap, re
from typing import Callable, NamedTuple

GIB = 1 << 30
# What page_fault1 maps.
WIS_MIB = 128
# Seconds that page_fault1 measures, after 6 of its own to warm up.
WIS_S = 2
# Cells of ours for each sample: one takes 40 ms only.
CELLS = 5
COPY_MIB = 256
FILE_MIB = 64
# Two lengths of the same work: in the difference of their counts a program's start and end are not contained.
STRESS_OPS = (2000, 22000)
TOUCH_MIB = (16, 80)
# Rows of `stat` that no event counts, and so no counter of others: they are wait4's.
COPIES = ("default", "x86-64-unrolled", "x86-64-movsq", "x86-64-movsb")
SETS = ("default", "x86-64-unrolled", "x86-64-stosq", "x86-64-stosb")
NOT_COUNTED = ("before_exec", "populate", "kernel_or_populate")


class Failed(Exception):
    """A program did not do what it should; the text says what."""


class Job(NamedTuple):
    # Programs that must be on the PATH.
    needs: tuple
    # Given a function that runs a command and gives its output: figures by (check, side).
    take: Callable


class Check(NamedTuple):
    unit: str
    # The interval of the ratio may lie so far from 1.
    tolerance: float
    # Given a function that gives the median of a figure: why the sides differ.
    reason: Callable


def find(pattern, text):
    found = re.search(pattern, text)
    if not found:
        raise Failed(f"printed no {pattern!r}")
    return float(found[1])


def cells(text):
    """Samples of `lab cell`: values by (phase, quantity)."""
    found = []
    for line in text.splitlines():
        if not line.startswith('{"values"'):
            continue
        sample = json.loads(line)
        if sample["refused"] or sample["violations"]:
            raise Failed(sample["refused"] or "; ".join(sample["violations"]))
        found.append({(value["phase"], value["quantity"]): value["value"] for value in sample["values"]})
    if not found:
        raise Failed("printed no sample")
    return found


def mean(samples, *phases):
    """Mean elapsed ns of these phases together."""
    return sum(sample[phase, "wall_ns"] for sample in samples for phase in phases) / len(samples)


def repeated(cell, beside=1):
    """The words for a cell of ours, some times, in so many processes at once."""
    loop = f"for i in $(seq {CELLS}); do faultless lab cell {cell} || exit; done"
    return "sh -c '" + " & ".join([loop] * beside) + " & wait'"


def stat(run, command, options=""):
    """What `stat` says of a command, and what that printed."""
    text = run(f"faultless stat {options} --json -o stat.json -- {command}")
    with open("stat.json") as file:
        return json.load(file), text


def counted(report):
    """Faults that events counted."""
    return sum(row["faults"] for row in report["rows"] if row["kind"] not in NOT_COUNTED)


def perf(run, command):
    """Page faults that perf counted, and what the command printed."""
    text = run(f"perf stat -x, -e page-faults -o perf.csv -- {command}")
    with open("perf.csv") as file:
        return find(r"(?m)^(\d+),,page-faults", file.read()), text


def will_it_scale(kind, tasks):
    name = f"page_fault1_{kind}-{tasks}"

    def theirs(run):
        per_s = find(r"average:(\d+)", run(f"page_fault1_{kind} -n -t {tasks} -s {WIS_S}"))
        return {(name, "theirs"): tasks * 1e6 / per_s}

    def ours(run):
        threads, beside = (tasks, 1) if kind == "threads" else (1, tasks)
        samples = cells(run(repeated(f"fault-rate arm=kernel mib={WIS_MIB * threads} threads={threads} lines=1", beside)))
        pages = samples[0]["timed", "pages"] / threads
        return {(name, "ours"): mean(samples, "timed", "free") / pages / 1e3, (f"{name} unmap", "ours"): mean(samples, "free") / pages / 1e3}

    return {f"{name} theirs": Job((f"page_fault1_{kind}",), theirs), f"{name} ours": Job((), ours)}


STRESS = "stress-ng --temp-path . -v --metrics --fault 1 --fault-ops"


def stress_own(text):
    """Minor and major faults of the worker, as it has them from getrusage."""
    return find(r"page faults: minor: (\d+)", text) + find(r"page faults: minor: \d+, major: (\d+)", text)


def stress_under_stat(run):
    (few, few_text), (many, many_text) = (stat(run, f"{STRESS} {ops} 2>&1") for ops in STRESS_OPS)
    shared = next(row for row in many["rows"] if row["kind"] == "shared")
    return {("stress-ng getrusage", "theirs"): stress_own(many_text) - stress_own(few_text),
            ("stress-ng getrusage", "ours"): counted(many) - counted(few),
            ("perf stat stress-ng", "ours"): counted(many) - counted(few),
            ("stress-ng ns per fault", "ours"): shared["seconds"] * 1e9 / shared["faults"]}


def stress_under_perf(run):
    (few, _), (many, _) = (perf(run, f"{STRESS} {ops} 2>&1") for ops in STRESS_OPS)
    return {("perf stat stress-ng", "theirs"): many - few}


def lab_under_perf(run):
    (few, few_text), (many, many_text) = (perf(run, f"faultless lab cell touch access=write mib={mib} threads=1 lock=no mappers=0 flush=no")
                                          for mib in TOUCH_MIB)
    own = [cells(text)[0]["first", "minor_faults"] for text in (few_text, many_text)]
    return {("perf stat lab cell", "theirs"): many - few, ("perf stat lab cell", "ours"): own[1] - own[0]}


def stress_alone(run):
    """What one of its page faults takes by stress-ng's clock."""
    text = run(f"{STRESS} {STRESS_OPS[1]} 2>&1")
    return {("stress-ng ns per fault", "theirs"): find(r"([\d.]+) nanosecs per page fault", text),
            ("stress-ng faults per turn", "theirs"): stress_own(text) / STRESS_OPS[1]}


PROGRAMS = {"chunk-pipeline": "faultless workload --quiet chunk-pipeline",
            "python3": "python3 -I -c 'print(sum(len(str(i)) for i in list(range(300000))))'",
            "gcc": "gcc -O1 -c -o sum.o sum.c"}


def counts(name):
    check = f"perf stat {name}"
    return {f"{check} theirs": Job(("perf", PROGRAMS[name].split()[0]), lambda run: {(check, "theirs"): perf(run, PROGRAMS[name])[0]}),
            f"{check} ours": Job((PROGRAMS[name].split()[0],), lambda run: {(check, "ours"): counted(stat(run, PROGRAMS[name])[0])})}


def lat_pagefault(run):
    return {("lat_pagefault", "theirs"): find(r"Pagefaults on .*: ([\d.]+) microseconds", run("lat_pagefault datafile 2>&1"))}


def lat_under_stat(run):
    """Where its time goes, by samples of the kernel's stacks: us per page that was mapped, if all faults are like those of `filemap`."""
    report, _ = stat(run, "lat_pagefault datafile 2>&1", "--sources counters,kernel")
    faults = counted(report)
    return {("lat_pagefault fault path", "ours"): report["kernel"]["fault_seconds"]["value"] * 1e6 / faults,
            ("lat_pagefault unmap", "ours"): report["kernel"]["release_seconds"]["value"] * 1e6 / faults}


def file_faults(run):
    cell = f"filemap how=fault cache=warm mib={FILE_MIB} threads=1"
    samples = cells(run("env FAULTLESS_LAB_DATAFILE=datafile " + repeated(cell)))
    pages = (FILE_MIB << 20) / mmap.PAGESIZE
    # Both phases read all of it; only the first faults.
    return {("lat_pagefault", "ours"): (mean(samples, "first") - mean(samples, "second")) / pages / 1e3,
            ("pages per fault", "ours"): pages / samples[0]["first", "minor_faults"]}


def bench(kind, function):
    def take(run):
        # Its GB are GiB.
        per_s = find(r"([\d.]+) GB/sec", run(f"perf bench mem {kind} -s {COPY_MIB}MB -f {function}")) * (1 << 30) / 1e9
        found = {(f"{kind} {function}", "theirs"): per_s}
        return found | {("memcpy into cold", "theirs"): per_s} if (kind, function) == ("memcpy", "default") else found
    return take


def copies(run):
    sample = cells(run(f"faultless lab cell copy kind=copy mib={COPY_MIB} threads=1"))[0]
    per_s = lambda phase: (COPY_MIB << 20) / sample[phase, "wall_ns"]
    return {(f"memcpy {function}", "ours"): per_s("warm") for function in COPIES} | {("memcpy into cold", "ours"): per_s("cold")}


def writes(run):
    sample = cells(run(f"faultless lab cell copy kind=write mib={COPY_MIB} threads=1"))[0]
    return {(f"memset {function}", "ours"): (COPY_MIB << 20) / sample["timed", "wall_ns"] for function in SETS}


JOBS = {name: job for kind in ("threads", "processes") for tasks in (1, 2) for name, job in will_it_scale(kind, tasks).items()}
JOBS |= {"stress-ng under stat": Job(("stress-ng",), stress_under_stat), "stress-ng under perf": Job(("stress-ng", "perf"), stress_under_perf),
         "stress-ng alone": Job(("stress-ng",), stress_alone), "lab cell under perf": Job(("perf",), lab_under_perf)}
JOBS |= {name: job for program in PROGRAMS for name, job in counts(program).items()}
JOBS |= {"lat_pagefault": Job(("lat_pagefault",), lat_pagefault), "lat_pagefault under stat": Job(("lat_pagefault",), lat_under_stat),
         "filemap": Job((), file_faults), "copy": Job((), copies), "write": Job((), writes)}
JOBS |= {f"perf bench {kind} {function}": Job(("perf",), bench(kind, function))
         for kind, functions in (("memcpy", COPIES), ("memset", SETS)) for function in functions}

nothing = lambda figure: "?"
# Times: 5 %. Counts: 0.5 %, since addresses are random and a program's start takes some faults more or less.
CHECKS = {f"page_fault1_{kind}-{tasks}": Check("us per page", 0.05, nothing) for kind in ("threads", "processes") for tasks in (1, 2)}
CHECKS |= {name: Check("faults", 0.005, nothing)
           for name in ("stress-ng getrusage", "perf stat stress-ng", "perf stat lab cell", *(f"perf stat {name}" for name in PROGRAMS))}
CHECKS |= {"stress-ng ns per fault": Check("ns", 0.05, nothing), "lat_pagefault": Check("us per page", 0.05, nothing)}
CHECKS |= {f"memcpy {name}": Check("GB/s", 0.05, nothing) for name in COPIES}
CHECKS |= {"memcpy into cold": Check("GB/s", 0.05, nothing)}
CHECKS |= {f"memset {name}": Check("GB/s", 0.05, nothing) for name in SETS}

SOURCE = "int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"
HOW_TO_GET = {
    "page_fault1_threads": "make antonblanchard/will-it-scale (GitHub; needs libhwloc-dev) and give --will-it-scale DIR",
    "page_fault1_processes": "make antonblanchard/will-it-scale (GitHub; needs libhwloc-dev) and give --will-it-scale DIR",
    "lat_pagefault": "make intel/lmbench (GitHub; needs libtirpc-dev, with its headers on the include path) and give --lat-pagefault PROGRAM",
    "stress-ng": "install stress-ng",
    "perf": "install linux-perf",
}


def unit(check):
    return CHECKS[check].unit if check in CHECKS else ""
