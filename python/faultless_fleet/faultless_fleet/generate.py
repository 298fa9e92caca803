"""The verb `generate`: a synthetic fleet -> a data set, a file for each table, date and service.

All tables of a run come from its samples, so their sums are equal. Memory does not grow with hosts, days or services.
"""

import datetime
import functools
import hashlib
import json
import os
import shutil
import statistics
import sys

import numpy
import pyarrow
from pyarrow import parquet

from . import fleet as model
from .errors import Problem
from .schema import TABLES, VERSION, VERSION_KEY

FIRST_DAY = datetime.date(2026, 11, 1)
RUN_NS = 3_600_000_000_000
# Rows of samples that are held at a time; also the rows of a group in the file.
CHUNK_ROWS = 1 << 20
# A random number of 12 bits picks the stack, and another one the duration.
BITS = 12
# The spread of single faults around their mean: of the logarithm, assumed.
FAULT_LOG_SD = 0.5
MACHINES = {"thp": "madvise", "is_guest": True}
# Bytes a row on disk, measured; what is stated before anything is written.
BYTES = {"runs": 70, "kinds": 27, "sites": 32, "mechanisms": 52, "samples": 13.9, "frames": 0.7, "prices": 35}
ARROW = {"STRING": pyarrow.string(), "BIGINT": pyarrow.int64(), "INT": pyarrow.int32(), "DOUBLE": pyarrow.float64(),
         "BOOLEAN": pyarrow.bool_(), "TIMESTAMP": pyarrow.timestamp("us", tz="UTC")}


def generate(wanted, progress):
    """Writes the data set. It has its name only when it is whole."""
    fleet = model.Fleet(wanted)
    sizes = rows_of(fleet, wanted)
    tell(wanted, sizes)
    part = f"{wanted.dir.rstrip('/')}.part"
    check_folder(wanted.dir, part, sizes)
    for day in range(wanted.days):
        for service in fleet.services:
            progress.now(f"day {day + 1} of {wanted.days}, service {service.number + 1} of {wanted.services}")
            write_partition(fleet, service, day, part, wanted.samples)
    with open(f"{part}/planted.json", "w", encoding="utf-8") as file:
        json.dump(fleet.planted(), file, indent=1)
    os.rename(part, wanted.dir)


def rows_of(fleet, wanted):
    """Table -> rows, nearly: rows without faults are left out."""
    runs = {service.name: len(fleet.hosts_of(service)) * fleet.hours for service in fleet.services}
    total, by = sum(runs.values()), lambda count: sum(runs[service.name] * count(service) for service in fleet.services)
    return {"runs": total, "kinds": by(lambda service: len(service.kinds)), "sites": total * model.SITES,
            "mechanisms": by(lambda service: len(service.mechanisms)), "samples": total * wanted.samples,
            "frames": total * model.STACKS * model.DEPTH, "prices": by(lambda service: len(service.kinds))}


def tell(wanted, sizes):
    """The sizes, before anything is written."""
    rows = ", ".join(f"{count:,} {table}".replace(",", " ") for table, count in sizes.items())
    print(f"faultless-fleet: {wanted.hosts} hosts, {wanted.days} days, {wanted.services} services: {rows}; "
          f"about {bytes_of(sizes) / 1e6:,.0f} MB".replace(",", " ", 0), file=sys.stderr)


def bytes_of(sizes):
    return sum(count * BYTES[table] for table, count in sizes.items())


def check_folder(path, part, sizes):
    """Fails unless the data set can be written."""
    for name in (path, part):
        if os.path.exists(name):
            raise Problem(f"{name} exists: remove it or name another folder")
    try:
        os.makedirs(part)
    except OSError as error:
        raise Problem(f"{part}: {error.strerror}: name a folder that can be written") from error
    free = shutil.disk_usage(part).free
    if free < bytes_of(sizes):
        os.rmdir(part)
        raise Problem(f"{path}: {free / 1e6:.0f} MB are free, and about {bytes_of(sizes) / 1e6:.0f} MB are needed: fewer --hosts, --days or --samples")


