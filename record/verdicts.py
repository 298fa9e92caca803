#!/usr/bin/env python3
"""Asks `advise` for its verdict on each workload, then checks its interval by a paired run of its own: record/verdicts.py FAULTLESS OUT.

Leaves advise-NAME.json, verdict-NAME.csv (every paired run) and verdicts.csv in OUT.
"""
import csv, json, os, subprocess, sys

faultless, out = sys.argv[1:3]
here = os.path.dirname(os.path.realpath(__file__))
# Command and the MiB that it touches.
PROGRAMS = {name: (f"{faultless} workload --quiet {name}", mib) for name, mib in {
    "chunk-pipeline": 256, "temporaries": 800, "mixed": 64, "calloc-sparse": 128, "calloc-full": 128, "growth": 2600, "bursts": 1024,
    "touch-once": 1024}.items()}
PROGRAMS["idle-bursts"] = (f"{faultless} workload --quiet idle-bursts --bursts 4 --idle-ms 300", 1024)
PROGRAMS["shell-loop"] = ("sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done'", 0)


def paired_interval(name, plain, cure, mib):
    command = [f"{here}/paired.py", "--out", out, "--name", f"verdict-{name}", "--warm", str(mib), "--rounds", "8",
               f"plain={plain}", f"cure={cure}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    from paired import median, wall_ratios
    found = wall_ratios(f"{out}/verdict-{name}.csv")
    return median(found["cure"])


with open(f"{out}/verdicts.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["program", "verdict", "advise_ratio", "advise_low", "advise_high", "paired_ratio", "holds"])
    for name, (command, mib) in PROGRAMS.items():
        path = f"{out}/advise-{name}.json"
        with open(path, "w") as report:
            subprocess.run(["sh", "-c", f"exec {faultless} advise --json --svg {out}/advise-{name}.svg -- {command}"], stdout=report)
        with open(path) as report:
            advice = json.load(report)
        if advice["winner"] is None:
            table.writerow([name, "nothing helps"] + [""] * 5)
            continue
        best = advice["scores"][advice["winner"]]
        wall = best["wall"]
        paired = paired_interval(name, command, "env " + best["arm"]["adopt"], mib)
        table.writerow([name, best["arm"]["name"], *(f"{wall[key]:.3f}" for key in ("value", "low", "high")), f"{paired:.3f}",
                        "yes" if wall["low"] <= paired <= wall["high"] else "NO"])
        file.flush()
