#!/usr/bin/env python3
"""Writes the tables of RESULTS.md and other documents from the newest records.

    bench/results.py            # writes between <!-- table: NAME --> and <!-- end -->
    bench/results.py --check    # status 1 if that would change a file

A function of this file makes each table. Of every topic and machine it takes the newest folder, record/TOPIC/DATE-HOST.
`--check` also fails if a file below record/ serves no table, or if a host.txt has no command or no commit of this
repository. It warns if the crates that a record speaks of have changed by more than a tenth since.
"""
import itertools, re, sys

from harness import record
from harness.figures import Arms, cpu_s, faults, interval, median, peak_mib, wall_s
from harness.folders import Folder, Missing, Pair, folders, newest, pairs, provenance
from harness.limits import CANNOT_SAY, FEWEST, HOLDS, judge
from harness.tables import change, digits, extremes, grouped, middle, numbers, of, prose, ranged, share, table

DOCUMENTS = ("RESULTS.md", "README.md", "METHODOLOGY.md", "python/faultless_fleet/README.md")
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NAMES = {"chunk-pipeline": "chunk-pipeline, 2 workers", "temporaries": "temporaries, `a = b + c * d`", "bursts": "bursts, 8 times 500 MiB",
         "growth": "growth, realloc to 1 GiB", "cpp": "C++: hash map, vector, sort", "git": "git hash-object", "python3": "python3, json.load",
         "numpy": "NumPy", "node": "Node"}


def run_table(folder, wanted):
    rows = []
    for name, pair in sorted(pairs(folder).items(), key=lambda found: [*NAMES, found[0]].index(found[0])):
        if not wanted or name in wanted:
            plain, pool = pair.order
            rows.append([NAMES.get(name, name), ranged(pair.ratio(plain, pool, wall_s), unit="x"), change(pair.by_plain(1, cpu_s)),
                         *(grouped(pair.median(arm, faults)) for arm in pair.order), change(pair.by_plain(1, peak_mib))])
    return folder.table("program, wall time: plain / `run`, CPU time with `run`, faults: plain, `run`, peak RSS with `run`", rows)


def run():
    return run_table(newest("run")[0], ())


def cost():
    folder = newest("cost")[0]
    found, rows = pairs(folder), []
    for name in (name for name in found if not name.startswith("longer-")):
        rows.append([NAMES.get(name, name)] + [change(pair.by_plain(arm, cpu_s)) for pair in (found[name], found[f"longer-{name}"]) for arm in (1, 2)])
    return folder.table("program, `stat`, `record`, longer job: `stat`, `record`", rows)


def peers():
    folder, rows = newest("peers")[0], []
    found = folder.rows("peers.csv.gz")
    time_s = lambda row: float(row["body_s"] or row["wall_s"])
    answer = lambda figure, most: judge(*figure[1:], most=most) if figure.count >= FEWEST else CANNOT_SAY
    for job in sorted({row["job"] for row in found}):
        runs = Arms(of(found, job=job))
        best = min((arm for arm in runs.names if not arm.startswith("pool")), key=lambda arm: runs.median(arm, time_s))
        time, memory = runs.ratio("pool", best, time_s), runs.ratio("pool", "glibc", peak_mib)
        rows.append([job, best, ranged(time), answer(time, 1.05), ranged(memory), answer(memory, 1.15)])
    return folder.table("workload, fastest other, time: pool / other, at most 1.05?, peak RSS: pool / glibc, at most 1.15?", rows)


def memory():
    folder = newest("memory")[0]
    found = folder.rows("memory.csv.gz")
    middle = lambda job, arm, get: median([get(row) for row in of(found, job=job, arm=arm)])
    peak, rest = (lambda row: int(row["peak_kib"]) / 1024), (lambda row: int(row["rest_mib"]))
    jobs = sorted({row["job"] for row in found})
    mixes = [job for job in jobs if of(found, job=job)[0]["rest_mib"]]
    arms = [arm for arm in dict.fromkeys(row["arm"] for row in found) if arm != "glibc"]
    within = {arm: [job for job in jobs if middle(job, arm, peak) <= 1.15 * middle(job, "glibc", peak) + 8] for arm in arms}
    resting = {arm: [job for job in mixes if middle(job, arm, rest) <= middle(job, "glibc", rest) + 32] for arm in arms}
    counts = lambda of_arm: ", ".join(f"{len(of_arm[arm])} under {arm}" for arm in arms)
    beyond = [job for job in jobs if job not in within["pool"] or (job in mixes and job not in resting["pool"])]
    return prose(f"Memory of {len(jobs) - len(mixes)} programs and {len(mixes)} mixes of blocks, beside glibc ({folder.source()}). The peak is at most "
                 f"1.15 times glibc's and 8 MiB in {counts(within)}, of {len(jobs)}. Two decay times after the last free of a mix, at most 32 MiB more "
                 f"than glibc's is resident in {counts(resting)}, of {len(mixes)}. Beyond a limit under the pool: {', '.join(beyond) or 'none'}.")


