"""A synthetic fleet: which service runs where, how it faults, and the facts that are planted in it.

Rates, prices, spreads and mixes of mechanisms are those of our records (statistics.json, which bench/fleet_statistics.py
writes). Loads, cores, names of functions and savings are assumed.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy

STATISTICS = json.loads((Path(__file__).parent / "statistics.json").read_text())

SERVICES_PER_HOST = 3
RUNS_PER_DAY = 24
SITES, STACKS_PER_SITE, DEPTH = 12, 3, 6
STACKS = SITES * STACKS_PER_SITE

# Planted. A release adds half of a service's faults at one site; a kernel zeroes pages twice; a cure takes four fifths
# of the faults of a mechanism away, and the estimates around it say 0.7 to 0.9.
WORSE, WORSE_RATIO = "checkout", 1.5
CURED, CURED_MECHANISM, CURE_TAKES = "thumbnails", "heap_top_trimmed", 0.8
DEAR_KERNEL, DEAR_RATIO = "6.1.0-41-amd64", 1.4
# Calls that give memory back take this part of the faults' time, of a mechanism with a cure; assumed.
CALLS = 0.2
KERNELS = [DEAR_KERNEL, "6.12.57-cloud", "6.18.44"]
# When a release begins, as a part of all hours; the last host follows a twelfth later.
WORSE_FROM, OTHERS_FROM, CURED_FROM, ROLLOUT = 1 / 3, 1 / 2, 2 / 3, 1 / 12

_NAMES = [WORSE, CURED, "search", "feed", "login", "mail", "ads", "maps", "billing", "video", "chat", "photos", "stock", "prices",
          "orders", "routes"]
_VERBS = ["parse", "load", "build", "merge", "decode", "copy", "resize", "index", "sort", "join", "pack", "render"]
_NOUNS = ["request", "rows", "image", "table", "reply", "page", "tree", "message", "batch", "frame", "basket", "query"]
_MALLOC = "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296"


@dataclass(frozen=True)
class Mechanism:
    """What a mechanism is in the tables. Savings are parts of its time."""
    what: str
    kind: str
    cure: str = None
    saves_low: float = 0
    saves_high: float = 0
    keeps_mib: int = 0


_KNOWN = {
    "heap_top_trimmed": Mechanism("glibc trims the top of the heap, and takes the same pages again", "heap_first_write", _MALLOC, 0.7, 0.9, 64),
    "block_above_mmap_threshold": Mechanism("large blocks of malloc are mapped and unmapped", "mmap_first_write", _MALLOC, 0.6, 0.95, 96),
    "arena_trimmed": Mechanism("the arenas of threads are trimmed", "mmap_first_write", _MALLOC, 0.5, 0.9, 128),
    "allocator_purge": Mechanism("the allocator purges at once", "mmap_first_write", "MALLOC_CONF=dirty_decay_ms:10000", 0.5, 0.8, 64),
    "go_scavenger": Mechanism("Go's scavenger gives pages back that are used again", "mmap_first_write", "a higher GOMEMLIMIT", 0.3, 0.7, 256),
    "file_pages": Mechanism("pages of files are mapped one by one", "file_read"),
    "copy_on_write": Mechanism("pages shared since fork are copied", "cow_after_fork"),
}


def mechanism(name):
    """Of every name that the records have."""
    return _KNOWN.get(name) or Mechanism(name.replace("_", " "), "mmap_first_write")


class Service:
    """How one service faults. Weights are parts of its faults, before any release."""

    def __init__(self, number, seed):
        random = numpy.random.default_rng([seed, 1, number])
        rates = sorted(STATISTICS["faults_per_cpu_s"].items())
        mixes = STATISTICS["mechanism_shares"]
        program, self.rate = rates[number % len(rates)]
        mix = mixes[random.integers(len(mixes))]
        if number < 2:
            program = ("python3", "temporaries")[number]
            self.rate = STATISTICS["faults_per_cpu_s"][program]
            mix = next(mix for mix in mixes if CURED_MECHANISM in mix and len(mix) == 2) if number else {"growth_by_copy": 0.6, "first_touch": 0.2}
        self.number = number
        self.name = _NAMES[number] if number < len(_NAMES) else f"service-{number + 1}"
        self.command = f"/srv/{self.name}/{program}"
        self.cores = round(float(random.lognormal(0.5, 0.5)), 2)
        self.releases = {WORSE: ("7.3", "7.4"), CURED: ("2.0", "2.1")}.get(self.name, (f"{number}.0", f"{number}.1"))
        self.begins = {WORSE: WORSE_FROM, CURED: CURED_FROM}.get(self.name, OTHERS_FROM)
        # One site in twelve is behind no mechanism, the others are dealt to the mechanisms in turn.
        self.mechanisms = list(mix)
        self.site_mechanism = [self.mechanisms[site % len(mix)] if site < SITES - 1 else None for site in range(SITES)]
        self.site_kind = [mechanism(name).kind if name else "file_private_write" for name in self.site_mechanism]
        self.kinds = sorted(set(self.site_kind))
        verbs = random.permutation(len(_VERBS))
        self.functions = [f"{_VERBS[verbs[site]]}_{_NOUNS[(site + number) % len(_NOUNS)]}" for site in range(SITES)]
        self.before = self._weights(mix)
        self.after, self.factor = self._released()

    def _weights(self, mix):
        total, weights = sum(mix.values()) / 0.95, numpy.zeros(SITES)
        for name, share in mix.items():
            sites = [site for site in range(SITES) if self.site_mechanism[site] == name]
            parts = 1 / numpy.arange(1, len(sites) + 1)
            weights[sites] = share / total * parts / parts.sum()
        weights[SITES - 1] = 0.05
        return weights

    def _released(self):
        """The weights after the release, and what the number of faults is multiplied with."""
        after = self.before.copy()
        if self.name == WORSE:
            after[0] += WORSE_RATIO - 1
        if self.name == CURED:
            after[[name == CURED_MECHANISM for name in self.site_mechanism]] *= 1 - CURE_TAKES
        return after / after.sum(), after.sum()

    def prices(self, processor):
        """ns of a fault at each site, on this processor and a kernel that is not dear."""
        known = STATISTICS["price_ns"][processor]
        return numpy.array([known.get("file_private_write" if kind == "cow_after_fork" else kind, known["mmap_first_write"]) for kind in self.site_kind])

    def stack(self, number):
        """Functions of a stack, innermost first, with their modules."""
        site, variant = divmod(number, STACKS_PER_SITE)
        own = [self.functions[site], self.caller(site), f"handle_{_NOUNS[(site + variant) % len(_NOUNS)]}", f"worker_{variant}"]
        return [(name, self.name) for name in own] + [("start_thread", "libc.so.6"), ("clone3", "libc.so.6")]

    def caller(self, site):
        return f"{self.name}::run_{_NOUNS[(site * 5 + self.number) % len(_NOUNS)]}"


PROCESSORS = sorted({name.split(", ")[0]: name for name in STATISTICS["price_ns"]}.items())


class Fleet:
    """The hosts. Kernels and processors are dealt out evenly, and at random to services."""

    def __init__(self, wanted):
        self.hours, self.seed = wanted.days * RUNS_PER_DAY, wanted.seed
        self.services = [Service(number, wanted.seed) for number in range(wanted.services)]
        random = numpy.random.default_rng([wanted.seed, 0])
        dealt = random.permutation(wanted.hosts)
        self.kernel, self.processor = dealt % len(KERNELS), dealt // len(KERNELS) % len(PROCESSORS)
        self.rollout = random.random(wanted.hosts) * ROLLOUT
        self.busy = random.lognormal(-0.02, 0.2, wanted.hosts)
        self.kernel_ratio = numpy.where(self.kernel == 0, DEAR_RATIO, 1.0)

    def hosts_of(self, service):
        """Numbers of the hosts that run a service: each host has three, far apart in the list."""
        count = len(self.services)
        step = max(count // SERVICES_PER_HOST, 1)
        hosts = numpy.arange(len(self.kernel))
        runs = [(hosts + turn * step) % count == service.number for turn in range(min(SERVICES_PER_HOST, count))]
        return hosts[numpy.logical_or.reduce(runs)]

    def is_after(self, service, hosts, hours):
        """Whether a run of that host and hour has the later release."""
        return hours >= (service.begins + self.rollout[hosts]) * self.hours

    def planted(self):
        """What a report must find, with the expected figures of this fleet."""
        facts = {"kernel": {"kernel": DEAR_KERNEL, "ratio": DEAR_RATIO}}
        for service in self.services[:2]:
            before, after = service.releases
            entry = {"service": service.name, "before": before, "after": after, "ratio": float(service.factor)}
            if service.name == CURED:
                entry |= {"mechanism": CURED_MECHANISM, "cure": _MALLOC, "cores": self._cores_saved(service)}
            facts["worse" if service.name == WORSE else "cured"] = entry
        return facts

    def _cores_saved(self, service):
        hosts = self.hosts_of(service)
        prices = numpy.array([service.prices(name) for _, name in PROCESSORS])[self.processor[hosts]] * self.kernel_ratio[hosts, None]
        is_cured = numpy.array([name == CURED_MECHANISM for name in service.site_mechanism])
        saved_ns = (prices * service.before * is_cured).sum(1) * CURE_TAKES
        return float((service.cores * self.busy[hosts] * service.rate * saved_ns).sum() / 1e9 * (1 + CALLS))
