"""What crosschecks.py compares with other programs, and why a figure may differ.

A job runs commands and gives figures, by (check, side). A check compares the two sides of one figure. A figure without a
check is evidence for a reason. A reason is given only if a check fails, and only from figures of the same record.
"""
import json, mmap, re
from typing import Callable, NamedTuple

from harness.figures import median

# What page_fault1 maps.
WIS_MIB = 128
# Seconds that page_fault1 measures, after 6 s of warm-up: a virtual processor can be slower for its first second.
WIS_S = 2
# Our cells beside it, 80 ms each. Only the last ones count: the others warm up.
WIS_CELLS, WIS_TAKEN = 75, 25
# Our cells for each sample: one takes only 40 ms.
CELLS = 5
COPY_MIB = 256
FILE_MIB = 64
FILE_PAGES = (FILE_MIB << 20) // mmap.PAGESIZE
# Two lengths of the same work: the difference of their counts lacks the start and end of the program.
STRESS_OPS = (1000, 6000)
TOUCH_MIB = (16, 80)
COPIES = ("default", "x86-64-unrolled", "x86-64-movsq", "x86-64-movsb")
SETS = ("default", "x86-64-unrolled", "x86-64-stosq", "x86-64-stosb")
# Rows of `stat` that come from wait4: no event counts them, so no counter of other programs does.
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


def mean(samples, quantities, *phases):
    """The sum of these quantities over these phases, in us: its mean."""
    return sum(sample[phase, quantity] for sample in samples for phase in phases for quantity in quantities) / len(samples) / 1e3


WALL, CPU = ("wall_ns",), ("user_ns", "system_ns")


def repeated(*found, beside=1, times=CELLS):
    """The command that runs our cells one after another, repeatedly, in several processes at once."""
    turn = "; ".join(f"faultless lab cell {cell} || exit" for cell in found)
    return "sh -c '" + " & ".join([f"for i in $(seq {times}); do {turn}; done"] * beside) + " & wait'"


def stat(run, command, options=""):
    """The answer of `stat` about a command, and the command's output."""
    text = run(f"faultless stat {options} --json -o stat.json -- {command}")
    with open("stat.json") as file:
        return json.load(file), text


def counted(report):
    """Faults that events counted."""
    return sum(row["faults"] for row in report["rows"] if row["kind"] not in NOT_COUNTED)


def perf(run, command):
    """Page faults that perf counted, and the command's output."""
    text = run(f"perf stat -x, -e page-faults -o perf.csv -- {command}")
    with open("perf.csv") as file:
        return find(r"(?m)^(\d+),,page-faults", file.read()), text


def will_it_scale(kind, tasks):
    name = f"page_fault1_{kind}-{tasks}"

    def theirs(run):
        text = run(f"page_fault1_{kind} -n -t {tasks} -s {WIS_S}")
        pages = sum(int(total) for total in re.findall(r"total:(\d+)", text))
        return {(name, "theirs"): tasks * 1e6 / find(r"average:(\d+)", text), (f"{name} CPU", "theirs"): run.cpu_s * 1e6 / pages}

    def ours(run):
        threads, beside = (tasks, 1) if kind == "threads" else (1, tasks)
        cell = f"fault-rate arm=kernel mib={WIS_MIB * threads} threads={threads} lines=1"
        samples = cells(run(repeated(cell, beside=beside, times=WIS_CELLS)))[-WIS_TAKEN * beside:]
        pages = samples[0]["timed", "pages"]
        return {(name, "ours"): mean(samples, WALL, "timed", "free") * threads / pages,
                (f"{name} CPU", "ours"): mean(samples, CPU, "timed", "free") / pages,
                (f"{name} unmap", "ours"): mean(samples, CPU, "free") / pages}

    return {f"{name} theirs": Job((f"page_fault1_{kind}",), theirs), f"{name} ours": Job((), ours)}


STRESS = "stress-ng --temp-path . -v --metrics --fault 1 --fault-ops"


def stress_own(text):
    """Minor and major faults of the worker, from its own getrusage."""
    return find(r"page faults: minor: (\d+)", text) + find(r"page faults: minor: \d+, major: (\d+)", text)


def stress_under_stat(run):
    (few, few_text), (many, many_text) = (stat(run, f"{STRESS} {ops} 2>&1") for ops in STRESS_OPS)
    rows = {row["kind"]: row for row in many["rows"]}
    ns = lambda kind: rows[kind]["seconds"] * 1e9 / rows[kind]["faults"]
    return {("stress-ng getrusage", "theirs"): stress_own(many_text) - stress_own(few_text),
            ("stress-ng getrusage", "ours"): counted(many) - counted(few),
            ("perf stat stress-ng", "ours"): counted(many) - counted(few),
            ("stress-ng ns per fault", "ours"): (3 * ns("shared") + ns("file_read")) / 4,
            ("stress-ng write ns", "ours"): ns("shared"), ("stress-ng read ns", "ours"): ns("file_read")}