def compare():
    folder, rows = newest("compare")[0], []
    for name in folder.names(".json.gz"):
        (plain, other), forty = folder.json(name)["commands"], Pair(folder, name.replace(".json", ".csv"))
        cells = [ranged(figure, unit="x") for quantity, get in (("wall_ns", wall_s), ("cpu_ns", cpu_s))
                 for figure in (list(other[quantity]["ratio"].values()), forty.by_plain(1, get))]
        rows.append([f"`{other['command']}` / `{plain['command']}`", *cells])
    return folder.table("commands, wall: `compare`, forty pairs, CPU: `compare`, forty pairs", rows)


# The profiler beside the truth

def accuracy(folder, verb):
    """What is said of each program of `doctor --check`."""
    return [program[verb] for program in folder.json("check.json.gz")["programs"] if program[verb] and program[verb]["ratio"]]


def check():
    rows = []
    for folder in newest("check"):
        row = [folder.source()]
        for verb in ("stat", "record"):
            said = accuracy(folder, verb)
            total = lambda name: sum(program[name] for program in said)
            row += [ranged(extremes([program["ratio"]["value"] for program in said])), f"{total('holds')} of {total('intervals')}",
                    f"{total('plain_holds')} of {total('plain_intervals')}"]
        rows.append(row)
    return table("machine, `stat`, intervals that hold, of plain runs, `record`, intervals that hold, of plain runs", rows)


