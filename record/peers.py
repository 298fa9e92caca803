#!/usr/bin/env python3
"""Workloads and real programs under every allocator, one fresh process per cell: see record/README.md.

Every round runs every cell once, jobs and arms in shuffled order. Right before each cell the guest's memory is brought into a known
state, warm or cold, and what a first touch costs then is kept with the row. Leaves OUT/NAME.csv and prints the table.
"""
import argparse, contextlib, csv, json, os, random, sys, time

import cold
from arms import IDLE_ONLY, arms
from jobs import programs, workloads
from paired import run, warm
from table import report

FIELDS = ["job", "round", "order", "arm", "wall_s", "user_s", "sys_s", "minflt", "majflt", "maxrss_kib", "status", "output",
          "body_s", "idle_rss_kib", "idle_fall_ms", "probe_base_ns", "probe_thp_ns", "body_faults"]
# How often an idle process is looked at, and what is short for an idle time, s.
LOOK_S, SHORT_S = 0.01, 0.3


class Idle:
    """What a process keeps resident while its main thread sleeps."""

    def __init__(self):
        # One entry per look: time, whether the main thread sleeps, resident KiB.
        self.looks = []

    def watch(self, pid):
        """Looks until the process has ended, which stays to be waited for."""
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                self.looks.append((time.monotonic(), fields[0] == "S", int(fields[21]) * cold.PAGE >> 10))
            time.sleep(LOOK_S)

    def phases(self):
        """Runs of looks at a sleeping process, without short ones."""
        found, phase = [], []
        for look in self.looks + [(0, False, 0)]:
            if look[1]:
                phase.append(look)
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
        falls = [next((look[0] - phase[0][0] for look in phase if look[2] < peak_kib / 10), None) for phase in phases]
        fall = "" if None in falls else round(cold.median(falls) * 1e3)
        return cold.median([phase[-1][2] for phase in phases]), fall


@contextlib.contextmanager
def memory(args, job):
    """Brings memory into the state that was asked for; gives the prices of a first touch."""
    if not args.cold:
        warm(job.warm_mib)
        yield cold.probe()
        return
    with cold.cold_memory() as prices:
        if prices is None:
            sys.exit("no cold memory to be had: is there a host that takes free memory back?")
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


def measure(args, path):
    found = arms(args.faultless, dict(peer.split("=", 1) for peer in args.peers))
    jobs = workloads(args.faultless, args.cold)
    if args.programs:
        os.chdir(args.programs)
        jobs = programs(args.programs, args.python)
    chosen = {name: job for name, job in jobs.items() if not args.jobs or name in args.jobs.split(",")}
    found = {name: prefix for name, prefix in found.items() if not args.arms or name in args.arms.split(",")}
    with open(path + ".new", "w", newline="") as file:
        file.writelines(f"# {name}: {prefix}\n" for name, prefix in found.items())
        file.write(f"# memory: {'cold' if args.cold else 'warm'}\n")
        table = csv.writer(file)
        table.writerow(FIELDS)
        end = time.monotonic() + args.minutes * 60
        for number in range(args.rounds):
            cells = [(job, arm) for job in chosen for arm in found if arm != IDLE_ONLY or chosen[job].idle]
            random.shuffle(cells)
            for order, (job, arm) in enumerate(cells):
                row = cell(args, chosen[job], found[arm])
                table.writerow([job, number, order, arm] + [round(x, 6) if isinstance(x, float) else x for x in row])
            file.flush()
            print(f"\r{args.name}: round {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
            # Only whole rounds: every arm has been run equally often.
            if time.monotonic() + (time.monotonic() - end + args.minutes * 60) / (number + 1) > end:
                break
        print(file=sys.stderr)
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="folder of the record")
    parser.add_argument("--name", default="peers", help="name of the file in it")
    parser.add_argument("--faultless", default="faultless", help="the binary")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--minutes", type=float, default=60, help="start no round that would not end within so many minutes")
    parser.add_argument("--cold", action="store_true", help="memory that the host has taken back, instead of warm memory")
    parser.add_argument("--programs", metavar="DIR", help="real programs, on what record/inputs.py left in DIR")
    parser.add_argument("--python", default="python3", help="for the programs: a Python with NumPy and pandas")
    parser.add_argument("--jobs", help="only these, by commas")
    parser.add_argument("--arms", help="only these, by commas")
    parser.add_argument("--summary", nargs="+", metavar="CSV", help="print what is recorded")
    parser.add_argument("peers", nargs="*", metavar="NAME=LIBRARY")
    args = parser.parse_args()
    if args.summary:
        return report(args.summary)
    if not args.out:
        parser.error("give --out")
    args.out, args.faultless = os.path.realpath(args.out), os.path.realpath(args.faultless)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, args.name + ".csv")
    if os.path.exists(path):
        sys.exit(f"{path} exists: records are never overwritten")
    measure(args, path)
    report([path])


if __name__ == "__main__":
    main()