def write_partition(fleet, service, day, folder, samples):
    """All tables of one service and day."""
    date = (FIRST_DAY + datetime.timedelta(day)).isoformat()
    hosts = fleet.hosts_of(service)
    if not len(hosts):
        return
    host = numpy.repeat(hosts, model.RUNS_PER_DAY)
    hour = numpy.tile(numpy.arange(model.RUNS_PER_DAY), len(hosts)) + day * model.RUNS_PER_DAY
    is_after = fleet.is_after(service, host, hour)
    random = numpy.random.default_rng([fleet.seed, 2, service.number, day])
    # By release: a chunk has one table of weights, and the file compresses better.
    order = numpy.argsort(is_after, kind="stable")
    writers = {}
    try:
        for later in (False, True):
            chosen = order[is_after[order] == later]
            step = max(CHUNK_ROWS // samples, 1)
            for begin in range(0, len(chosen), step):
                runs = chosen[begin:begin + step]
                tables = Chunk(fleet, service, later, host[runs], hour[runs], random, samples).tables(date)
                for name, table in tables.items():
                    if name not in writers:
                        writers[name] = Writer(f"{folder}/{name}/date={date}/service={service.name}", table.schema)
                    writers[name].write(table)
    finally:
        for writer in writers.values():
            writer.close()


class Writer:
    """One Parquet file, under another name until it is whole."""

    def __init__(self, folder, schema):
        os.makedirs(folder)
        self.path = f"{folder}/part-0.parquet"
        texts = [field.name for field in schema if pyarrow.types.is_dictionary(field.type) or field.type in (pyarrow.string(), pyarrow.int32())
                 or field.name in ("stack", "wait_ns")]
        self.writer = parquet.ParquetWriter(f"{self.path}.tmp", schema, compression="zstd", use_dictionary=texts,
                                            store_schema=False, write_page_checksum=True)
        self.writer.add_key_value_metadata({VERSION_KEY: VERSION})

    def write(self, table):
        self.writer.write_table(table, row_group_size=CHUNK_ROWS)

    def close(self):
        self.writer.close()
        os.rename(f"{self.path}.tmp", self.path)


class Chunk:
    """Some runs of one service and release: their samples, then everything else as sums of these."""

    def __init__(self, fleet, service, later, host, hour, random, samples):
        self.fleet, self.service, self.later, self.host, self.hour, self.samples = fleet, service, later, host, hour, samples
        count, rows = len(host), len(host) * samples
        noise = lambda sd: random.lognormal(-sd * sd / 2, sd, count)
        load = 1 + 0.4 * numpy.sin((hour % 24 - 9) * numpy.pi / 12)
        self.cpu_ns = (RUN_NS * service.cores * fleet.busy[host] * load * noise(0.1)).astype(numpy.int64)
        factor = service.factor if later else 1.0
        self.faults = numpy.maximum(self.cpu_ns / 1e9 * service.rate * factor * noise(0.1), samples).astype(numpy.int64)
        weight = self.faults / samples
        bits = random.integers(0, 1 << 32, rows, dtype=numpy.uint32)
        self.numbers = numpy.array([number(tuple(service.stack(at))) for at in range(model.STACKS)])
        self.stack = stack_table(service.after if later else service.before)[bits & (1 << BITS) - 1]
        prices = numpy.array([numpy.repeat(service.prices(name), model.STACKS_PER_SITE) for _, name in model.PROCESSORS])
        self.run_price = fleet.kernel_ratio[host] * noise(model.STATISTICS["price_log_sd"])
        self.run = numpy.repeat(numpy.arange(count, dtype=numpy.int32), samples)
        by_run = (prices[fleet.processor[host]] * (self.run_price * weight)[:, None])
        cell = self.run * model.STACKS + self.stack
        self.sample_ns = numpy.round(by_run.ravel()[cell] * DURATIONS[bits >> BITS & (1 << BITS) - 1], 1)
        self.weight, self.bits = weight, bits
        shape = (count, model.SITES, model.STACKS_PER_SITE)
        self.site_faults = numpy.bincount(cell, minlength=count * model.STACKS).reshape(shape).sum(2) * weight[:, None]
        self.site_ns = numpy.bincount(cell, self.sample_ns, count * model.STACKS).reshape(shape).sum(2)

    def tables(self, date):
        """Table -> Arrow table."""
        names = [hashlib.md5(f"{self.fleet.seed} {self.service.name} {host} {hour}".encode()).hexdigest() for host, hour in zip(self.host, self.hour)]
        self.names, self.hosts = pyarrow.array(names), pyarrow.array([f"host-{host:05}" for host in range(len(self.fleet.kernel))])
        make = {"runs": self.runs, "kinds": self.kinds, "sites": self.sites, "mechanisms": self.mechanisms, "samples": self.sample_rows,
                "frames": self.frames, "prices": self.prices}
        return {name: self.table(name, *made()) for name, made in make.items()}

    def table(self, name, run, columns):
        """`run`: the number of each row's run."""
        # Nothing waits in this fleet: no fault needs a disk.
        columns = {"run": texts(self.names, run), **columns, "wait_ns": numpy.zeros(len(run)), "host": texts(self.hosts, self.host[run])}
        arrays = []
        for column, kind in [*TABLES[name].items(), ("host", "STRING")]:
            values = columns[column]
            arrays.append(values if isinstance(values, pyarrow.Array) else pyarrow.array(values, ARROW[kind]))
        return pyarrow.table(arrays, names=[*TABLES[name], "host"])

    def runs(self):
        """A row a run."""
        count, fleet, service = len(self.host), self.fleet, self.service
        begin = (numpy.datetime64(FIRST_DAY, "us") + self.hour * numpy.timedelta64(3600, "s")).astype("datetime64[us]")
        total = self.site_ns.sum(1)
        same = lambda value: texts(pyarrow.array([value], pyarrow.string()), numpy.zeros(count, numpy.int32))
        return numpy.arange(count), {
            "begin": begin, "wall_ns": numpy.full(count, RUN_NS), "cpu_ns": self.cpu_ns, "command": same(service.command),
            "release": same(service.releases[self.later]), "kernel": texts(pyarrow.array(model.KERNELS), fleet.kernel[self.host]),
            "cpu": texts(pyarrow.array([name for name, _ in model.PROCESSORS]), fleet.processor[self.host]),
            "cpus": numpy.full(count, 32), "thp": same(MACHINES["thp"]), "is_guest": numpy.full(count, MACHINES["is_guest"]),
            "build_id": same(build_id(service.name + service.releases[self.later])), "processes": numpy.full(count, 4), "faults": self.faults,
            "major_faults": numpy.zeros(count, numpy.int64), **ends(total, "fault_{}ns"), "calls_ns": self.calls_ns().sum(1),
            "avoidable_low": numpy.full(count, 0.5), "avoidable_high": numpy.full(count, 0.9), "kept_bytes": numpy.full(count, 64 << 20),
            "peak_rss_bytes": numpy.full(count, 1 << 30), "is_whole": numpy.full(count, True)}

    def calls_ns(self):
        """ns of the calls that give memory back, by mechanism."""
        cured = numpy.array([model.CALLS if model.mechanism(name).cure else 0 for name in self.service.mechanisms])
        return self.summed(self.site_ns, self.service.site_mechanism, self.service.mechanisms) * cured

    @staticmethod
    def summed(by_site, of_site, groups):
        """Sums of the sites of each group, by run."""
        return by_site @ numpy.array([[name == group for group in groups] for name in of_site], float)

    def kinds(self):
        """A row a run and kind."""
        faults, ns = (self.summed(values, self.service.site_kind, self.service.kinds) for values in (self.site_faults, self.site_ns))
        run, kind = numpy.nonzero(faults)
        return run, {"kind": texts(pyarrow.array(self.service.kinds), kind), "faults": faults[run, kind], "time_ns": ns[run, kind]}

    def sites(self):
        """A row a run and site."""
        service = self.service
        run, site = numpy.nonzero(self.site_faults)
        of_service = lambda value: texts(pyarrow.array([value]), numpy.zeros(len(run), numpy.int32))
        return run, {
            "function": texts(pyarrow.array(service.functions), site), "caller": texts(pyarrow.array([service.caller(at) for at in range(model.SITES)]), site),
            "module": of_service(service.name), "build_id": of_service(build_id(service.name)), "place": pyarrow.nulls(len(run), pyarrow.string()),
            "faults": self.site_faults[run, site],
            **ends(self.site_ns[run, site], "{}ns", "time_")}

    def mechanisms(self):
        """A row a run and mechanism."""
        names = self.service.mechanisms
        about = [model.mechanism(name) for name in names]
        faults, ns = (self.summed(values, self.service.site_mechanism, names) for values in (self.site_faults, self.site_ns))
        calls = self.calls_ns()
        run, which = numpy.nonzero(faults)
        pick = lambda values, kind=None: pyarrow.array(values, kind).take(pyarrow.array(which))
        has_cure = numpy.array([bool(entry.cure) for entry in about])[which]
        saved = lambda key: pyarrow.array((ns + calls)[run, which] * numpy.array([getattr(entry, key) for entry in about])[which], mask=~has_cure)
        return run, {
            "mechanism": pick(names), "what": pick([entry.what for entry in about]), "faults": faults[run, which],
            **ends(ns[run, which], "{}ns", "time_"), "calls_ns": calls[run, which], "cure": pick([entry.cure for entry in about], pyarrow.string()),
            "saves_low_ns": saved("saves_low"), "saves_high_ns": saved("saves_high"),
            "keeps_bytes": pick([entry.keeps_mib << 20 if entry.cure else None for entry in about], pyarrow.int64())}

    def sample_rows(self):
        """A row a sample: evenly over the run, give or take."""
        count, bits = len(self.host), self.bits
        at = numpy.tile(numpy.arange(self.samples), count) + (bits >> 24) / 256
        pid = (1000 + self.host * 7 % 30000).astype(numpy.int32)[self.run] + (bits >> 24 & 3).astype(numpy.int32)
        kind = numpy.array([self.service.kinds.index(kind) for kind in self.service.site_kind], numpy.int32)
        return self.run, {
            "time_ns": (at * (RUN_NS / self.samples)).astype(numpy.int64), "pid": pid, "tid": pid + (bits >> 26 & 7).astype(numpy.int32),
            "kind": texts(pyarrow.array(self.service.kinds), kind[self.stack // model.STACKS_PER_SITE]), "stack": self.numbers[self.stack],
            "faults": numpy.repeat(self.weight, self.samples), "fault_ns": self.sample_ns}

    def frames(self):
        """The dictionary of stacks, once a run."""
        stacks = map(self.service.stack, range(model.STACKS))
        frames = [(number, depth, *frame) for number, stack in zip(self.numbers, stacks) for depth, frame in enumerate(stack)]
        count = len(self.host)
        run = numpy.repeat(numpy.arange(count, dtype=numpy.int32), len(frames))
        row = numpy.tile(numpy.arange(len(frames), dtype=numpy.int32), count)
        stack, depth, function, module = zip(*frames)
        none = pyarrow.nulls(len(run))
        return run, {
            "stack": numpy.array(stack)[row], "depth": numpy.array(depth, numpy.int32)[row], "function": coded(function, row),
            "module": coded(module, row), "build_id": coded([build_id(name) for name in module], row),
            "address": numpy.array([address(name) for name in function])[row], "file": none.cast(pyarrow.string()),
            "line": none.cast(pyarrow.int32())}

    def prices(self):
        """A row a run and kind."""
        kinds, service = self.service.kinds, self.service
        site = [service.site_kind.index(kind) for kind in kinds]
        known = numpy.array([service.prices(name)[site] for _, name in model.PROCESSORS])
        price = (known[self.fleet.processor[self.host]] * self.run_price[:, None]).ravel()
        run = numpy.repeat(numpy.arange(len(self.host)), len(kinds))
        return run, {"kind": coded(kinds, numpy.tile(numpy.arange(len(kinds)), len(self.host))), **ends(price, "{}ns", "price_")}


def texts(values, which):
    """`values` by number, as a dictionary: the file has each text once."""
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(which, pyarrow.int32()), values)


def coded(values, which):
    """The same for a list with repetitions."""
    distinct = sorted(set(values))
    return texts(pyarrow.array(distinct), numpy.array([distinct.index(value) for value in values], numpy.int32)[which])


def ends(value, name, middle=""):
    """Three columns: low end, value, high end."""
    width = model.STATISTICS["half_width"]
    return {name.format("low_"): value * (1 - width), name.format(middle): value, name.format("high_"): value * (1 + width)}


def build_id(name):
    return hashlib.sha1(name.encode()).hexdigest()


def address(function):
    return 4096 + int(hashlib.md5(function.encode()).hexdigest()[:5], 16)


@functools.cache
def number(stack):
    """The number of a stack, as crates/cli/docs/parquet.md specifies it. No module here is a file."""
    return fnv1a(b"".join(f"{function}\0{module}\0{build_id(module)}\0\0".encode() + bytes(16) for function, module in stack))


def fnv1a(data):
    """FNV-1a of 128 bits, folded to 64, with a sign."""
    found = 0x6c62272e07bb014262b821756295c58d
    for byte in data:
        found = (found ^ byte) * ((1 << 88) + 0x13b) % (1 << 128)
    found = (found ^ found >> 64) % (1 << 64)
    return found - ((found >> 63) << 64)


def stack_table(weights):
    """A stack for each random number, as often as the weights of its site say; the site's stacks have 4, 2 and 1 parts of 7."""
    parts = numpy.array([4, 2, 1]) / 7
    bounds = numpy.cumsum(numpy.outer(weights, parts).ravel())
    return numpy.searchsorted(bounds, (numpy.arange(1 << BITS) + 0.5) / (1 << BITS)).clip(0, model.STACKS - 1).astype(numpy.int32)


def durations():
    """Factors of single faults: quantiles of a log-normal distribution, with the mean 1."""
    normal = statistics.NormalDist(0, FAULT_LOG_SD)
    drawn = numpy.exp([normal.inv_cdf((at + 0.5) / (1 << BITS)) for at in range(1 << BITS)])
    return drawn / drawn.mean()


DURATIONS = durations()
