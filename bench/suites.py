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
from suites.outcomes import Box, OutOfTime, Skip, Way, counts, progress, tally

MODULES = ("files", "interpreters", "pytests", "servers", "media", "builds", "system", "tools")
QUICK_S = 40
# The largest file that a run may write: a core file of a large address space fills a disk.
FILE_BYTES = 8 << 30
# Time that a --quick run keeps for the table.
SPARE_S = 3
# Directories of programs that are not on every PATH.
MORE_PATH = ("/usr/sbin", "/sbin", "/usr/games")


def arguments():
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--quick", action="store_true", help=f"only the short units of installed programs, at most {QUICK_S} s")
    found.add_argument("--install", action="store_true", help="install what is missing (apt-get needs root)")
    found.add_argument("--only", default="", metavar="NAMES", help="only these suites, separated by commas; SUITE/TEXT takes units with TEXT")
    found.add_argument("--faultless", default="faultless", metavar="PATH", help="the program to test [faultless]")
    found.add_argument("--policy", default="", metavar="OPTIONS", help="more options of `faultless run`, as one word")
    found.add_argument("--out", metavar="DIR", help="store raw logs, results.csv and table.md here")
    found.add_argument("--jobs", type=int, metavar="N", help="units to run at once [1; 2 with --quick]")
    found.add_argument("--list", action="store_true", help="print the suites and exit")
    found.add_argument("--small", default="mimalloc", metavar="NAMES", help="values of --small to test beside the default [mimalloc]")
    return found.parse_args()


def ways(options):
    """Plain, `run`, and `run` with each allocator for small blocks."""
    faultless = shutil.which(options.faultless)
    if not faultless:
        raise SystemExit(f"suites.py: no program {options.faultless}: build it or name it with --faultless")
    run = (os.path.abspath(faultless), "run", *shlex.split(options.policy))
    small = [name for name in options.small.split(",") if name]
    return [Way("plain", ()), Way("run", (*run, "--"))] + [
        Way("small" if len(small) == 1 else f"small={name}", (*run, f"--small={name}", "--")) for name in small]


def install(packages):
    """Installs Debian packages; none of their services is started."""
    progress(f"  apt-get install {' '.join(packages)}")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", "-q", *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=900)
    if done.returncode:
        progress(f"  apt-get failed: {done.stderr.decode(errors='replace').strip()[-200:]}")


def missing(suite, box):
    lacking = [name for name in suite.needs if not shutil.which(name)]
    if lacking and box.install and suite.apt and outcomes.root() and shutil.which("apt-get"):
        install(suite.apt)
        lacking = [name for name in suite.needs if not shutil.which(name)]
    if lacking:
        raise Skip(f"{', '.join(lacking)} not installed")