def stress_under_perf(run):
    (few, _), (many, _) = (perf(run, f"{STRESS} {ops} 2>&1") for ops in STRESS_OPS)
    return {("perf stat stress-ng", "theirs"): many - few}


def lab_under_perf(run):
    (few, few_text), (many, many_text) = (perf(run, f"faultless lab cell touch access=write mib={mib} threads=1 lock=no mappers=0 flush=no")
                                          for mib in TOUCH_MIB)
    own = [cells(text)[0]["first", "minor_faults"] for text in (few_text, many_text)]
    return {("perf stat lab cell", "theirs"): many - few, ("perf stat lab cell", "ours"): own[1] - own[0]}


def stress_alone(run):
    """The time of a page fault by stress-ng's clock."""
    text = run(f"{STRESS} {STRESS_OPS[1]} 2>&1")
    return {("stress-ng ns per fault", "theirs"): find(r"([\d.]+) nanosecs per page fault", text),
            ("stress-ng faults per turn", "theirs"): stress_own(text) / STRESS_OPS[1]}


PROGRAMS = {"calloc-full": "faultless workload --quiet calloc-full",
            "python3": "python3 -I -c 'print(sum(len(str(i)) for i in list(range(300000))))'",
            "gcc": "gcc -O1 -c -o sum.o sum.c"}


def counts(name):
    check, command = f"perf stat {name}", PROGRAMS[name]

    def theirs(run):
        # Once before: a page of a file that has left the page cache since the last round is a fault of its own.
        run(command)
        return {(check, "theirs"): perf(run, command)[0]}

    def ours(run):
        run(command)
        return {(check, "ours"): counted(stat(run, command)[0])}

    return {f"{check} theirs": Job(("perf", command.split()[0]), theirs), f"{check} ours": Job((command.split()[0],), ours)}


# The shortest measured time, us, is given, as in lmbench's own scripts. Finding it takes a minute and may end at 1 s.
LAT_PAGEFAULT = "env ENOUGH=100000 TIMING_O=0 LOOP_O=0 lat_pagefault datafile 2>&1"


def lat_pagefault(run):
    return {("lat_pagefault", "theirs"): find(r"Pagefaults on .*: ([\d.]+) microseconds", run(LAT_PAGEFAULT))}


def lat_under_stat(run):
    """The time of its faults, by samples of the kernel's stacks: us per fault."""
    report, _ = stat(run, LAT_PAGEFAULT, "--sources counters,kernel")
    return {("lat_pagefault fault", "ours"): report["kernel"]["fault_seconds"]["value"] * 1e6 / counted(report)}


def lat_traced(run):
    """The time to unmap the whole file, us per page. Half of its calls unmap untouched memory in a few us: they are left out."""
    run(f"perf trace -e munmap --duration 0.2 -o munmap.txt {LAT_PAGEFAULT}")
    with open("munmap.txt") as file:
        found = re.findall(rf"\(\s*([\d.]+) ms\): lat_pagefault.*munmap\(addr: \w+, len: {FILE_MIB << 20}\)", file.read())
    if not found:
        raise Failed("perf trace saw no munmap of the file")
    return {("lat_pagefault unmap", "theirs"): median([float(ms) for ms in found]) * 1e3 / FILE_PAGES}


def file_faults(run):
    """What the faults of a mapped file add, us per page: a first reading with faults, less one of populated pages. A second
    reading would be faster for another reason: the processor's cache has some of the data by then."""
    cell = lambda how: f"filemap how={how} cache=warm mib={FILE_MIB} threads=1"
    samples = cells(run("env FAULTLESS_LAB_DATAFILE=datafile " + repeated(cell("fault"), cell("populate"))))
    faulting, populated = samples[::2], samples[1::2]
    # Medians, since lmbench's figure is one too.
    faulting_ns, populated_ns = (median([sample["first", "wall_ns"] for sample in some]) for some in (faulting, populated))
    return {("lat_pagefault", "ours"): (faulting_ns - populated_ns) / FILE_PAGES / 1e3,
            ("filemap pages per fault", "ours"): FILE_PAGES / faulting[0]["first", "minor_faults"]}


def bench(kind, function):
    def take(run):
        per_s = find(r"(?m)^([\d.]+)\s*$", run(f"perf bench -f simple mem {kind} -s {COPY_MIB}MB -f {function}")) / 1e9
        found = {(f"{kind} {function}", "theirs"): per_s}
        return found | {("memcpy into cold", "theirs"): per_s} if (kind, function) == ("memcpy", "default") else found
    return take


