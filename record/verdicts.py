#!/usr/bin/env python3
"""Asks `advise` for its verdict on each workload, then checks its interval by a paired run of its own: record/verdicts.py FAULTLESS OUT [NAME ...],
the names being those of the programs below, all of them by default.

Leaves advise-NAME.json, verdict-NAME.csv (every paired run) and verdicts.csv in OUT.
"""
import csv, json, os, subprocess, sys

faultless, out, *names = sys.argv[1:]
here = os.path.dirname(os.path.realpath(__file__))
# Command and the MiB that it touches.
PROGRAMS = {name: (f"{faultless} workload --quiet {name}", mib) for name, mib in {
    "chunk-pipeline": 256, "temporaries": 800, "mixed": 64, "growth": 2600, "bursts": 1024,
    "touch-once": 1024}.items()}
for name in ("calloc-sparse", "calloc-full"):
    # Longer than by default: 50 ms are too short beside the shell that starts them.
    PROGRAMS[name] = (f"{faultless} workload --quiet {name} --blocks 2000", 128)
PROGRAMS["idle-bursts"] = (f"{faultless} workload --quiet idle-bursts --bursts 4 --idle-ms 300", 1024)
PROGRAMS["shell-loop"] = ("sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done'", 0)


def paired_ratio(name, plain, cure, mib):
    command = [f"{here}/paired.py", "--out", out, "--name", f"verdict-{name}", "--warm", str(mib), "--rounds", "8",
               f"plain={plain}", f"cure={cure}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    from paired import interval, wall_ratios
    return interval(wall_ratios(f"{out}/verdict-{name}.csv")["cure"])


with open(f"{out}/verdicts.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["program", "verdict", "advise_ratio", "advise_low", "advise_high", "paired_ratio", "paired_low", "paired_high", "holds"])
    for name in names or PROGRAMS:
        command, mib = PROGRAMS[name]
        path = f"{out}/advise-{name}.json"
        with open(path, "w") as report:
            subprocess.run(["sh", "-c", f"exec {faultless} advise --json --svg {out}/advise-{name}.svg -- {command}"], stdout=report)
        with open(path) as report:
            advice = json.load(report)
        if advice["winner"] is None:
            table.writerow([name, "nothing helps"] + [""] * 7)
            continue
        best = advice["scores"][advice["winner"]]
        wall = best["wall"]
        adopt = best["arm"]["adopt"]
        paired = paired_ratio(name, command, f"env {adopt}" if "=" in adopt.split()[0] else adopt, mib)
        table.writerow([name, best["arm"]["name"], *(f"{wall[key]:.3f}" for key in ("value", "low", "high")), *(f"{figure:.3f}" for figure in paired),
                        "yes" if wall["low"] <= paired[0] <= wall["high"] else "NO"])
        file.flush()