def version(suite):
    """The first thing that looks like a version in what the command prints."""
    done = subprocess.run(["sh", "-c", suite.version], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    found = re.search(rb"\d+(\.\d+)+[\w.+-]*", done.stdout + done.stderr)
    return found[0].decode() if found else "unknown"


def take(suite, box, jobs, wanted):
    """Runs the units of a suite and gives their rows. Rows that are there already remain after a stop."""
    rows, whole = [], True
    missing(suite, box)
    units = [unit for unit in suite.units(box) if (unit.quick or not box.quick) and wanted in unit.name]
    pool = ThreadPoolExecutor(jobs)
    waiting = [pool.submit(outcomes.compare, suite.name, box, unit) for unit in units]
    try:
        for done in as_completed(waiting):
            try:
                rows += done.result()
            except OutOfTime:
                whole = False
            except Skip as reason:
                progress(f"  {suite.name}: left out: {reason}")
        return rows, "" if whole else "out of time"
    except KeyboardInterrupt:
        return rows, "stopped"
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        box.stop()
        pool.shutdown()


class Table:
    """The rows of the table, and all cases."""

    def __init__(self, found):
        self.ways, self.lines, self.rows = [way.name for way in found], [], []

    def skipped(self, suite, reason):
        self.lines.append([suite.name, "", what(suite), *[""] * len(self.ways), f"skipped: {reason}"])

    def add(self, suite, found, rows, note):
        rows.sort(key=lambda row: (row.unit, row.case))
        self.rows += rows
        said = [f"{way}: {number} {kind}" for way in self.ways[1:] for kind in ("different", "flaky")
                if (number := sum(row.verdicts[way] == kind for row in rows))]
        self.lines.append([suite.name, found, what(suite), *[counts(rows, way) for way in self.ways],
                           "; ".join(said + [note] * bool(note)) or "none"])

    def markdown(self):
        head = ["program", "version", "what ran", *self.ways, "differences"]
        text = [f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *self.lines]]
        found = [row for row in self.rows if set(row.verdicts.values()) != {"same"}]
        if found:
            text += ["", "| program | unit | case | way | verdict | plain | way's |", "|---|---|---|---|---|---|---|"]
        for row in found[:200]:
            text += [f"| {row.suite} | {row.unit} | {row.case} | {way} | {verdict} | {tally(row.outcomes[self.ways[0]])} | {tally(row.outcomes[way])} |"
                     for way, verdict in row.verdicts.items() if verdict != "same"]
        if len(found) > 200:
            text.append(f"\n{len(found) - 200} more are in results.csv.")
        return "\n".join(text) + "\n"

    def store(self, folder):
        (folder / "table.md").write_text(self.markdown())
        with open(folder / "results.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["suite", "unit", "case", *self.ways, *[f"{way} verdict" for way in self.ways[1:]]])
            for row in self.rows:
                table.writerow([row.suite, row.unit, row.case, *[tally(row.outcomes[way]) for way in self.ways], *row.verdicts.values()])

    def different(self):
        return any("different" in row.verdicts.values() for row in self.rows)


def what(suite):
    return " ".join(suite.units.__doc__.split()).rstrip(".")


def chosen(options):
    """The suites that are asked for, each with the text that its units must contain."""
    for name in MODULES:
        importlib.import_module(f"suites.{name}")
    if not options.only:
        return [(suite, "") for suite in outcomes.SUITES if suite.quick or not options.quick]
    texts = dict(word.partition("/")[::2] for word in options.only.split(","))
    unknown = texts.keys() - {suite.name for suite in outcomes.SUITES}
    if unknown:
        raise SystemExit(f"suites.py: no suite {', '.join(sorted(unknown))}: --list names them")
    return [(suite, texts[suite.name]) for suite in outcomes.SUITES if suite.name in texts]


def run(options, table, found):
    deadline = time.monotonic() + (QUICK_S - SPARE_S if options.quick else 86400)
    suites = chosen(options)
    with tempfile.TemporaryDirectory(prefix="suites-", ignore_cleanup_errors=True) as work:
        os.chmod(work, 0o755)
        for number, (suite, wanted) in enumerate(suites):
            progress(f"[{number + 1}/{len(suites)}] {suite.name}: {what(suite)}")
            box = Box(Path(work) / suite.name, found, deadline, options.out, options.quick, options.install)
            try:
                rows, note = take(suite, box, options.jobs or 1 + options.quick, wanted)
                table.add(suite, box.version or version(suite), rows, note)
            except Skip as reason:
                table.skipped(suite, reason)
            except OutOfTime:
                table.skipped(suite, "out of time")
            except KeyboardInterrupt:
                note = "stopped"
                table.skipped(suite, note)
            if options.out:
                table.store(options.out)
            if table.lines[-1][-1].endswith("stopped"):
                return False
            shutil.rmtree(box.directory, ignore_errors=True)
    return True


def stop_once(*_):
    """The first signal ends the run with a partial table; later ones must not end the table."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


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
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_once)
    table = Table(found)
    whole = run(options, table, found)
    print(table.markdown(), end="")
    if not whole:
        progress("stopped: the table is partial")
        return 2
    return 1 if table.different() else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SystemExit as end:
        if isinstance(end.code, str):
            progress(end.code)
            sys.exit(2)
        raise
