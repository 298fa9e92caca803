"""The program `faultless-fleet`. Standard output: the answers. Exit 0: whole, 1: incomplete, 2: no answer."""

import argparse
import datetime
import errno
import os
import stat
import sys
import tempfile

from . import page, text
from .errors import Problem, first_line
from .progress import Progress
from .questions import ORDER
from .report import Asked, take

FORMATS = {"text": text.as_text, "csv": text.as_csv, "json": text.as_json}
# Most missing parts that standard error lists; JSON and the page have all.
LISTED = 100


def main(words=None):
    """Runs one command and returns the exit status."""
    wanted = parser().parse_args(words)
    try:
        return wanted.run(wanted)
    except Problem as problem:
        print(f"faultless-fleet: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has seen enough.
        return 0


def parser():
    top = argparse.ArgumentParser(prog="faultless-fleet", description="What page faults cost a fleet, from its Parquet records.")
    verbs = top.add_subparsers(required=True, metavar="VERB")
    add_report(verbs.add_parser("report", help="answer questions about a fleet in SQL, by DuckDB or Spark"))
    add_generate(verbs.add_parser("generate", help="write a synthetic fleet with planted facts"))
    return top


def add_report(verb):
    verb.description = "Answers questions about a fleet: what page faults cost, where, since which release, and what a cure saves."
    verb.add_argument("source", metavar="SOURCE", help="folder or URL that `faultless export --format parquet -o` wrote")
    verb.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb", help="who answers [duckdb]")
    verb.add_argument("--master", metavar="URL", help="Spark's master, e.g. spark://host:7077 [what spark-submit says, or local[*]]")
    verb.add_argument("--since", metavar="DATE", type=date, help="first day, YYYY-MM-DD")
    verb.add_argument("--until", metavar="DATE", type=date, help="last day, YYYY-MM-DD")
    verb.add_argument("--service", metavar="NAME", action="append", default=[], help="only this service; repeatable")
    verb.add_argument("--before", metavar="RELEASE", help="compare this release ...")
    verb.add_argument("--after", metavar="RELEASE", help="... with this one [each with the one before it]")
    verb.add_argument("--ask", metavar="QUESTION", action="append", choices=ORDER, help=f"only this question; repeatable: {', '.join(ORDER)}")
    verb.add_argument("--format", choices=FORMATS, default="text", help="of standard output [text]")
    verb.add_argument("--html", metavar="FILE", help="also write a page with plots")
    verb.set_defaults(run=report)


def add_generate(verb):
    verb.description = ("Writes a synthetic fleet with the statistics of faultless's own records: services that fault, releases, "
                        "kernels, processors. planted.json in DIR has the answers that a report must find.")
    verb.add_argument("dir", metavar="DIR", help="a folder that does not exist yet")
    verb.add_argument("--hosts", type=positive, required=True, metavar="N", help="hosts; each runs three services")
    verb.add_argument("--days", type=positive, required=True, metavar="D", help="days; each service has a run an hour")
    verb.add_argument("--services", type=positive, default=40, metavar="S", help="services [40]")
    verb.add_argument("--samples", type=positive, default=1440, metavar="N", help="samples of a run [1440: one in 2.5 s]")
    verb.add_argument("--seed", type=int, default=1, help="the same seed, the same rows [1]")
    verb.set_defaults(run=generate)


def date(word):
    """A date as in the data set's paths."""
    try:
        return datetime.date.fromisoformat(word).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{word}' is no date: write YYYY-MM-DD") from None


def positive(word):
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"'{word}' is no number from 1 on")
    return int(word)


def report(wanted):
    """The verb `report`."""
    if wanted.since and wanted.until and wanted.since > wanted.until:
        raise Problem(f"--since {wanted.since} is after --until {wanted.until}: swap them")
    if bool(wanted.before) != bool(wanted.after):
        raise Problem("--before and --after belong together: give both releases, or none")
    releases = (wanted.before, wanted.after) if wanted.before else ()
    asked = Asked(wanted.since or "", wanted.until or "", tuple(wanted.service), releases, tuple(wanted.ask or ORDER))
    if wanted.html:
        check_page(wanted.html)
    if wanted.master and wanted.engine != "spark":
        raise Problem("--master is Spark's: add --engine spark")
    with Progress() as progress:
        progress.now(f"starting {wanted.engine}")
        engine = opened(wanted)
        try:
            found = take(engine, wanted.source.rstrip("/"), asked, progress)
        finally:
            engine.close()
    for entry in found.missing[:LISTED]:
        print(f"faultless-fleet: {entry}", file=sys.stderr)
    if len(found.missing) > LISTED:
        print(f"faultless-fleet: and {len(found.missing) - LISTED} more; --format json lists all", file=sys.stderr)
    if wanted.html:
        write(wanted.html, page.as_html(found))
    say(FORMATS[wanted.format](found))
    return 1 if found.missing else 0


def opened(wanted):
    """The engine. Only the chosen one is imported: the other may not be installed."""
    if wanted.engine == "spark":
        from .spark import Spark
        return Spark(wanted.source, wanted.master)
    from .duck import Duck
    return Duck(wanted.source)


def say(answers):
    """Writes to standard output."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
        sys.stdout.write(answers)
        sys.stdout.flush()
    except OSError as error:
        if sys.stdout:
            # What is still held must not be tried again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise Problem(f"standard output: {error.strerror}: send it where there is room to write") from error


def check_page(path):
    """Fails if a page would take the place of a device, a pipe or a folder."""
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise Problem(f"{path}: it is there and is no regular file: give --html another name")


def write(path, content):
    """A whole file, or none. Where `path` is a link, the file that it names."""
    check_page(path)
    target = os.path.realpath(path)
    part = None
    try:
        handle, part = tempfile.mkstemp(prefix=".faultless-fleet-", suffix=".tmp", dir=os.path.dirname(target))
        with open(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(part, mode(target))
        os.replace(part, target)
        part = None
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}: give --html a file in a folder that can be written") from error
    finally:
        if part:
            os.unlink(part)


def mode(path):
    """The permissions of a file, or those of a new one."""
    if os.path.exists(path):
        return stat.S_IMODE(os.stat(path).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def generate(wanted):
    """The verb `generate`."""
    try:
        from .generate import generate as write_fleet
    except ImportError as error:
        raise Problem(f"{error.name} is not installed: pip install 'faultless-fleet[generate]'") from error
    try:
        with Progress() as progress:
            write_fleet(wanted, progress)
    except OSError as error:
        raise Problem(f"{wanted.dir}: {first_line(error)}: remove {wanted.dir.rstrip('/')}.part, and name a folder where "
                      "there is room") from error
    return 0