def strangers():
    """The truth is the program's own clock in three runs, the middle one under `stat`, less what that added."""
    folder, rows = newest("strangers")[0], []
    found = [row for row in folder.rows("strangers.csv.gz") if (row["user"], row["way"]) != ("nobody", "system-call")]
    second = lambda row, *names: [float(row[f"{name}_s"]) for name in names]
    for user, load in itertools.product(("root", "nobody"), ("idle", "beside hog")):
        holds, narrow, ratios = [], [], []
        for row in of(found, user=user, load=load):
            before, during, after, recorder, value, low, high = second(row, "before", "during", "after", "recorder", "value", "low", "high")
            truth = sorted((before, during - recorder, after))
            holds.append(low <= truth[-1] and high >= truth[0])
            narrow.append(high - low <= 0.4 * value)
            ratios.append(value / (during - recorder))
        middle_of = sorted(ratios)[len(ratios) // 20:-(len(ratios) // 20) or None]
        rows.append([f"{user}, {load}", *(f"{sum(said)} of {len(said)}" for said in (holds, narrow)), ranged(extremes(middle_of))])
    return folder.table("user and load, intervals that hold, half-width at most 20 %, `stat` / program's own clock", rows)


def calls():
    """The program's own figures are of a run that nobody watched."""
    folder, rows = newest("calls")[0], []
    found = folder.rows("calls.csv.gz")
    by = lambda rows, of, to: ranged(extremes([float(row[of]) / float(row[to]) for row in rows]))
    added_us = lambda rows: ranged(extremes([(float(row["with_cpu_ns"]) - float(row["without_cpu_ns"])) / float(row["calls"]) / 1e3 for row in rows]))
    for way in dict.fromkeys(row["way"] for row in found):
        both, root, user = of(found, way=way), of(found, way=way, user="root"), of(found, way=way, user="nobody")
        price = [added_us(root), added_us(user)] if way == "dontneed-few" else ["", ""]
        rows.append([way, by(both, "found_calls", "calls"), by(both, "found_bytes", "bytes"), by(root, "found_ns", "call_ns"), *price])
    return folder.table("way, calls: found / made, bytes taken again: found / true, time as root: found / own clock, us added to a call as root, as a user", rows)


def diffs():
    folder = newest("diffs")[0]
    found, builds = folder.rows("diffs.csv.gz"), {"self": "a build with itself", "pages": "one function added, one removed, one with twice the faults",
                                                  "price": "the same, and one with dearer faults"}
    rows = [[text, *(share(of(found, pair=name, recordings=count), right=1) for count in (1, 10))] for name, text in builds.items()]
    return folder.table("builds, one recording a side, ten recordings a side", rows)


def estimates():
    folder = newest("estimates")[0]
    found = folder.rows("estimates.csv.gz")
    end = lambda row, name: float(row[f"{name}_ms"])
    inside = sum(end(row, "estimate_low") <= end(row, "measured") <= end(row, "estimate_high") for row in found)
    agree = sum(end(row, "estimate_low") <= end(row, "measured_high") and end(row, "measured_low") <= end(row, "estimate_high") for row in found)
    widths = [end(row, "estimate_high") / max(end(row, "estimate_low"), 1e-9) for row in found]
    return prose(f"Of {len(found)} pairs of a program and a cure, the measured saving lies inside the estimate in {inside}, and its interval reaches it "
                 f"in {agree}. The upper end is at most twice the lower one in {sum(width <= 2 for width in widths)}, in the median "
                 f"{digits(median(widths))} times it ({folder.source()}).")


def gate():
    folder = newest("gate")[0]
    real, planted = (of(folder.rows("gate.csv.gz"), part=part) for part in ("real", "planted"))
    more = (min(numbers(planted, "growth")) - 1) * 100
    return prose(f"Five real programs, checked again and again against one budget, raise {share(real, status=1)} alarms. {share(planted, status=1)} "
                 f"planted regressions raise one, and {share(planted, named=1)} answers name the planted site first. The smallest adds {more:.0f} % of "
                 f"faults ({folder.source()}).")


def mechanisms():
    folder = newest("mechanisms")[0]
    found = folder.rows("mechanisms.csv.gz")
    known, none = [row for row in found if row["wanted"]], of(found, wanted="")
    kinds = len({row["wanted"] for row in known})
    wrong = "; ".join(f"{row['program']}: {row['named'] or 'nothing'}" for row in found if row["right"] == "0")
    return prose(f"`report` names the mechanism first in {share(known, right=1)} programs with one of {kinds}, and none of 10 % of the CPU time or more in "
                 f"{share(none, right=1)} without; {share(found, others='')} have no wrong one of that weight ({folder.source()}). Wrong: {wrong or 'none'}.")


def attach():
    folder, rows = newest("attach")[0], []
    for server in dict.fromkeys(row["server"] for row in folder.rows("attach.csv.gz")):
        found = of(folder.rows("attach.csv.gz"), server=server)
        left = sum(middle(of(found, part="after"), column) for column in ("descriptors", "threads", "events"))
        windows, figures = Arms(of(found, part="window")), Arms(of(found, part="figures"))
        rows.append([server, share(of(found, part="cycle"), errors=0), grouped(left),
                     *(grouped(middle(of(found, arm=arm), "value")) for arm in ("under stat", "stat -p")),
                     ranged(figures.ratio("stat -p", "under stat", lambda row: float(row["seconds"]))),
                     *(ranged(windows.ratio(verb, f"without {verb}", lambda row: float(row["value"]))) for verb in ("stat", "record"))])
    return folder.table("server, cycles without a lost request, left behind, faults: `stat`, `stat -p`, seconds: `stat -p` / `stat`, rate under `stat -p`,"
                                    "under `record -p`", rows)


# The fleet

ENGINES = {"duckdb": "DuckDB", "spark": "Spark"}


class Fleet:
    """The newest record of `fleet`: medians over rounds."""

    def __init__(self):
        self.folder = newest("fleet")[0]
        self.rows = self.folder.rows("fleet.csv.gz")
        self.reports = [row for row in self.rows if row["engine"] in ENGINES]
        self.hosts, self.processors = (sorted({int(row[column]) for row in self.reports}) for column in ("hosts", "processors"))
        self.questions = list(dict.fromkeys(["all", *sorted(row["question"] for row in self.reports)]))

    def middle(self, column, hosts=None, processors=None, **wanted):
        hosts, processors = hosts or self.hosts[-1], processors or self.processors[-1]
        return middle(of(self.rows, hosts=hosts, processors=processors, **wanted), column)

    def millions(self, hosts):
        return digits(float(of(self.rows, hosts=hosts)[0]["sample_rows"]) / 1e6)

    def grown(self, column, engine):
        """All questions on the largest fleet / on the smallest."""
        ends = [self.middle(column, hosts, engine=engine, question="all") for hosts in (self.hosts[-1], self.hosts[0])]
        return digits(ends[0] / ends[1])

    def faster(self, engine):
        """All questions by one processor / by all."""
        one, all_ = (self.middle("wall_s", processors=count, engine=engine, question="all") for count in (1, self.processors[-1]))
        return digits(one / all_)


def fleet():
    found, rows = Fleet(), []
    for engine, question, hosts in itertools.product(ENGINES, found.questions, found.hosts):
        figure = lambda column, processors: found.middle(column, hosts, processors, engine=engine, question=question)
        rate = lambda processors: digits(figure("sample_rows", processors) / figure("wall_s", processors) / 1e6)
        rows.append([f"{ENGINES[engine]}, {question}", found.millions(hosts), *(digits(figure("wall_s", count)) for count in found.processors),
                     *map(rate, found.processors), digits(figure("cpu_s", found.processors[-1])), grouped(figure("peak_mib", found.processors[-1]))])
    head = ", ".join(f"{what}{count} processor{'s' * (count > 1)}" for what in ("s: ", "million samples/s: ") for count in found.processors)
    grown = [f"{name} {found.grown('cpu_s', engine)} times the CPU time and {found.grown('peak_mib', engine)} times the memory" for engine, name in ENGINES.items()]
    faster = [f"{name} is {found.faster(engine)} times" for engine, name in ENGINES.items()]
    return found.folder.table(f"engine and question, million samples, {head}, CPU s, peak MiB", rows) + "\n" + prose(
        f"{found.millions(found.hosts[-1])} million samples are a day of {grouped(found.hosts[-1])} hosts with three services each. From "
        f"{found.millions(found.hosts[0])} million samples to {found.millions(found.hosts[-1])} million, all questions take {' and '.join(grown)}. "
        f"With {found.processors[-1]} processors instead of one, {' and '.join(faster)} as fast. {share(found.reports, same=True)} reports have the "
        "rows of the first one.")


def fleet_takes():
    """For the package's README, two folders below."""
    found = Fleet()
    takes = lambda engine: (f"{digits(found.middle('wall_s', engine=engine, question='all'))} s and "
                            f"{digits(found.middle('peak_mib', engine=engine, question='all') / 1024)} GiB")
    smallest = found.hosts[0]
    return prose(f"All questions on a day of {grouped(found.hosts[-1])} hosts, {found.millions(found.hosts[-1])} million samples in "
                 f"{digits(found.middle('disk_bytes', engine='duckdb', question='all') / 2**30)} GiB, take DuckDB {takes('duckdb')} with "
                 f"{found.processors[-1]} processors, and Spark {takes('spark')}. With {grouped(smallest)} hosts it is "
                 f"{digits(found.middle('wall_s', smallest, engine='duckdb', question='all'))} and "
                 f"{digits(found.middle('wall_s', smallest, engine='spark', question='all'))} s "
                 f"({found.folder.source().replace('](', '](../../')}).")


# The search

QUERIES = {"rare": "`foobar`", "nomatch": "no match", "optional": "`fooo?bar`", "rare-i": "`-i foobar`", "int": "`int`",
           "heavy": r"`\w+_lock\(.*irq`", "classes": "`[a-z]+_[a-z]+_[0-9]+x[0-9]+`", "scan": "every chunk (`--brute-force`)"}
TREES = {"linux": "Linux 6.12", "mixed": "mixed", "million": "a million files", "long": "long lines"}


def grep_queries():
    folder, rows = newest("grep", "grep.csv.gz")[0], []
    found = folder.rows("grep.csv.gz")
    for query, text in QUERIES.items():
        ours, *others = (of(found, query=query, arm=arm) for arm in ("faultless", "csearch", "rg15"))
        rows.append([text, grouped(middle(ours, "lines")), ranged(interval(numbers(ours, "wall_s", 1e3))),
                     *(digits(middle(runs, "wall_s", 1e3)) if runs else "-" for runs in others), grouped(middle(ours, "minflt"))])
    start = digits(middle(of(found, query="start", arm="true"), "wall_s", 1e3))
    return folder.table("query, lines, faultless, csearch, ripgrep 15, faults: faultless", rows) + (
        f"\nA process that does nothing takes {start} ms here.\n")


def grep_random():
    folder, rows = newest("grep", "random-mixed.csv.gz")[0], []
    for tree, name in TREES.items():
        found = of(folder.rows(f"random-{tree}.csv.gz"), round=-1, arm="faultless")
        first = [line.split()[0] for line in folder.text(f"random-{tree}.txt").splitlines() if line.strip()]
        rows.append([f"[{name}]({folder.path}/random-{tree}.txt)", share(found, same=True), *map(first.count, ("loss", "undecided", "faster"))])
    return table("tree, queries with ripgrep's lines, losses, undecided, faster than every peer", rows)


def grep_service():
    found = newest("grep", "service.csv.gz")[0].rows("service.csv.gz")
    ms = lambda **wanted: digits(middle(of(found, **wanted), "ms"))
    one, eight = {"clients": 1, "changes": 0}, {"clients": 8, "changes": 0}
    return prose(f"The service of `faultless index watch`, over a new connection each time: one client waits {ms(kind='counter', **one)} ms for a rare "
                 f"word and {ms(**one)} ms for any query, and eight wait {ms(kind='counter', **eight)} and {ms(**eight)} ms (medians). While files "
                 f"change, {share(found, stale=True)} answers are out of date.")


# More threads

def threads():
    folder, rows = newest("lab", "threads.csv.gz")[0], []
    found = folder.rows("threads.csv.gz")
    touch = lambda count, arm: middle(of(found, experiment="scale", arm=arm, threads=count, rest="writers=0,beside=none"), "us_per_page")
    copy = lambda count, phase: middle(of(found, experiment="copy", arm="copy", mib=512, phase=phase, threads=count), "gb_per_s")
    for count in (1, 2, 4, 8, 16, 32):
        rows.append([count, *(digits(touch(count, arm)) for arm in ("interleaved", "shared", "own", "process")),
                     *(digits(copy(count, phase)) for phase in ("cold", "warm"))])
    alone, two, many = (touch(count, "shared") for count in (1, 2, 16))
    return folder.table("threads, us per page: the page tables, the mapping, the address space, nothing, copy (GB/s): new, warm", rows) + (
        "\n" + prose(f"In one mapping two threads pay {digits(two / alone)} times the price of one, and sixteen pay {digits(many / alone)} times. So a "
                     f"machine with two processors shows the direction, and {(two - alone) / (many - alone) * 100:.0f} % of the rise to sixteen."))


def grep_threads():
    folder, rows = newest("grep", "threads.csv.gz")[0], []
    found = folder.rows("threads.csv.gz")
    for count in (1, 2, 4, 8, 16):
        ms = lambda arm, query="scan": middle(of(found, query=query, arm=arm, threads=count), "wall_s", 1e3)
        rows.append([count, *map(digits, (ms("pool"), ms("malloc"), ms("mmap"), ms("populate"), ms("mmap") / ms("pool"))),
                     *(digits(ms(arm, query)) for query in ("optional", "int") for arm in ("faultless", "rg"))])
    return folder.table("threads, pool, malloc, mmap, mmap populated, mmap / pool, `fooo?bar`, ripgrep, `int`, ripgrep", rows)


def phases():
    folder, rows = newest("flame")[0], []
    for count in (1, 2, 4):
        found = of(folder.rows("phases.csv.gz"), cell=f"page=base threads={count} samples=10000")
        figure = lambda quantity: interval(numbers(of(found, quantity=quantity), "value"))
        rows.append([count, ranged(figure("fault_ns")),
                     *(ranged(figure(f"{part}_share"), 100, " %") for part in ("zeroing", "locks", "mmap_lock", "lru_lock"))])
    return folder.table("threads, ns of CPU per page, clearing, all locks, mmap and VMA lock, LRU lock", rows)


# The lab and the kernel lab: their verbs read whole folders, so the tables of one belong together

KERNEL_TESTS = {
    "first touch, 1 line of 64": "pft_mib=64_lines=1_pcp=short", "64 lines": "pft_mib=64_lines=64_pcp=short",
    "8 threads, 1 line": "pft_mib=64_rep=3_threads=8_lines=1_pcp=default", "populate": "kinds_kind=populate_mib=16",
    "shared memory": "kinds_kind=shmem_mib=16", "THP": "kinds_kind=thp_mib=32", "munmap": "kinds_kind=munmap_mib=16",
    "burst after 1 s idle": "pool_test=burst_mib=16_rep=8_ms=1000_pcp=short", "the same, default lists": "pool_test=burst_mib=16_rep=8_ms=1000_pcp=default",
    "hot memory": "pool_test=hot_kib=256_rep=256_lines=1_pcp=short", "dry stock": "pool_test=dry_mib=360_pcp=short",
    "churn, 4 threads": "pool_test=churn_mib=128_rep=200_threads=4"}


def whole(folder):
    Folder.used |= {f"{folder.path}/{name}" for name in ("samples.csv.gz", "functions.csv.gz", "notes.csv", "plan.json")}
    return folder


def kernel(machine):
    folder = next(whole(folder) for folder in newest("kernel") if folder.machine == machine)
    return folder, folder.json("figures.json.gz")


def kernel_tests():
    (folder, found), (_, older) = kernel("tcg-612"), kernel("tcg-61")
    rows = []
    for name, test in KERNEL_TESTS.items():
        arms = [found["figures"][test][arm] for arm in ("base", "on")]
        before = older["figures"].get(test, {}).get("base")
        rows.append([name, grouped(before["path_instructions"]) if before else "-",
                     *(show(arm[quantity]) for quantity, show in (("path_instructions", grouped), ("cleared_bytes", grouped), ("llc_misses", digits))
                       for arm in arms), digits(arms[1]["hit_percent"]) if "hit_percent" in arms[1] else "-"])
    return folder.table("test, path: 6.1, 6.12, patched, cleared B: 6.12, patched, misses: 6.12, patched, hits (%)", rows)


def kernel_limits():
    limits = kernel("tcg-612")[1]["limits"].values()
    fails = [limit for limit in limits if limit["verdict"] != HOLDS]
    rows = [[limit["what"].replace(",", ";"), f"`{limit['rests_on']}`", digits(limit["range"][1]), f"{limit['figure']:.3f}"] for limit in fails]
    return f"{len(limits) - len(fails)} of {len(limits)} limits of the patch hold. The others:\n\n" + table("limit, test, at most, figure", rows)


def verdicts():
    """The folders of the lab with verdicts, most processors last; each claim once, with what each folder says that can judge it; what is not judged."""
    found = [folder for folder in folders() if folder.topic == "lab" and "verdicts.json" in folder.names()]
    found.sort(key=lambda folder: (int(re.search(r"(\d+) processors", folder.host("cpu"))[1]), folder.order))
    claims, unjudged = {}, {}
    for folder in found:
        said = whole(folder).json("verdicts.json")
        for claim in said["claims"]:
            known = claims.setdefault(claim["id"], claim | {"here": {}})
            if claim["ours"] and not claim["why"].startswith("needs "):
                machine = folder.host("cpu").split(", ")[-1].split()[0]
                known["here"][machine] = (claim["verdict"], re.split("; ", claim["ours"])[0])
        unjudged |= {(row["document"], row["quote"], row["figure"]): row for row in said["unjudged"]}
    for claim in claims.values():
        answers = {verdict for verdict, _ in claim["here"].values()}
        claim["verdict"] = answers.pop() if len(answers) == 1 else "machines differ" if answers else "cannot say"
    return found, list(claims.values()), list(unjudged.values())


def lab_counts():
    found, claims, unjudged = verdicts()
    rows = []
    for document in dict.fromkeys(claim["document"] for claim in claims):
        count = lambda verdict: len(of(claims, document=document, verdict=verdict))
        rows.append([document, *map(count, ("reproduced", "refuted here", "machines differ", "cannot say")), len(of(unjudged, document=document))])
    return (f"Judged: {'; '.join(folder.source() for folder in found)}.\n\n" +
            table("document, reproduced, refuted, machines differ, cannot say, not judged here", rows))


def short_quote(text, most=110):
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " ..."


def lab_claims():
    """What is refuted or differs by machine, with figures; what is reproduced, by name."""
    claims = verdicts()[1]
    figures = lambda claim: "; ".join(f"{ours} ({machine})" for machine, (_, ours) in claim["here"].items())
    rows = lambda verdict: [[short_quote(claim["quote"]).replace("|", "\\|"), claim["figure"], figures(claim)] for claim in of(claims, verdict=verdict)]
    names = ", ".join(claim["id"] for claim in of(claims, verdict="reproduced"))
    return "\n".join([
        table("refuted, there, here (processors)", rows("refuted here")), table("machines differ, there, here (processors)", rows("machines differ")),
        prose(f"Reproduced, by their names in `faultless lab report`: {names}."),
    ])


# README.md

def readme_run():
    return run_table(newest("run")[0], ("temporaries", "bursts", "gcc", "cpp"))


def readme_cost():
    cost, checks = newest("cost")[0], newest("check")
    jobs = [found for name, found in pairs(cost).items() if not name.startswith("longer-")]
    added = lambda arm: " to ".join(f"{end:.0f}" for end in extremes([pair.by_plain(arm, cpu_s)[0] * 100 - 100 for pair in jobs])[1:])
    ratios = ranged(extremes([program["ratio"]["value"] for folder in checks for program in accuracy(folder, "stat")]))
    return prose(f"As root, `stat` adds {added(1)} % to the CPU time of six programs, and `record` {added(2)} % ({cost.source()}). Where "
                 f"programs time their own faults, `stat` reports {ratios} times the true time, on {len(checks)} machines.")


def screen_advise():
    """The first lines of what `advise` printed: the answer, the first mechanism with its first cure, the first runs."""
    parts = newest("screens")[0].text("advise.txt").lstrip("\n").split("\n\n")
    first = "      cure ".join(parts[1].split("\n   2 ")[0].split("      cure ")[:2]).rstrip("\n")
    shown = [parts[0].splitlines()[0] + "\n...\n" + first + "\n...", "\n".join(parts[2].splitlines()[:4])]
    return "```text\n" + "\n".join(shown) + "\n```\n"


def screen_report():
    """Where the time of the same program went."""
    folder = newest("screens", "report-light.png")[0]
    light, dark = (folder.picture(f"report-{scheme}.png") for scheme in ("light", "dark"))
    return (f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
            f'<img src="{light}" alt="Where the processor time went: computing, page faults by mechanism, giving memory back"></picture>\n')


TABLES = {function.__name__.replace("_", "-"): function for function in (
    run, peers, memory, cost, check, strangers, calls, diffs, gate, mechanisms, estimates, compare, attach, fleet, fleet_takes, grep_queries, grep_random, grep_service,
    threads, grep_threads, phases,
    kernel_tests, kernel_limits, lab_counts, lab_claims, readme_run, readme_cost, screen_advise, screen_report)}


def block(name):
    """What lies between the markers of this name."""
    if name not in TABLES:
        record.fail(f"there is no table {name}; there are {', '.join(TABLES)}")
    try:
        return TABLES[name]()
    except Missing as topic:
        return f"To be taken again: `bench/take.py --host HOST {topic}`.\n"


def main():
    parser = record.parser(__doc__)
    parser.add_argument("--check", action="store_true", help="change no file; status 1 if something is to be done")
    is_check = parser.parse_args().check
    wrong, old = provenance()
    texts, shown = {}, set()
    for name in DOCUMENTS:
        with open(f"{record.ROOT}/{name}") as file:
            before = file.read()
        texts[name] = BLOCK.sub(lambda found: found[1] + block(found[2]) + found[4], before)
        shown |= {found[2] for found in BLOCK.finditer(before)}
        if is_check and texts[name] != before:
            wrong.append(f"{name} is not what the records say: run bench/results.py")
        elif texts[name] != before:
            with open(f"{record.ROOT}/{name}", "w") as file:
                file.write(texts[name])
    wrong += [f"no document shows the table {name}" for name in TABLES if name not in shown]
    linked = {path for text in texts.values() for path in re.findall(r"\]\((record/[^)#]+)\)", text)}
    there = {f"{folder.path}/{name}" for folder in folders() for name in folder.names()}
    wrong += [f"{path} serves no table: drop it" for path in sorted(there - Folder.used - linked)]
    for line in old + wrong:
        print(f"results.py: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
