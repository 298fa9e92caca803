#!/usr/bin/env python3
"""Checks the verdicts of `advise`: each winner runs again beside the plain program, by this harness.

    bench/verdicts.py --out record/advise/DATE-HOST
    bench/verdicts.py --out record/advise/DATE-HOST --programs bursts,growth

Leaves advise-PROGRAM.json of each program, and every paired run. A verdict holds if the two intervals overlap, and
fails if they do not.
"""
import json, os, subprocess, tempfile

from harness import record
from harness.figures import Arms, text, wall_s
from harness.limits import CANNOT_SAY, FAILS, FEWEST, HOLDS
from harness.memory import warm
from harness.process import COLUMNS, run
from harness.rounds import rounds

FIELDS = ["program", "round", "order", "arm", "cure", "advise_ratio", "advise_low", "advise_high", *COLUMNS]
# Command and the MiB that it touches. The calloc workloads are longer than by default: 50 ms are too short beside a shell.
PROGRAMS = {
    "chunk-pipeline": ("workload --quiet chunk-pipeline", 256), "temporaries": ("workload --quiet temporaries", 800),
    "mixed": ("workload --quiet mixed", 64), "growth": ("workload --quiet growth", 2600), "bursts": ("workload --quiet bursts", 1024),
    "touch-once": ("workload --quiet touch-once", 1024), "calloc-sparse": ("workload --quiet calloc-sparse --blocks 2000", 128),
    "calloc-full": ("workload --quiet calloc-full --blocks 2000", 128),
    "idle-bursts": ("workload --quiet idle-bursts --bursts 4 --idle-ms 300", 1024),
    "shell-loop": ("sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done'", 0),
}


def command_of(args, name):
    words, mib = PROGRAMS[name]
    return (f"{args.faultless} {words}" if words.startswith("workload") else words), mib


def advice_of(args, name):
    """The winning score of `advise`; None if nothing helps. Keeps the answer beside the record."""
    path = os.path.join(args.out, f"advise-{name}.json")
    with open(path, "w") as out:
        subprocess.run(["sh", "-c", f"exec {args.faultless} advise --json -- {command_of(args, name)[0]}"], stdout=out)
    with open(path) as file:
        advice = json.load(file)
    return None if advice["winner"] is None else advice["scores"][advice["winner"]]


def measure(args):
    names = args.programs.split(",") if args.programs else [*PROGRAMS]
    for name in names:
        if name not in PROGRAMS:
            record.fail(f"--programs: there is no {name}; there are {', '.join(PROGRAMS)}")
    with record.Record(args, FIELDS) as table:
        for name in names:
            best = advice_of(args, name)
            if best is None:
                table.comment(f"{name}: nothing helps")
                continue
            command, mib = command_of(args, name)
            adopt = best["arm"]["adopt"]
            arms = {"plain": command, "cure": f"env {adopt}" if "=" in adopt.split()[0] else adopt}
            advised = [best["wall"][key] for key in ("value", "low", "high")]
            for number, order in rounds(args.rounds, arms, warmup=1, name=name):
                for place, arm in enumerate(order):
                    warm(mib)
                    row, _ = run(arms[arm])
                    if number >= 0:
                        table.row(name, number, place, arm, best["arm"]["name"], *advised, *row)
    table.summarize(summary)


def summary(paths):
    print(f"{'program':16} {'cure':20} {'advise: wall ratio':>22} {'paired: wall ratio':>22}  answer")
    for path in paths:
        rows, comments = record.read(path)
        if "advise_ratio" not in rows[0]:
            record.fail(f"{path}: not a table of verdicts.py")
        for name in dict.fromkeys(row["program"] for row in rows):
            mine = [row for row in rows if row["program"] == name]
            advised = [float(mine[0][field]) for field in ("advise_ratio", "advise_low", "advise_high")]
            paired = Arms(mine).ratio("cure", "plain", wall_s)
            overlap = advised[1] <= paired[2] and paired[1] <= advised[2]
            answer = CANNOT_SAY if paired.count < FEWEST else HOLDS if overlap else FAILS
            print(f"{name:16} {mine[0]['cure']:20} {text(advised):>22} {text(paired):>22}  {answer}")
        for name, why in comments.items():
            print(f"{name:16} {why}")


def more(parser):
    parser.add_argument("--programs", metavar="NAMES", help="only these, separated by commas")


if __name__ == "__main__":
    record.script(__doc__, "verdicts", 8, measure, summary, more)
