#!/usr/bin/env python3
"""Measures the agent beside a loaded node: its CPU time and memory, and its seconds against `faultless stat`.

In: counts of processes, control groups and faults. Out: one JSON document, and exit status 1 if a bound is broken.
Root, for control groups and timed faults. Churn: groups and processes that come and go all the while.

    crates/agent/soak.py --agent target/release/faultless-agent --faultless target/release/faultless --minutes 5
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

# Touches PER_S pages a second, and gives them back; with PER_S 0 it only sleeps. Prints how many it touched.
LOAD = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static volatile int ends;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int count, char **words) {
    double per_s = atof(words[1]), begin = now(), until = begin + atof(words[2]);
    long size = sysconf(_SC_PAGESIZE), most = 4096, touched = 0;
    char *block = mmap(0, most * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block, most * size, MADV_NOHUGEPAGE);
    while (now() < until) {
        if (per_s == 0) { sleep(1); continue; }
        long due = (long)((now() - begin) * per_s) - touched;
        if (due > most) due = most;
        for (long page = 0; page < due; page++) block[page * size] = 1;
        if (due > 0) madvise(block, due * size, MADV_DONTNEED);
        touched += due > 0 ? due : 0;
        usleep(10000);
    }
    printf("%ld\n", touched);
    return 0;
}
"""


def parent_group():
    """The folder of this process's control group, where groups that count can be made."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for mount in ({"memory": "memory", "": ""}.get(controllers),):
            folder = None if mount is None else pathlib.Path("/sys/fs/cgroup", mount, path.strip("/"))
            if folder and (folder / "memory.stat").exists():
                return folder
    sys.exit("no control group with a memory controller")


def join(group):
    """What a child does before its exec."""
    return lambda: (group / "cgroup.procs").write_text(str(os.getpid()))


def metrics(address):
    """A scrape: values by series."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def total(scrape, name, text=""):
    """The sum of a metric's series that contain a text."""
    return sum(value for series, value in scrape.items() if re.split("[{ ]", series)[0] == name and text in series)


class Node:
    """The load: groups with processes, of which one in ten faults, and churn beside them."""

    def __init__(self, load, args):
        self.load, self.args, self.running, self.churned = load, args, [], 0
        self.parent = parent_group() / f"faultless-soak-{os.getpid()}"
        self.parent.mkdir()
        self.groups = [self.parent / f"service-{n}" for n in range(args.groups)]
        for group in self.groups:
            group.mkdir()

    def start(self, seconds):
        """Starts the processes for so long."""
        busy = max(1, self.args.processes // 10)
        for n in range(self.args.processes):
            per_s = self.args.faults / busy if n < busy else 0
            group = self.groups[n % len(self.groups)]
            words = [self.load, str(per_s), str(seconds)]
            self.running.append(subprocess.Popen(words, preexec_fn=join(group), stdout=subprocess.DEVNULL))

    def churn(self):
        """A group that lives for a moment."""
        group = self.parent / f"job-{self.churned}"
        self.churned += 1
        group.mkdir()
        subprocess.run([self.load, "20000", "0.3"], preexec_fn=join(group), stdout=subprocess.DEVNULL, check=True)
        remove(group)

    def end(self):
        """Ends and removes everything."""
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()
        for group in [*self.parent.glob("*/"), self.parent]:
            if group.is_dir():
                remove(group)


def remove(group):
    """Removes a group once the kernel has noticed that nobody is in it."""
    for _ in range(200):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.02)
    return None


def start_agent(args):
    """Starts the agent; returns it and its address."""
    words = [args.agent, "--listen", "127.0.0.1:0", "--interval", f"{args.interval:g}s", *args.flag]
    agent = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for line in agent.stderr:
        found = re.search(r"http://([^/]+)/metrics", line)
        if found:
            return agent, found[1]
    sys.exit("the agent did not start")


