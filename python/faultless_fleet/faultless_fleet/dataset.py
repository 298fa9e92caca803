"""A data set and the part that is asked about: its files by table, what is lost or damaged, and what is left.

A partition is a date, a service and, if the paths name it, a host. A question reads only partitions that all its tables
have, so that a lost one changes what was observed and not what a host costs.
"""

import datetime
import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from .errors import Problem
from .schema import TABLES, VERSION

# Most values that an error lists.
LISTED = 8


@dataclass(frozen=True)
class File:
    """A Parquet file, as the engine names it, and its partition."""
    path: str
    date: str
    service: str
    host: str

    @property
    def partition(self):
        return self.date, self.service, self.host


@dataclass(frozen=True)
class Missing:
    """What could not be read: a file, or a partition of a table; and the partition that a question does without."""
    table: str
    where: str
    why: str
    partition: tuple = ()

    def __str__(self):
        return f"{self.table}: {self.where}: {self.why}"


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
    """Date, service and host that a path names; "" for what it does not."""
    parts = dict(re.findall(r"(?:^|/)(date|service|host)=([^/]*)", path))
    return tuple(unquote(parts.get(key, "")) for key in ("date", "service", "host"))


def named(parts):
    """A partition as its folders are named, for a message."""
    return "/".join(f"{key}={value}" for key, value in zip(("date", "service", "host"), parts) if value)


def choose(engine, source, tables, asked):
    """The data set of these tables, restricted to the dates and services that were asked for, its files checked."""
    every = {table: [File(path, *partition(path)) for path in engine.files(table)] for table in TABLES}
    if not any(every.values()):
        raise Problem(f"{source}: no records: expected {source}/runs/date=YYYY-MM-DD/service=NAME/...parquet; "
                      "`faultless export --format parquet -o DIR TRACE...` writes them")
    check_asked(source, [file for files in every.values() for file in files], asked)
    chosen = {table: [file for file in files if asked.has(file)] for table, files in every.items()}
    data = Dataset({table: chosen[table] for table in tables})
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


def find_lost(data, every):
    """Names partitions of `every` that a table lacks, and days without any."""
    for table in sorted(data.files):
        have = {file.partition for file in data.files[table]}
        if not have:
            data.missing.append(Missing(table, table, "lost: other tables have files, this one has none"))
            continue
        for lost in sorted(every - have):
            data.missing.append(Missing(table, named(lost), "lost: other tables have this partition", lost))
    days = sorted({datetime.date.fromisoformat(date) for date, _, _ in every if date})
    for day, after in zip(days, days[1:]):
        for number in range(1, (after - day).days):
            lost = day + datetime.timedelta(number)
            data.missing.append(Missing("runs", f"date={lost}", "lost: no table has this day, and there are days before and after"))


def check_footers(engine, source, data):
    """Leaves out files whose end can't be read, and those of another schema version."""
    versions = set()
    for table in data.files:
        found = engine.versions([file.path for file in data.files[table]])
        for path, (version, why) in found.items():
            versions.add(version)
            if why:
                data.drop(table, path, why)
            elif version != VERSION:
                known = f"schema version {version}" if version else "no schema version: faultless did not write it"
                data.drop(table, path, f"{known}; this program reads version {VERSION}")
    if versions and not versions & {VERSION, None}:
        raise Problem(f"{source}: schema version {', '.join(sorted(versions))}, and this program reads {VERSION}: "
                      "install the version of faultless-fleet that belongs to the faultless that wrote it")
