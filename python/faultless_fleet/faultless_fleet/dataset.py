"""A data set and the part that is asked about: its files by table, what is lost or damaged, and what is left.

A partition is a date, a service and, if the paths name them, a host and a run. A question reads only partitions that
all its tables have, so that a lost one changes what was observed and not what a host costs.
"""

import datetime
import os
import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from .errors import Problem
from .schema import PARTITIONS, TABLES, VERSION, differs

# Most values that an error lists.
LISTED = 8
# What engines call a partition without a value.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """A Parquet file, as the engine names it, and its partition."""
    path: str
    date: str
    service: str
    host: str
    run: str

    @property
    def partition(self):
        return self.date, self.service, self.host, self.run


@dataclass(frozen=True)
class Missing:
    """What could not be read: a file, or a partition of a table; and the partition that a question does without."""
    table: str
    where: str
    why: str
    partition: tuple = ()

    @property
    def left_out(self):
        """What questions do without; "" for nothing that is there."""
        return f"questions that read {self.table} leave out {named(self.partition)}" if any(self.partition) else ""

    def __str__(self):
        return "; ".join(filter(None, [f"{self.table}: {self.where}: {self.why}", self.left_out]))


@dataclass
class Dataset:
    """Files by table; what is missing so far."""
    files: dict
    missing: list = field(default_factory=list)

    def drop(self, table, path, why):
        """Leaves a file out, and says so."""
        self.files[table] = [file for file in self.files[table] if file.path != path]
        self.missing.append(Missing(table, path, why, partition(path)))

    def common(self, tables):
        """Table -> files of the partitions that all `tables` have undamaged."""
        lost = {entry.partition for entry in self.missing if entry.table in tables}
        kept = set.intersection(*({file.partition for file in self.files[table]} for table in tables)) - lost
        return {table: [file for file in self.files[table] if file.partition in kept] for table in tables}


def partition(path):
    """Date, service, host and run that a path names; "" for what it does not."""
    parts = dict(re.findall(r"(?:^|/)(date|service|host)=([^/]*)", path))
    run = re.search(r"/([0-9a-f]{32})\.parquet$", path)
    return (*(unquote(parts.get(key, "")) for key in PARTITIONS), run[1] if run else "")


def named(parts):
    """A partition as its folders are named, for a message."""
    return "/".join(f"{key}={value}" for key, value in zip((*PARTITIONS, "run"), parts) if value)


def wrong(file):
    """What is wrong with the partition that a file's path names; "" for nothing."""
    if not day_of(file.date):
        return f"wrong: date={file.date} is none: it must be YYYY-MM-DD" if file.date else "wrong: no date=YYYY-MM-DD"
    if file.service in ("", NO_VALUE):
        return "wrong: no service=NAME"
    return "wrong: no host=NAME" if file.host == NO_VALUE else ""


def day_of(text):
    """The day that a path names, or None."""
    try:
        return datetime.date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else None
    except ValueError:
        return None


def choose(engine, source, tables, asked):
    """The data set of these tables, restricted to the dates and services that were asked for, its files checked."""
    every = {table: [File(path, *partition(path)) for path in engine.files(table)] for table in TABLES}
    misplaced = {table: [file for file in files if wrong(file)] for table, files in every.items()}
    every = {table: [file for file in files if not wrong(file)] for table, files in every.items()}
    if not any(every.values()):
        raise Problem(f"{source}: no records: expected {source}/runs/date=YYYY-MM-DD/service=NAME/...parquet; "
                      "`faultless export --format parquet -o DIR TRACE...` writes them")
    check_asked(source, [file for files in every.values() for file in files], asked)
    chosen = {table: [file for file in files if asked.has(file)] for table, files in every.items()}
    data = Dataset({table: chosen[table] for table in tables})
    name_misplaced(data, misplaced, asked)
    find_lost(data, {file.partition for files in chosen.values() for file in files})
    check_footers(engine, source, data)
    if not data.files["runs"]:
        raise Problem(f"{source}: no table `runs` that can be read: every question needs it; {data.missing[0]}")
    return data


def check_asked(source, files, asked):
    """Fails if the source has no such dates or services."""
    dates, services = sorted({file.date for file in files}), sorted({file.service for file in files})
    for service in asked.services:
        if service not in services:
            more = ", ..." if len(services) > LISTED else ""
            raise Problem(f"no service '{service}' in {source}: it has {', '.join(services[:LISTED])}{more}")
    if not any(asked.has(file) for file in files):
        services = f" of {' or '.join(asked.services)}" if asked.services else ""
        raise Problem(f"no records{services} from {asked.since or dates[0]} to {asked.until or dates[-1]} in {source}: "
                      f"it has {dates[0]} to {dates[-1]}; change --since or --until")


def name_misplaced(data, misplaced, asked):
    """Names partitions whose paths are wrong. Their date may be any that is asked about."""
    for table in sorted(data.files):
        found = {os.path.dirname(file.path): file for file in misplaced[table]
                 if not asked.services or file.service in asked.services}
        for path, file in sorted(found.items()):
            data.missing.append(Missing(table, path, wrong(file), file.partition[:3]))


def find_lost(data, every):
    """Names partitions of `every` that a table lacks, and days without any."""
    for table in sorted(data.files):
        have = {file.partition for file in data.files[table]}
        if not have:
            why = "lost: other tables have files, this one has none; questions that read it have no rows"
            data.missing.append(Missing(table, table, why))
            continue
        folders = {(*parts[:3], "") for parts in have}
        # Where a table has nothing of a folder, the folder is named and not each run in it.
        for lost in sorted({parts if (*parts[:3], "") in folders else (*parts[:3], "") for parts in every - have}):
            data.missing.append(Missing(table, named(lost), "lost: other tables have this partition", lost))
    days = sorted({day_of(parts[0]) for parts in every})
    for day, after in zip(days, days[1:]):
        for number in range(1, (after - day).days):
            lost = day + datetime.timedelta(number)
            data.missing.append(Missing("runs", f"date={lost}", "lost: no table has this day, and there are days before and after"))


def check_footers(engine, source, data):
    """Leaves out files whose end can't be read, those of another schema version, and those with other columns."""
    versions = set()
    for table in data.files:
        found = engine.footers([file.path for file in data.files[table]])
        for path, (version, columns, why) in found.items():
            versions.add(version)
            if why:
                data.drop(table, path, why)
            elif version != VERSION:
                known = f"schema version {version}" if version else "no schema version: faultless did not write it"
                data.drop(table, path, f"{known}; this program reads version {VERSION}")
            elif unlike := differs(table, partition(path)[2], columns):
                data.drop(table, path, f"damaged: {unlike}")
    if versions and not versions & {VERSION, None}:
        raise Problem(f"{source}: schema version {', '.join(sorted(versions))}, and this program reads {VERSION}: "
                      "install the version of faultless-fleet that belongs to the faultless that wrote it")
