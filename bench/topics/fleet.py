"""What does a report on a fleet take: time and memory of both engines, by question, rows and processors?"""
import glob, json, math, os, subprocess, sys, time

from harness import process, record
from harness.rounds import rounds
from topics import topic

PACKAGE = os.path.join(record.ROOT, "python/faultless_fleet")
FIELDS = ["round", "engine", "question", "hosts", "processors", "sample_rows", "disk_bytes", "wall_s", "cpu_s", "peak_mib", "same"]
# Every question; two that read every sample; one that reads the smaller tables.
QUESTIONS = ["all", "durations", "stacks", "releases"]
EVERY_S = 0.1


def measured(words, processors):
    """Wall and CPU time in s and peak MiB of a command of faultless-fleet and its children, and what it prints."""
    begin, peak, seconds = time.monotonic(), 0, {}
    words = ["taskset", "-c", f"0-{processors - 1}", sys.executable, "-m", "faultless_fleet", *map(str, words)]
    with open("printed", "w+") as out, open("said", "w+") as said:
        run = subprocess.Popen(words, cwd=PACKAGE, stdout=out, stderr=said, start_new_session=True)
        try:
            # A Java that is left over would take the next cell's processors.
            while run.poll() is None or process.session(run.pid):
                found = process.session(run.pid)
                seconds |= {name: used for name, (used, _) in found.items()}
                peak = max(peak, sum(size for _, size in found.values()))
                time.sleep(EVERY_S)
        finally:
            process.end(run)
        out.seek(0), said.seek(0)
        if run.returncode:
            record.fail(f"{' '.join(words)}: status {run.returncode}: {said.read().strip()[-300:]}")
        return [time.monotonic() - begin, sum(seconds.values()), peak / 2**20], out.read()


def rows_of(printed):
    """Question -> rows."""
    return {answer["question"]: answer["rows"] for answer in json.loads(printed)["answers"]}


def is_same(found, wanted):
    """Whether two reports have the same rows. Sums of floating point numbers depend on their order."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(is_same(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(is_same, found, wanted))
    return math.isclose(found, wanted, rel_tol=1e-9) if isinstance(wanted, float) and isinstance(found, float) else found == wanted


@topic("fleet", rounds=3)
def take_fleet(to):
    """what reports on a day of a synthetic fleet take by DuckDB and Spark; needs PySpark, Java; -- HOSTS... [250 1000]"""
    most = min(2, len(os.sched_getaffinity(0)))
    with to.table("fleet", FIELDS) as table:
        fleets = {}
        for hosts in map(int, to.more or (250, 1000)):
            path = os.path.abspath(f"fleet-{hosts}")
            figures = measured(["generate", "--hosts", hosts, "--days", 1, path], most)[0]
            fleets[hosts] = path, hosts * 3 * 24 * 1440, sum(map(os.path.getsize, glob.glob(f"{path}/*/*/*/*.parquet")))
            table.row(0, "generate", "", hosts, most, *fleets[hosts][1:], *figures, "")
        cells = [(engine, question, hosts, processors) for engine in ("duckdb", "spark") for question in QUESTIONS
                 for hosts in fleets for processors in range(1, most + 1)]
        first = {}
        for number, order in rounds(to.rounds, cells, name="fleet"):
            for engine, question, hosts, processors in order:
                path, *sizes = fleets[hosts]
                more = (["--ask", question] if question != "all" else []) + (["--master", f"local[{processors}]"] if engine == "spark" else [])
                figures, printed = measured(["report", path, "--engine", engine, "--format", "json", *more], processors)
                rows = rows_of(printed)
                table.row(number, engine, question, hosts, processors, *sizes, *figures,
                          is_same(rows, first.setdefault((question, hosts), rows)))
