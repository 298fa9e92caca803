#!/usr/bin/env python3
"""Times and peak memory of `faultless-fleet report` on synthetic fleets, by engine, question, hosts and processors.

    bench/fleet.py --out record/fleet/DATE-HOST --hosts 250 1000

Each cell is a process of its own, held to its processors, with one question, or with all. Memory is the highest sum of
resident pages of its processes, read 20 times a second. Needs DuckDB, PySpark with a Java, NumPy and pyarrow.
"""
import contextlib, glob, os, signal, subprocess, sys, tempfile, time

from harness import record
from harness.rounds import rounds

PACKAGE = os.path.join(record.ROOT, "python/faultless_fleet")
FIELDS = ["round", "engine", "question", "hosts", "processors", "sample_rows", "disk_bytes", "wall_s", "peak_rss_bytes"]
# Every question; those that read every sample; one that reads the smaller tables.
QUESTIONS = ["all", "durations", "stacks", "releases"]
EVERY_S = 0.05
PAGE = os.sysconf("SC_PAGE_SIZE")


def command(*words):
    return [sys.executable, "-m", "faultless_fleet", *map(str, words)]


def resident(session):
    """Bytes of all processes of a session."""
    total = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path) as file:
            fields = file.read().rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += int(fields[21]) * PAGE
    return total


def measured(words, processors):
    """Wall time and peak memory of a command that must succeed."""
    begin, peak = time.monotonic(), 0
    run = subprocess.Popen(["taskset", "-c", f"0-{processors - 1}", *words], cwd=PACKAGE, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        while run.poll() is None:
            peak = max(peak, resident(run.pid))
            time.sleep(EVERY_S)
        # A Java that is left over would take the next cell's processors.
        while resident(run.pid):
            time.sleep(EVERY_S)
    except KeyboardInterrupt:
        os.killpg(run.pid, signal.SIGTERM)
        raise
    if run.returncode:
        record.fail(f"status {run.returncode}: {' '.join(words)}")
    return time.monotonic() - begin, peak


def made(folder, hosts):
    """A fleet of so many hosts and a day, its rows of samples and its bytes."""
    path = f"{folder}/{hosts}"
    subprocess.run(command("generate", "--hosts", hosts, "--days", 1, path), cwd=PACKAGE, check=True)
    size = sum(os.path.getsize(name) for name in glob.glob(f"{path}/*/*/*/*.parquet"))
    return path, hosts * 3 * 24 * 1440, size


def main():
    parser = record.parser(__doc__)
    parser.add_argument("--out", metavar="DIR", help="folder of the record")
    parser.add_argument("--trial", action="store_true", help="measure without a clean commit, outside record/")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds [%(default)s]")
    parser.add_argument("--hosts", type=int, nargs="+", default=[250, 1000], metavar="N", help="sizes of the fleets [250 1000]")
    parser.add_argument("--processors", type=int, nargs="+", default=[1, 2], metavar="N", help="processors of a cell [1 2]")
    args = parser.parse_args()
    args.name = "fleet"
    with record.Record(args, FIELDS) as table, tempfile.TemporaryDirectory(prefix="faultless-fleet-") as folder:
        fleets = {hosts: made(folder, hosts) for hosts in args.hosts}
        cells = [(engine, question, hosts, processors) for engine in ("duckdb", "spark") for question in QUESTIONS
                 for hosts in args.hosts for processors in args.processors]
        for number, order in rounds(args.rounds, cells):
            for engine, question, hosts, processors in order:
                path, rows, size = fleets[hosts]
                ask = [] if question == "all" else ["--ask", question]
                master = ["--master", f"local[{processors}]"] if engine == "spark" else []
                wall_s, peak = measured(command("report", path, "--engine", engine, "--format", "json", *master, *ask), processors)
                table.row(number, engine, question, hosts, processors, rows, size, wall_s, peak)
                print(f"{engine} {question} {hosts} hosts, {processors} processors: {wall_s:.1f} s, {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
