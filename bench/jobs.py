"""The jobs that peers.py runs under every allocator: the standing workloads, and real programs.

A job is a shell command in which {run} stands before the measured program. `warm_mib` is what it touches at most under the
hungriest allocator; `live_mib` is what it has alive at once.
"""
import os, sys
from typing import NamedTuple


class Job(NamedTuple):
    command: str
    warm_mib: int
    live_mib: int
    # Its resident memory is read while it is idle.
    idle: bool = False


def workloads(faultless, cold):
    """The standing workloads. `mixed-large` allocates larger blocks than the default. Three are longer: 50 ms are too short."""
    words = f"{{run}} {faultless} workload --json --quiet"
    found = {
        "chunk-pipeline-1": Job(f"{words} chunk-pipeline --workers 1", 256, 32),
        "chunk-pipeline-2": Job(f"{words} chunk-pipeline --workers 2", 256, 32),
        "temporaries": Job(f"{words} temporaries", 1000, 384),
        "mixed-large": Job(f"{words} mixed --ops 400000 --max-size 262144", 256, 64),
        "calloc-sparse": Job(f"{words} calloc-sparse --blocks 2000", 128, 40),
        "calloc-full": Job(f"{words} calloc-full --blocks 2000", 128, 40),
        "bursts": Job(f"{words} bursts", 1024, 520),
        "growth": Job(f"{words} growth", 2600, 1040),
        "thread-churn": Job(f"{words} thread-churn", 256, 16),
        "idle-bursts": Job(f"{words} idle-bursts --bursts 4", 1024, 520, idle=True),
    }
    if cold:
        # Every allocator pays the first touch of 500 cold MiB. So bursts last longer here, or lie so far apart that the host
        # takes free memory back in between (reporting starts after 2 s).
        found["bursts-64"] = Job(f"{words} bursts --bursts 64", 1024, 520)
        found["bursts-apart"] = Job(f"{words} idle-bursts --bursts 3 --idle-ms 10000", 1024, 520, idle=True)
    return found


# redis-server is measured, so its load must not be its child: the shell that starts the load ends at once.
REDIS = """sh -c '(sh redis-load.sh "$0" >&3 2>/dev/null &) 3>&1
exec {run} redis-server --port 0 --unixsocket "$0" --save "" --appendonly no --enable-debug-command yes >/dev/null' {work}/redis.sock"""

# Jobs on arrays and on compression, which are judged together.
ARRAYS = ("numpy-1", "numpy-16", "numpy-64", "pandas", "zstd", "xz")


def programs(work, python):
    """Real programs on the inputs that inputs.py wrote to `work`, the working directory."""
    found = {
        "numpy-1": Job(f"{{run}} {python} array.py 1", 300, 40),
        "numpy-16": Job(f"{{run}} {python} array.py 16", 400, 160),
        "numpy-64": Job(f"{{run}} {python} array.py 64", 900, 500),
        "pandas": Job(f"{{run}} {python} frame.py", 600, 300),
        "json": Job(f"{{run}} {python} parse.py", 400, 200),
        "sqlite3": Job("{run} sqlite3 :memory: '.read table.sql'", 150, 64),
        "gcc": Job("{run} gcc -O1 -S functions.c -o -", 200, 100),
        "zstd": Job("{run} zstd -3 -T2 -qc lines.txt", 200, 80),
        "xz": Job("{run} xz -0 -T2 -c some.txt", 150, 64),
        "node": Job("{run} node sum.js", 400, 200),
        "redis": Job(REDIS.replace("{work}", work), 400, 200),
    }
    return {name: job for name, job in found.items() if installed(name, job, python)}


def installed(name, job, python):
    """Whether the job can run here; the reason is printed if it can't."""
    words = job.command.split("{run} ")[1].split()
    needed = {"pandas": "import pandas", "numpy": "import numpy"}.get(name.split("-")[0])
    if needed and os.system(f"{python} -c '{needed}' 2>/dev/null"):
        reason = f"{python} can't {needed}"
    elif os.system(f"command -v {words[0]} >/dev/null"):
        reason = f"{words[0]} is not installed"
    else:
        return True
    print(f"left out: {name}: {reason}", file=sys.stderr)
    return False