def compared(node, args, address, folder):
    """Seconds a fault of one workload: by the agent, and by `faultless stat`, in turns beside the same load."""
    group = node.parent / "known"
    group.mkdir()
    words = [node.load, "50000", str(args.known_s)]
    touched, stat = 0, []
    for _ in range(args.rounds):
        known = subprocess.run(words, preexec_fn=join(group), capture_output=True, text=True, check=True)
        touched += int(known.stdout)
        out = os.path.join(folder, "stat.json")
        subprocess.run([args.faultless, "stat", "--json", "-o", out, "--", *words], check=True, stdout=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as file:
            stat.append(json.load(file))
    time.sleep(args.interval * 2)
    scrape = metrics(address)
    remove(group)
    faults = total(scrape, "faultless_page_faults_total", '/known"')
    agent_ns = total(scrape, "faultless_fault_seconds_total", '/known"') / max(faults, 1) * 1e9
    each = [round(run["time"]["seconds"]["value"] / run["usage"]["minor_faults"] * 1e9) for run in stat]
    stat_ns = sum(run["time"]["seconds"]["value"] for run in stat) / sum(run["usage"]["minor_faults"] for run in stat) * 1e9
    found = {"touched": touched, "faults": faults, "faults_ratio": faults / touched}
    return {**found, "agent_ns": agent_ns, "stat_ns": stat_ns, "stat_each_ns": each, "seconds_ratio": agent_ns / stat_ns}


def main():
    """Runs the soak."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--agent", required=True)
    parser.add_argument("--faultless", help="also compare seconds with `faultless stat`")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--processes", type=int, default=500)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--faults", type=float, default=100_000, help="a second, of all together")
    parser.add_argument("--interval", type=float, default=15)
    parser.add_argument("--known-s", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison")
    parser.add_argument("--churn", action="store_true", help="groups that live for 0.3 s, all the while")
    parser.add_argument("--flag", action="append", default=[], help="another flag of the agent, as --flag=--top=8")
    args = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    load = os.path.join(folder.name, "load")
    subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", load], input=LOAD, text=True, check=True)
    node = Node(load, args)
    agent = None
    try:
        node.start(args.minutes * 60 + 1800)
        agent, address = start_agent(args)
        time.sleep(args.interval * 1.5)
        begin, first = time.monotonic(), metrics(address)
        resident = []
        while time.monotonic() - begin < args.minutes * 60:
            if args.churn:
                node.churn()
            else:
                time.sleep(1)
            if len(resident) < (time.monotonic() - begin) / 10:
                resident.append(metrics(address)["faultless_agent_resident_memory_bytes"])
        last, wall = metrics(address), time.monotonic() - begin
        cpu = total(last, "faultless_agent_cpu_seconds_total") - total(first, "faultless_agent_cpu_seconds_total")
        faults = total(last, "faultless_page_faults_total") - total(first, "faultless_page_faults_total")
        result = {
            "wall_s": wall,
            "cpu_percent": 100 * cpu / wall,
            "interval_s": last["faultless_agent_interval_seconds"],
            "faults_per_s": faults / wall,
            "price_ns": last["faultless_fault_price_seconds"] * 1e9,
            "resident_mib": [round(value / (1 << 20), 1) for value in (resident[0], max(resident), resident[-1])],
            "series": len(last),
            "churned": node.churned,
            "folded": total(last, "faultless_groups", "folded"),
        }
        if args.faultless:
            result["known"] = compared(node, args, address, folder.name)
        agent.send_signal(signal.SIGTERM)
        result["status"] = agent.wait(20)
        print(json.dumps(result, indent=1))
        is_within = result["cpu_percent"] <= 0.5 and max(resident) <= 64 << 20 and result["status"] == 0
        if args.faultless:
            is_within &= abs(result["known"]["seconds_ratio"] - 1) <= 0.1 and abs(result["known"]["faults_ratio"] - 1) <= 0.05
        return 0 if is_within else 1
    finally:
        if agent and agent.poll() is None:
            agent.kill()
        node.end()


if __name__ == "__main__":
    sys.exit(main())
