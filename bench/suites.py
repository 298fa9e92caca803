#!/usr/bin/env python3
"""Runs test suites and jobs of real programs plain, under `faultless run` and
under `faultless run --small=mimalloc`. Measures no speed.

Prints a table of the cases and of their differences from plain. Where a case
differs, its unit runs three times more each way: a difference that does not
come again is flaky.

The status is 0 without a difference, 1 with differences, and 2 after an error.

    bench/suites.py --quick
    bench/suites.py --install --out suites-out
    bench/suites.py --only cpython,redis --policy "--policy base --decay \\
        200ms"
"""
import argparse, csv, importlib, os, re, resource, shlex, shutil, signal, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

sys.dont_write_bytecode = True

from suites import outcomes
from suites.outcomes import Box, OutOfTime, Skip, Way, progress

MODULES = ("files", "interpreters", "pytests", "servers", "builds", "system", "tools")
# Time of a --quick run, and what of it is kept for the table.
QUICK_S, SPARE_S = 40, 3
# The largest file that a run may write: a core file of a large address space fills a disk.
FILE_BYTES = 8 << 30
# Directories of programs that are not on every PATH.
MORE_PATH = ("/usr/sbin", "/sbin", "/usr/games")


def arguments():
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--quick", action="store_true", help=f"only the short units of installed programs, at most {QUICK_S} s")
    found.add_argument("--install", action="store_true", help="fetch the crates and Python packages that suites need")
    found.add_argument("--only", default="", metavar="NAMES", help="only these suites, separated by commas; SUITE/TEXT takes units with TEXT")
    found.add_argument("--faultless", default="faultless", metavar="PATH", help="the program to test [faultless]")
    found.add_argument("--policy", default="", metavar="OPTIONS", help="more options of `faultless run`, as one word")
    found.add_argument("--out", metavar="DIR", help="store raw logs and results.csv here")
    found.add_argument("--jobs", type=int, metavar="N", help="units to run at once [1; 2 with --quick]")
    found.add_argument("--list", action="store_true", help="print the suites and exit")
    return found.parse_args()


def fail(text):
    progress(f"suites.py: {text}")
    raise SystemExit(2)


def ways(options):
    """Plain, `run`, and `run` with the allocator for small blocks."""
    faultless = shutil.which(options.faultless) or fail(f"no program {options.faultless}: build it or name it with --faultless")
    run = (os.path.abspath(faultless), "run", *shlex.split(options.policy))
    return [Way("plain", ()), Way("run", (*run, "--")), Way("small", (*run, "--small=mimalloc", "--"))]


def version(suite):
    """The first thing that looks like a version in what the command prints."""
    done = subprocess.run(["sh", "-c", suite.version], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    found = re.search(rb"\d+(\.\d+)+[\w.+-]*", done.stdout + done.stderr)
    return found[0].decode() if found else "unknown"


def take(suite, box, jobs, wanted):
    """Runs the units of a suite: their rows, and why some are missing. Rows that are there already remain after a stop."""
    lacking = [name for name in suite.needs if not shutil.which(name)]
    if lacking:
        raise Skip(f"{', '.join(lacking)} not installed")
    rows, note = [], ""
    units = [unit for unit in suite.units(box) if (unit.quick or not box.quick) and wanted in unit.name]
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(outcomes.compare, suite.name, box, unit) for unit in units]
        try:
            for done in as_completed(waiting):
                try:
                    rows += done.result()
                except OutOfTime:
                    note = "out of time"
        except KeyboardInterrupt:
            note = "stopped"
        pool.shutdown(wait=False, cancel_futures=True)
        box.stop()
    return rows, note


def what(suite):
    return " ".join(suite.units.__doc__.split()).rstrip(".")


def line(*cells):
    print(f"| {' | '.join(cells)} |", flush=True)


def report(suite, found, names, rows, note):
    """The line of a suite, and a line below it for each difference."""
    said = [f"{way}: {number} {kind}" for way in names[1:] for kind in ("different", "flaky")
            if (number := sum(row.verdicts[way] == kind for row in rows))]
    line(suite.name, found, what(suite), *[outcomes.counts(rows, way) for way in names], "; ".join(said + [note] * bool(note)) or "none")
    for row in rows:
        for way, verdict in row.verdicts.items():
            if verdict != "same":
                plain, own = (outcomes.tally(row.outcomes[name]) for name in ("plain", way))
                line("", "", f"{row.unit}: {row.case}", plain, f"{way}: {own}", "", verdict)


def store(folder, names, rows):
    with open(folder / "results.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["suite", "unit", "case", *names, *[f"{way} verdict" for way in names[1:]]])
        for row in rows:
            table.writerow([row.suite, row.unit, row.case, *[outcomes.tally(row.outcomes[way]) for way in names], *row.verdicts.values()])


def chosen(options):
    """The suites that are asked for, each with the text that its units must contain."""
    for name in MODULES:
        importlib.import_module(f"suites.{name}")
    if not options.only:
        return [(suite, "") for suite in outcomes.SUITES if suite.quick or not options.quick]
    texts = dict(word.partition("/")[::2] for word in options.only.split(","))
    unknown = texts.keys() - {suite.name for suite in outcomes.SUITES}
    if unknown:
        fail(f"no suite {', '.join(sorted(unknown))}: --list names them")
    return [(suite, texts[suite.name]) for suite in outcomes.SUITES if suite.name in texts]


def run(options, found):
    """All rows, and whether the run came to its end."""
    deadline = time.monotonic() + (QUICK_S - SPARE_S if options.quick else 86400)
    suites, names, all_rows, note = chosen(options), [way.name for way in found], [], ""
    line("program", "version", "what ran", *names, "differences")
    line(*["---"] * (len(names) + 4))
    with tempfile.TemporaryDirectory(prefix="suites-", ignore_cleanup_errors=True) as work:
        os.chmod(work, 0o755)
        for number, (suite, wanted) in enumerate(suites):
            progress(f"[{number + 1}/{len(suites)}] {suite.name}: {what(suite)}")
            box = Box(Path(work) / suite.name, found, deadline, options.out, options.quick, options.install)
            try:
                rows, note = take(suite, box, options.jobs or 1 + options.quick, wanted)
                rows.sort(key=lambda row: (row.unit, row.case))
                report(suite, box.version or version(suite), names, rows, note)
                all_rows += rows
            except (Skip, OutOfTime) as reason:
                line(suite.name, "", what(suite), *[""] * len(names), f"skipped: {str(reason) or 'out of time'}")
            if options.out:
                store(options.out, names, all_rows)
            if note == "stopped":
                break
            shutil.rmtree(box.directory, ignore_errors=True)
    return all_rows, note != "stopped"


def main():
    options = arguments()
    if options.list:
        for suite, _ in chosen(options):
            print(f"{suite.name:14} {'quick' if suite.quick else '     '} {what(suite)}")
        return 0
    folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))[-1:]
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *folders, *MORE_PATH])
    found = ways(options)
    if options.out:
        options.out = Path(options.out).resolve()
        options.out.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rows, whole = run(options, found)
    if not whole:
        progress("stopped: the table is partial")
        return 2
    return int(any("different" in row.verdicts.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
