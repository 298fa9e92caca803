#!/usr/bin/env python3
"""Runs workloads or real programs under several allocators and compares the pool with the fastest of the others.

    bench/peers.py --out record/peers/DATE-HOST --rounds 15 \\
        mimalloc3=BUILD/libmimalloc.so
    bench/peers.py --out record/peers/DATE-HOST --name programs --programs DIR \\
        mimalloc3=BUILD/libmimalloc.so

Each cell is a fresh process. Before it the memory of a virtual machine is made warm or cold, and the row keeps the price
of a first touch.
"""
import contextlib, json, os, sys, time

from allocators import IDLE_ONLY, arms
from harness import memory as guest
from harness import record
from harness.figures import median
from harness.process import COLUMNS, run
from harness.rounds import rounds
from jobs import programs, workloads
from peers_table import report

FIELDS = ["job", "round", "order", "arm", *COLUMNS[:-1], "output",
          "body_s", "idle_rss_kib", "idle_fall_ms", "probe_base_ns", "probe_thp_ns", "body_faults"]
# Seconds between two readings of an idle process; shorter idle times are left out.
READING_S, SHORT_S = 0.01, 0.3


class Idle:
    """The resident memory of a process while its main thread sleeps."""

    def __init__(self):
        # One entry per reading: time, whether the main thread sleeps, resident KiB.
        self.readings = []

    def watch(self, pid):
        """Reads until the process has ended. The caller waits for it."""
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                self.readings.append((time.monotonic(), fields[0] == "S", int(fields[21]) * guest.PAGE >> 10))
            time.sleep(READING_S)

    def phases(self):
        """Runs of readings of a sleeping process, without short ones."""
        found, phase = [], []
        for reading in self.readings + [(0, False, 0)]:
            if reading[1]:
                phase.append(reading)
                continue
            if phase and phase[-1][0] - phase[0][0] > SHORT_S:
                found.append(phase)
            phase = []
        return found

    def figures(self, peak_kib):
        """Resident KiB at the end of an idle time, and ms until it is below a tenth of the peak: medians, "" where there is none."""
        phases = self.phases()
        if not phases:
            return "", ""
        falls = [next((reading[0] - phase[0][0] for reading in phase if reading[2] < peak_kib / 10), None) for phase in phases]
        fall = "" if None in falls else round(median(falls) * 1e3)
        return median([phase[-1][2] for phase in phases]), fall


@contextlib.contextmanager
def memory(args, job):
    """Brings memory into the requested state. Returns the prices of a first touch."""
    if not args.cold:
        guest.warm(job.warm_mib)
        yield guest.probe()
        return
    with guest.cold_memory() as prices:
        if prices is None:
            sys.exit("there is no cold memory: does the host take free memory back?")
        yield prices


def cell(args, job, prefix):
    command = job.command.replace("{run}", prefix.replace("{mib}", str(job.live_mib)))
    idle = Idle()
    with memory(args, job) as prices:
        row, text = run(command, watch=idle.watch if job.idle else lambda pid: None)
    body, faults = "", ""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        answer = json.loads(text)
        body, row[7], faults = answer["wall_ns"] / 1e9, answer["checksum"], answer["faults"]
    return row + [body, *idle.figures(row[5]), *(round(price) for price in prices), faults]


def measure(args):
    found = arms(args.faultless, dict(peer.split("=", 1) for peer in args.peers))
    jobs = workloads(args.faultless, args.cold)
    if args.programs:
        jobs = programs(args.programs, args.python)
    chosen = {name: job for name, job in jobs.items() if not args.jobs or name in args.jobs.split(",")}
    found = {name: prefix for name, prefix in found.items() if not args.arms or name in args.arms.split(",")}
    cells = [(job, arm) for job in chosen for arm in found if arm != IDLE_ONLY or chosen[job].idle]
    with record.Record(args, FIELDS, found | {"memory": "cold" if args.cold else "warm"}) as table:
        if args.programs:
            os.chdir(args.programs)
        for number, order in rounds(args.rounds, cells, name=args.name, minutes=args.minutes):
            for place, (job, arm) in enumerate(order):
                table.row(job, number, place, arm, *cell(args, chosen[job], found[arm]))
    table.summarize(report)


def more(parser):
    parser.add_argument("--minutes", type=float, default=60, help="begin no round that would not end in time [%(default)s]")
    parser.add_argument("--cold", action="store_true", help="take memory that the host has taken back, not warm memory")
    parser.add_argument("--programs", metavar="DIR", help="run real programs on the inputs that inputs.py wrote to DIR")
    parser.add_argument("--python", default="python3", help="a Python with NumPy and pandas, for --programs [%(default)s]")
    parser.add_argument("--jobs", help="only these, separated by commas")
    parser.add_argument("--arms", help="only these, separated by commas")
    parser.add_argument("peers", nargs="*", metavar="NAME=LIBRARY")


if __name__ == "__main__":
    record.script(__doc__, "peers", 15, measure, report, more)