def ours_in_memory(kind, words, phases, functions):
    """`lab`'s copy: GB/s by phase, and the share of the time that its thread ran."""
    def take(run):
        sample = cells(run(f"faultless lab cell copy kind={words} mib={COPY_MIB} threads=1"))[0]
        per_s = {phase: (COPY_MIB << 20) / sample[phase, "wall_ns"] for phase in phases}
        found = {(f"{kind} {function}", "ours"): per_s[phases[0]] for function in functions}
        found[f"{kind} processor", "ours"] = sample[phases[0], "own_cpu_ns"] / sample[phases[0], "wall_ns"]
        return found | {(f"{kind} into {phase}", "ours"): per_s[phase] for phase in phases[1:]}
    return take


SET = f"""import ctypes, mmap, time
block = mmap.mmap(-1, {COPY_MIB} << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.addressof(ctypes.c_char.from_buffer(block))
for byte in 1, 0, 1, 0, 1:
    begin = time.monotonic_ns()
    ctypes.memset(at, byte, {COPY_MIB} << 20)
    print(byte, ({COPY_MIB} << 20) / (time.monotonic_ns() - begin))
"""


def set_by_value(run):
    """The C library's memset with zeros, and with another byte."""
    text = run(f"python3 -I -c '{SET}'")
    best = lambda byte: max(float(per_s) for per_s in re.findall(rf"(?m)^{byte} ([\d.]+)$", text))
    return {("memset of zeros", "ours"): best(0), ("memset of ones", "ours"): best(1)}


JOBS = {name: job for kind in ("threads", "processes") for tasks in (1, 2) for name, job in will_it_scale(kind, tasks).items()}
JOBS |= {"stress-ng under stat": Job(("stress-ng",), stress_under_stat), "stress-ng under perf": Job(("stress-ng", "perf"), stress_under_perf),
         "stress-ng alone": Job(("stress-ng",), stress_alone), "lab cell under perf": Job(("perf",), lab_under_perf)}
JOBS |= {name: job for program in PROGRAMS for name, job in counts(program).items()}
JOBS |= {"lat_pagefault": Job(("lat_pagefault",), lat_pagefault), "lat_pagefault under stat": Job(("lat_pagefault",), lat_under_stat),
         "lat_pagefault traced": Job(("lat_pagefault", "perf"), lat_traced),
         "filemap": Job((), file_faults), "copy": Job((), ours_in_memory("memcpy", "copy", ("warm", "cold"), COPIES)),
         "write": Job((), ours_in_memory("memset", "write", ("timed",), SETS)), "set": Job((), set_by_value)}
JOBS |= {f"perf bench {kind} {function}": Job(("perf",), bench(kind, function))
         for kind, functions in (("memcpy", COPIES), ("memset", SETS)) for function in functions}


def work_reason(name):
    """Of two loops over the same kernel paths."""
    def reason(figure):
        theirs, ours = figure(f"{name} CPU", "theirs"), figure(f"{name} CPU")
        text = f"by CPU time {theirs:.3f} us per page beside our {ours:.3f}, {theirs / ours:.3f} times"
        if abs(theirs / ours - 1) <= TIME:
            return f"{text}: the work costs the same, one of the two waited longer for a processor"
        return f"{text}: not only waiting; {NOT_EXPLAINED}"
    return reason


def count_reason(name):
    def reason(figure):
        more = figure(name, "theirs") - figure(name)
        return f"{abs(more):.0f} faults {'more' if more > 0 else 'fewer'} by theirs: {NOT_EXPLAINED}"
    return reason


def stress_reason(figure):
    turn = figure("stress-ng faults per turn", "theirs")
    if turn < ACCESSES - 0.5:
        return f"only {turn:.1f} of the {ACCESSES} accesses of a turn fault where its file lies (nothing is paged out there), and its mean is over all that it times"
    theirs = figure("stress-ng ns per fault", "theirs")
    if theirs > figure("stress-ng ns per fault"):
        return f"its mean holds two readings of the clock at each fault: {NOT_EXPLAINED} beyond that"
    second_ns = 4 * theirs - 3 * figure("stress-ng write ns")
    return (f"of its two reads in a turn it times the second only, which finds the page; the first allocates and zeroes one. `stat` has both in one row, "
            f"{figure('stress-ng read ns'):.0f} ns in the mean; the figures are the same if the second alone takes {second_ns:.0f}")


