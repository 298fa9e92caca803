"""The table of what peers.py recorded, and whether it shows what it must. Used by peers.py; no program of its own.

A ratio is the median over rounds of arm / other arm, with a 95 % bootstrap interval; below 1 is faster. Time is that of the
workload's body where it tells it, so that what was made ready before does not count, else that of the process.
"""
import csv
from math import exp, log

from arms import IDLE_ONLY, is_peer
from jobs import ARRAYS
from paired import interval, median, ratio, read

# Job -> how many times faster than glibc the pool has to be.
TIMES_FASTER = {"chunk-pipeline-1": 4, "chunk-pipeline-2": 4, "temporaries": 4, "mixed-large": 3, "calloc-sparse": 3, "calloc-full": 4,
                "bursts": 14}


class Job:
    """The rows of one job: columns by arm, in the order of the rounds."""

    def __init__(self, rows):
        self.rows = sorted(rows, key=lambda row: int(row["round"]))
        self.arms = list(dict.fromkeys(row["arm"] for row in rows))

    def column(self, arm, get):
        return [get(row) for row in self.rows if row["arm"] == arm]

    def median(self, arm, get):
        return median(self.column(arm, get))

    def ratio(self, top, bottom, get):
        """Value, low, high; nothing where an arm is missing."""
        pairs = zip(self.column(top, get), self.column(bottom, get))
        ratios = [a / b for a, b in pairs if b]
        return interval(ratios) if ratios else None

    def fastest_peer(self):
        return min(filter(is_peer, self.arms), key=lambda arm: self.median(arm, time_of))


def time_of(row):
    return float(row["body_s"] or row["wall_s"])


def wall_of(row):
    return float(row["wall_s"])


def cpu_of(row):
    return float(row["user_s"]) + float(row["sys_s"])


def faults_of(row):
    return int(row["minflt"])


def rss_of(row):
    return int(row["maxrss_kib"])


def report(paths):
    jobs, memory = {}, set()
    for path in paths:
        rows, names = read(path)
        with open(path) as file:
            memory |= {line.split()[-1] for line in file if line.startswith("# memory:")}
        for row in rows:
            jobs.setdefault(row["job"], []).append(row)
    jobs = {name: Job(rows) for name, rows in jobs.items()}
    print(f"memory: {', '.join(sorted(memory))}")
    for name, job in sorted(jobs.items()):
        print_job(name, job)
    print("\nwhat the pool must show")
    for line in verdicts(jobs) if "warm" in memory else cold_verdicts(jobs):
        print(line)


def print_job(name, job):
    best = job.fastest_peer()
    same = "same" if len({(row["status"], row["output"]) for row in job.rows}) == 1 else "DIFFERENT"
    print(f"\n{name}: fastest peer {best}; output {same}")
    print(f"  {'arm':14} {'n':>3} {'time ms':>8} {'wall ms':>8} {'CPU ms':>8} {'faults':>8} {'RSS MiB':>8} {'of glibc':>8}"
          f" {'time / glibc':>22} {'time / fastest peer':>22} {'CPU / glibc':>22}")
    for arm in sorted(job.arms, key=lambda arm: job.median(arm, time_of)):
        over = lambda other, get: ratio(job.column(arm, get), job.column(other, get))
        idle = ""
        if job.rows[0]["idle_rss_kib"]:
            falls = job.column(arm, lambda row: row["idle_fall_ms"])
            falls = f"below a tenth after {median([int(fall) for fall in falls])} ms" if all(falls) else "never below a tenth"
            idle = f"  idle {job.median(arm, lambda row: int(row['idle_rss_kib'] or 0)) / 1024:.0f} MiB, {falls}"
        print(f"  {arm:14} {len(job.column(arm, time_of)):3} {job.median(arm, time_of) * 1e3:8.1f} {job.median(arm, wall_of) * 1e3:8.1f}"
              f" {job.median(arm, cpu_of) * 1e3:8.1f} {job.median(arm, faults_of):8.0f} {job.median(arm, rss_of) / 1024:8.1f}"
              f" {job.median(arm, rss_of) / job.median('glibc', rss_of):8.2f}"
              f" {over('glibc', time_of):>22} {over(best, time_of):>22} {over('glibc', cpu_of):>22}{idle}")


