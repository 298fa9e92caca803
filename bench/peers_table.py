"""The table of a record of peers.py, and its limits.

A ratio is the median over rounds of arm / other arm, with a 95 % bootstrap interval; below 1 is faster. Time is that of the
workload's body if the workload prints it, else that of the process.
"""
from math import exp, log

from allocators import IDLE_ONLY, is_peer
from harness import record
from harness.figures import Arms, cpu_s, faults, interval, median, peak_mib, text, wall_s
from harness.limits import Limits
from jobs import ARRAYS

# Job -> how many times faster than glibc the pool must be.
TIMES_FASTER = {"chunk-pipeline-1": 4, "chunk-pipeline-2": 4, "temporaries": 4, "mixed-large": 3, "calloc-sparse": 3, "calloc-full": 4,
                "bursts": 14}


def time_s(row):
    return float(row["body_s"] or row["wall_s"])


def idle_mib(row):
    return int(row["idle_rss_kib"] or 0) / 1024


def fastest_peer(job):
    return min(filter(is_peer, job.names), key=lambda arm: job.median(arm, time_s))


def report(paths):
    jobs, memory = {}, set()
    for path in paths:
        rows, comments = record.read(path)
        if "body_s" not in rows[0]:
            record.fail(f"{path}: not a table of peers.py")
        memory.add(comments.get("memory", "warm"))
        for row in rows:
            jobs.setdefault(row["job"], []).append(row)
    jobs = {name: Arms(rows) for name, rows in sorted(jobs.items())}
    print(f"memory: {', '.join(sorted(memory))}")
    for name, job in jobs.items():
        print_job(name, job)
    found = Limits()
    (warm_limits if "warm" in memory else cold_limits)(found, jobs)
    found.print()


def print_job(name, job):
    best = fastest_peer(job)
    same = "same" if len({(row["status"], row["output"]) for row in job.rows}) == 1 else "DIFFERENT"
    print(f"\n{name}: fastest peer {best}; output {same}")
    print(f"  {'arm':14} {'n':>3} {'time ms':>8} {'wall ms':>8} {'CPU ms':>8} {'faults':>8} {'RSS MiB':>8} {'of glibc':>8}"
          f" {'time / glibc':>22} {'time / fastest peer':>22} {'CPU / fastest peer':>22} {'CPU / glibc':>22}")
    for arm in sorted(job.names, key=lambda arm: job.median(arm, time_s)):
        idle = ""
        if job.rows[0]["idle_rss_kib"]:
            falls = job.values(arm, lambda row: row["idle_fall_ms"])
            falls = f"below a tenth after {median([int(fall) for fall in falls])} ms" if all(falls) else "never below a tenth"
            idle = f"  idle {job.median(arm, idle_mib):.0f} MiB, {falls}"
        print(f"  {arm:14} {len(job.values(arm, time_s)):3} {job.median(arm, time_s) * 1e3:8.1f} {job.median(arm, wall_s) * 1e3:8.1f}"
              f" {job.median(arm, cpu_s) * 1e3:8.1f} {job.median(arm, faults):8.0f} {job.median(arm, peak_mib):8.1f}"
              f" {job.median(arm, peak_mib) / job.median('glibc', peak_mib):8.2f}"
              f" {text(job.ratio(arm, 'glibc', time_s)):>22} {text(job.ratio(arm, best, time_s)):>22}"
              f" {text(job.ratio(arm, best, cpu_s)):>22} {text(job.ratio(arm, 'glibc', cpu_s)):>22}{idle}")


def warm_limits(found, jobs):
    for name, job in jobs.items():
        if "pool" not in job or "glibc" not in job:
            continue

        def at_most(top, bottom, get, limit, what):
            if top in job and bottom in job:
                found.at_most(f"{name}: {what}, {top} / {bottom}", job.ratio(top, bottom, get), limit)

        if name in TIMES_FASTER:
            at_most("pool", fastest_peer(job), time_s, 1.05, "time")
            # Another guest on the same host lengthens wall time more than CPU time.
            at_most("pool", fastest_peer(job), cpu_s, 1.05, "CPU")
            at_most("pool", "pool-warm", time_s, 1.05, "time")
            at_most("pool", "glibc", time_s, 1 / TIMES_FASTER[name], "time")
        if job.rows[0]["body_s"]:
            at_most("pool", "glibc", peak_mib, 1.15, "peak RSS")
        else:
            at_most("pool", "glibc", cpu_s, 1.02, "CPU")
            at_most("pool-small", "mimalloc3", cpu_s, 1.02, "CPU")
            at_most("pool-small", "mimalloc3", peak_mib, 1, "peak RSS")
        if name == "growth":
            at_most("pool", "mimalloc3", time_s, 1 / 2.5, "time")
            at_most("pool", "glibc-huge", time_s, 1, "time")
        if name == "thread-churn":
            # Older records lack body_faults; theirs are of the whole process.
            values = job.values("pool", lambda row: int(row.get("body_faults") or row["minflt"]))
            found.at_most("thread-churn: faults, pool", interval(values), 599)
        if name == "idle-bursts":
            at_most("pool", "mimalloc3", cpu_s, 0.5, "CPU")
            at_most(IDLE_ONLY, "mimalloc3", cpu_s, 0.5, "CPU")
            if IDLE_ONLY in job:
                # Idle times are 1.5 s; the default decay is longer on a guest whose host takes free memory.
                values = job.values(IDLE_ONLY, lambda row: idle_mib(row) / peak_mib(row))
                found.at_most(f"idle-bursts: resident when idle, of the peak, {IDLE_ONLY}", interval(values), 0.1)
    arrays = [jobs[name] for name in ARRAYS if name in jobs and "pool" in jobs[name]]
    if arrays:
        found.at_least(f"{len(arrays)} array and compression jobs: CPU, glibc / pool, geometric mean", mean_ratio(arrays), 1.15)


def mean_ratio(jobs):
    """The geometric mean of glibc / pool by CPU time over jobs; whole rounds are drawn."""
    numbers = set.intersection(*({*job.rounds("glibc", cpu_s)} & {*job.rounds("pool", cpu_s)} for job in jobs))
    table = [[log(job.rounds("glibc", cpu_s)[number] / job.rounds("pool", cpu_s)[number]) for job in jobs] for number in sorted(numbers)]
    return interval(table, lambda drawn: exp(sum(map(median, zip(*drawn))) / len(jobs))) if table else None


def cold_limits(found, jobs):
    """The gain from keeping memory if the host takes back freed memory."""
    for name, get, what in (("bursts", time_s, "time"), ("bursts-64", time_s, "time"), ("bursts-apart", cpu_s, "CPU")):
        if name in jobs:
            found.at_most(f"{name}: {what}, pool / glibc", jobs[name].ratio("pool", "glibc", get), 1 / 4)
