#!/usr/bin/env python3
"""The median fault time that `stat` finds beside what the program itself timed: record/truth.py FAULTLESS. CSV on stdout."""
import json, re, subprocess, sys, tempfile

print("workload,run,truth_p50_ns,stat_p50_ns,ratio,rows_add_up,faults,before_exec")
for run in range(5):
    for name in ("chunk-pipeline", "temporaries", "calloc-sparse", "calloc-full", "growth", "bursts", "touch-once"):
        with tempfile.NamedTemporaryFile() as out:
            done = subprocess.run([sys.argv[1], "stat", "--json", "-o", out.name, "--", sys.argv[1], "workload", name],
                                  capture_output=True, text=True, check=True)
            stat = json.load(open(out.name))
        truth = int(re.search(r"first touch p50 (\d+) ns", done.stderr)[1])
        first = [row for row in stat["rows"] if row["kind"] in ("mmap_first_write", "heap_first_write") and row["p50_ns"]]
        most = max(first, key=lambda row: row["faults"])
        rows, total = sum(row["faults"] for row in stat["rows"]), stat["usage"]["minor_faults"] + stat["usage"]["major_faults"]
        before = sum(row["faults"] for row in stat["rows"] if row["kind"] == "before_exec")
        print(f"{name},{run},{truth},{most['p50_ns']:.0f},{most['p50_ns'] / truth:.3f},{rows == total},{total},{before}", flush=True)
