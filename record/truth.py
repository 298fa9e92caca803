#!/usr/bin/env python3
"""The median fault time that `stat` finds beside what the program itself times: record/truth.py FAULTLESS. CSV on stdout.

The program's own figure is taken from a run without `stat` before it and one after it, in warmed memory: inside `stat` the
program times the recording as well. What it says there only shows whether that run met memory that the hypervisor had taken back, which
costs several times more: rounds in which it is more than twice what it is outside are kept, marked, and left out of the medians.
"""
import json, re, statistics, subprocess, sys, tempfile

from paired import warm

ROUNDS = 4
# Workload and the MiB that it touches.
WORKLOADS = {"chunk-pipeline": 256, "temporaries": 800, "calloc-sparse": 128, "calloc-full": 128, "growth": 2600, "bursts": 1024,
             "touch-once": 1024}


def own_ns(done):
    return int(re.search(r"first touch p50 (\d+) ns", done.stderr)[1])


def truth_ns(command, mib):
    warm(mib)
    return own_ns(subprocess.run(command, capture_output=True, text=True, check=True))


def stat_of(command, mib):
    warm(mib)
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([sys.argv[1], "stat", "--json", "-o", out.name, "--", *command], capture_output=True, text=True, check=True)
        return json.load(open(out.name)), own_ns(done)


print("workload,round,before_ns,after_ns,inside_ns,cold,stat_p50_ns,ratio,rows_add_up,faults,before_exec")
ratios = {}
for number in range(ROUNDS):
    for name, mib in WORKLOADS.items():
        command = [sys.argv[1], "workload", name]
        before = truth_ns(command, mib)
        stat, inside = stat_of(command, mib)
        after = truth_ns(command, mib)
        first = [row for row in stat["rows"] if row["kind"] in ("mmap_first_write", "heap_first_write") and row["p50_ns"]]
        most = max(first, key=lambda row: row["faults"])
        rows, total = sum(row["faults"] for row in stat["rows"]), stat["usage"]["minor_faults"] + stat["usage"]["major_faults"]
        before_exec = sum(row["faults"] for row in stat["rows"] if row["kind"] == "before_exec")
        ratio = most["p50_ns"] * 2 / (before + after)
        cold = inside > before + after
        if not cold:
            ratios.setdefault(name, []).append(ratio)
        print(f"{name},{number},{before},{after},{inside},{cold},{most['p50_ns']:.0f},{ratio:.3f},{rows == total},{total},{before_exec}", flush=True)
for name, found in ratios.items():
    print(f"# {name}: median ratio {statistics.median(found):.3f}, {min(found):.3f} to {max(found):.3f}, n {len(found)}")