def line(what, found, limit, holds):
    return f"  {'holds' if holds else 'FAILS'}  {what}: {found}, must be {limit}"


def at_most(job, name, top, bottom, get, limit, what):
    """One claim that a ratio is at most a limit; holds when its interval reaches down to it."""
    if top not in job.arms or bottom not in job.arms:
        return
    value, low, high = job.ratio(top, bottom, get)
    yield line(f"{name}: {what}, {top} / {bottom}", f"{value:.3f} [{low:.3f} {high:.3f}]", f"at most {limit:.3g}", low <= limit)


def verdicts(jobs):
    """The lines of the issue, each with the figure it was judged by."""
    for name, job in sorted(jobs.items()):
        if "pool" not in job.arms or "glibc" not in job.arms:
            continue
        if name in TIMES_FASTER:
            yield from at_most(job, name, "pool", job.fastest_peer(), time_of, 1.05, "time")
            yield from at_most(job, name, "pool", "pool-warm", time_of, 1.05, "time")
            yield from at_most(job, name, "pool", "glibc", time_of, 1 / TIMES_FASTER[name], "time")
        if job.rows[0]["body_s"]:
            yield from at_most(job, name, "pool", "glibc", rss_of, 1.15, "peak RSS")
        else:
            yield from at_most(job, name, "pool", "glibc", cpu_of, 1.02, "CPU")
            yield from at_most(job, name, "pool-small", "mimalloc3", cpu_of, 1.02, "CPU")
            yield from at_most(job, name, "pool-small", "mimalloc3", rss_of, 1, "peak RSS")
        yield from special(name, job)
    arrays = [jobs[name] for name in ARRAYS if name in jobs and "pool" in jobs[name].arms]
    if arrays:
        mean = exp(sum(log(job.ratio("glibc", "pool", cpu_of)[0]) for job in arrays) / len(arrays))
        yield line(f"{len(arrays)} array and compression jobs: CPU, glibc / pool, geometric mean", f"{mean:.3f}", "at least 1.15", mean >= 1.15)


def cold_verdicts(jobs):
    """What keeping memory is worth where the host takes back what is given to it."""
    for name, get, what in (("bursts", time_of, "time"), ("bursts-64", time_of, "time"), ("bursts-apart", cpu_of, "CPU")):
        if name in jobs:
            yield from at_most(jobs[name], name, "pool", "glibc", get, 1 / 4, what)


def special(name, job):
    if name == "growth":
        yield from at_most(job, name, "pool", "mimalloc3", time_of, 1 / 2.5, "time")
        yield from at_most(job, name, "pool", "glibc-huge", time_of, 1, "time")
    if name == "thread-churn":
        # Records before body_faults counted the start of the process too, and that of `faultless run` before it.
        faults = job.median("pool", lambda row: int(row.get("body_faults") or row["minflt"]))
        yield line("thread-churn: faults", f"{faults:.0f}", "under 600", faults < 600)
    if name == "idle-bursts":
        for arm in [arm for arm in ("pool", "pool-1s") if arm in job.arms]:
            yield from at_most(job, name, arm, "mimalloc3", cpu_of, 0.5, "CPU")
            # Idle times are 1.5 s: in a guest whose host takes free memory the default decay is longer.
            if arm != IDLE_ONLY:
                continue
            idle = job.median(arm, lambda row: int(row["idle_rss_kib"])) / job.median(arm, rss_of)
            yield line(f"idle-bursts: resident at the end of an idle time, of the peak, {arm}", f"{idle:.3f}", "below 0.1", idle < 0.1)