def lat_reason(figure):
    fault = figure("lat_pagefault fault") / figure("filemap pages per fault")
    unmap = figure("lat_pagefault unmap", "theirs")
    if figure("lat_pagefault", "theirs") < figure("lat_pagefault"):
        return f"by samples of the kernel's stacks {fault:.3f} us per page are in its faults, and {unmap:.3f} in unmapping by perf trace: {NOT_EXPLAINED}"
    return (f"what it times holds the unmapping, {unmap:.3f} us per page by perf trace, and a touch of each page in random order, where `filemap` reads in "
            f"order and unmaps later. In its faults themselves are {fault:.3f} us per page, by samples of the kernel's stacks; "
            f"{figure('lat_pagefault', 'theirs') - fault - unmap:.3f} are left for the touches: misses of the cache and the TLB")


def default_reason(kind):
    def reason(figure):
        if kind == "memset" and (faster := figure("memset of zeros") / figure("memset of ones")) > 1 + TIME:
            return (f"perf writes zeros, ours another byte, so that a check can tell that it was written; the C library's memset here sets "
                    f"{figure('memset of zeros'):.1f} GB/s of zeros and {figure('memset of ones'):.1f} of ones, {faster:.2f} times")
        share = figure(f"{kind} processor")
        if share < 1 - TIME:
            return f"our thread had a processor for {share:.0%} of the time only"
        return f"our thread had a processor all the time ({share:.0%}): {NOT_EXPLAINED}"
    return reason


def routine_reason(kind, function):
    def reason(figure):
        default, other = (figure(f"{kind} {name}", "theirs") for name in ("default", function))
        return f"another routine than the C library's, which ours and perf's default are: perf has {other:.2f} GB/s for it and {default:.2f} for its default"
    return reason


def cold_reason(figure):
    more_us = mmap.PAGESIZE * (1 / figure("memcpy into cold") - 1 / figure("memcpy default")) / 1e3
    touch_us = figure("page_fault1_threads-1 CPU") - figure("page_fault1_threads-1 unmap")
    return (f"perf touches all of the destination before it times, so no fault is in its figure. Ours takes one per page: {more_us:.2f} us more for each "
            f"than into warm memory; a first touch by `fault-rate`, {touch_us:.2f}, explains {touch_us / more_us:.0%} of it")


# Equal loops differ by so much from build to build, because of the layout of code and data.
TIME = 0.05
# Accesses in a turn of stress-ng: three writes to a file's page, two reads of shared memory. It does not time the first read.
ACCESSES = 5
# Addresses are random, so a program's start takes some faults more or less.
COUNT = 0.005
NOT_EXPLAINED = "not explained by this record"
COUNTED = ("stress-ng getrusage", "perf stat stress-ng", "perf stat lab cell", *(f"perf stat {name}" for name in PROGRAMS))
CHECKS = {name: Check("us per page", TIME, work_reason(name))
          for name in (f"page_fault1_{kind}-{tasks}" for kind in ("threads", "processes") for tasks in (1, 2))}
CHECKS |= {name: Check("faults", COUNT, count_reason(name)) for name in COUNTED}
CHECKS |= {"stress-ng ns per fault": Check("ns", TIME, stress_reason), "lat_pagefault": Check("us per page", TIME, lat_reason)}
CHECKS |= {f"{kind} {name}": Check("GB/s", TIME, default_reason(kind) if name == "default" else routine_reason(kind, name))
           for kind, names in (("memcpy", COPIES), ("memset", SETS)) for name in names}
CHECKS |= {"memcpy into cold": Check("GB/s", TIME, cold_reason)}

SOURCE = "int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"
HOW_TO_GET = {
    "page_fault1_threads": "make antonblanchard/will-it-scale (GitHub; needs libhwloc-dev) and give --will-it-scale DIR",
    "page_fault1_processes": "make antonblanchard/will-it-scale (GitHub; needs libhwloc-dev) and give --will-it-scale DIR",
    "lat_pagefault": "make intel/lmbench (GitHub; needs libtirpc-dev, with its headers on the include path) and give --lat-pagefault PROGRAM",
    "stress-ng": "install stress-ng",
    "perf": "install linux-perf",
}
# Figures without a check.
EVIDENCE = {"stress-ng write ns": "ns", "stress-ng read ns": "ns",
            "stress-ng faults per turn": "faults", "lat_pagefault fault": "us per fault",
            "lat_pagefault unmap": "us per page", "filemap pages per fault": "pages", "memcpy processor": "share", "memset processor": "share",
            "memset of zeros": "GB/s", "memset of ones": "GB/s"}


def unit(check):
    if check in CHECKS:
        return CHECKS[check].unit
    # All others are page_fault1's.
    return EVIDENCE.get(check, "us per page")
