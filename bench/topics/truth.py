"""Do `stat` and `record` say the truth? Short programs beside a recording of every fault, counts beside those of `perf stat`,
and sites beside a program that counts and times its own touches. (Topic `check` asks the same of programs that only fault.)"""
import itertools, json, os, random, re, shlex, shutil, statistics, tempfile

from harness import record
from harness.figures import interval, median, text
from harness.process import output, warm
from harness.rounds import rounds
from topics import json_of, left_out, rows_of, topic

SHORT = {
    "gcc -c": "gcc -c small.c -o small.o", "python3 json": "python3 -c 'import json'", "node": "node -e 1", "java": "java -version",
    "git log": f"git -C {record.ROOT} log --stat -20", "sort 10 MB": "sort ten.txt -o sorted.txt", "zstd 5 MB": "zstd -qf five.txt -o five.zst",
    "go version": "go version", "rustc": "rustc --version", "find": "find /usr/share/doc",
    "200 children": "sh -c 'i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done'",
    "sqlite3": "sqlite3 :memory: 'create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 100000) "
    "insert into t select x, hex(x) from c; select count(*), sum(a) from t'",
}
SHORT_FIELDS = ["program", "round", "verb", "seconds", "low", "high", "faults", "majors", "cpu_s", "timed"]


def stat(to, command):
    output([to.faultless, "stat", "--json", "-o", "stat.json", "--", "sh", "-c", f"exec {command}"])
    said = json_of("stat.json")
    seconds, usage = said["time"]["seconds"], said["usage"]
    return [seconds["value"], seconds["low"], seconds["high"], sum(row["faults"] for row in said["rows"]), usage["major_faults"],
            (usage["user_ns"] + usage["system_ns"]) / 1e9, said["time"]["timed"]]


def every_fault(to, command):
    output([to.faultless, "record", "--all", "-o", "all.trace", "--", "sh", "-c", f"exec {command}"])
    said = json.loads(output([to.faultless, "report", "--json", "all.trace"]))
    return [*(said["time_ns"][end] / 1e9 for end in ("value", "low", "high")), said["faults"], said.get("usage", {}).get("major_faults", ""),
            said["cpu_ns"] / 1e9, said["coverage"]["timed"]]


def print_short(paths):
    """Runs with more than twice the usual major faults met a cold page cache: they are left out."""
    rows = rows_of(paths, "majors")
    print(f"{'program':14} {'faults':>7} {'CPU ms':>7} {'stat ms':>8} {'high/low':>8} {'max/min':>7}  holds   --all ms")
    for name in dict.fromkeys(row["program"] for row in rows):
        mine = [row for row in rows if row["program"] == name]
        ours = [row for row in mine if row["verb"] == "stat"]
        usual = statistics.median(float(row["majors"]) for row in ours)
        kept = [{field: float(row[field]) for field in SHORT_FIELDS[3:]} for row in ours if float(row["majors"]) <= 2 * usual + 2]
        middle = lambda of: statistics.median(map(of, kept))
        values, ms = [row["seconds"] for row in kept], middle(lambda row: row["seconds"])
        holds = sum(row["low"] <= ms <= row["high"] for row in kept)
        every = statistics.median(float(row["seconds"]) for row in mine if row["verb"] == "every_fault")
        print(f"{name:14} {middle(lambda row: row['faults']):7.0f} {1e3 * middle(lambda row: row['cpu_s']):7.1f} {1e3 * ms:8.2f} "
              f"{middle(lambda row: row['high'] / row['low']):8.2f} {max(values) / min(values):7.2f}  {holds}/{len(kept)}  {1e3 * every:9.2f}")


@topic("short", print_short, rounds=10)
def take_short(to):
    """* `stat` and `record --all` on short programs

    `record --all` records each fault, and a fault reads longer if caches are colder: its time is no truth."""
    with open("small.c", "w") as file:
        file.write('#include <stdio.h>\nint main(void) { return printf("hi\\n") < 0; }\n')
    lines = "".join(f"{number}\n" for number in random.Random(1).sample(range(1, 1_400_001), 1_400_000))
    for name, length in [("ten.txt", len(lines)), ("five.txt", 5_000_000)]:
        with open(name, "w") as file:
            file.write(lines[:length])
    names = [name for name, command in SHORT.items() if shutil.which(command.split()[0])]
    for name in SHORT.keys() - set(names):
        left_out(name, "not installed")
    with to.table("short", SHORT_FIELDS) as table:
        for number, order in rounds(to.rounds, itertools.product(names, (stat, every_fault)), warmup=1, name="short"):
            for name, verb in order:
                row = verb(to, SHORT[name])
                if number >= 0:
                    table.row(name, number, verb.__name__, *row)


# Rows of `stat` that come from wait4: no event counts them, so no counter of other programs does.
NOT_COUNTED = ("before_exec", "populate", "kernel_or_populate")
COUNTED = {"touch": "./touch 64 1 1", "calloc-full": "faultless workload --quiet calloc-full", "gcc": "gcc -O1 -c -o functions.o functions.c",
           "python3": "python3 -I -c 'print(sum(len(str(i)) for i in list(range(300000))))'"}


def counted_by_perf(to, words):
    output(["perf", "stat", "-x,", "-e", "page-faults", "-o", "perf.csv", "--", *words])
    with open("perf.csv") as file:
        return int(re.search(r"(?m)^(\d+),,page-faults", file.read())[1])


def counted_by_stat(to, words):
    output([to.faultless, "stat", "--json", "-o", "stat.json", "--", *words])
    return sum(row["faults"] for row in json_of("stat.json")["rows"] if row["kind"] not in NOT_COUNTED)


def print_counts(paths):
    rows = rows_of(paths, "side")
    print(f"{'check':14} {'n':>3} {'perf stat':>10} {'stat':>10} {'perf stat / stat':>24}")
    for name in dict.fromkeys(row["check"] for row in rows):
        theirs, ours = ({row["round"]: float(row["value"]) for row in rows if (row["check"], row["side"]) == (name, side)} for side in ("theirs", "ours"))
        ratio = interval([theirs[number] / ours[number] for number in theirs if number in ours])
        print(f"{name:14} {ratio.count:3} {median(theirs.values()):10.0f} {median(ours.values()):10.0f} {text(ratio, 4):>24}")


@topic("crosschecks", print_counts, rounds=12)
def take_crosschecks(to):
    """faults of the same programs as `perf stat` counts them; addresses are random, so starts differ by some"""
    to.built("touch", "touch.c")
    with to.table("crosschecks", ["round", "check", "side", "value"]) as table:
        for number, order in rounds(to.rounds, COUNTED, warmup=1, name="crosschecks"):
            for name in order:
                for side, count in (("theirs", counted_by_perf), ("ours", counted_by_stat)):
                    value = count(to, shlex.split(COUNTED[name]))
                    if number >= 0:
                        table.row(number, name, side, value)


SITES = ["first_write", "read_zero", "write_after_read", "refault", "read_file", "write_file", "shared_leaf"]
SITE_FIELDS = ["round", "program", "threads", "user", "arm", "site", "own_faults", "own_mean_ns", "faults", "faults_low", "faults_high",
               "time_ns", "time_low_ns", "time_high_ns", "recorded", "lost"]
MS = 1000


def own(printed):
    """Faults and mean time by function; the two callers of shared_leaf together."""
    found = json.loads(printed)
    a, b = found.pop("deep_a"), found.pop("deep_b")
    touches = a["touches"] + b["touches"]
    mean_ns = (a["mean_ns"] * a["touches"] + b["mean_ns"] * b["touches"]) / max(touches, 1)
    return found | {"shared_leaf": {"faults": a["faults"] + b["faults"], "mean_ns": mean_ns}}


def site_rows(to, number, program, threads, user, arm, folder):
    trace = os.path.join(folder, "trace")
    command = [program, str(threads), str(MS), os.path.join(folder, "file")]
    recorded = [to.faultless, "record", "-o", trace, *(["--all"] if arm == "all" else []), "--"]
    warm(300)
    truth = own(output(command if arm == "plain" else recorded + command, user))
    said, coverage = {}, {}
    if arm != "plain":
        report = json.loads(output([to.faultless, "report", "--json", "--by", "function", "--top", "1000", trace], user))
        table = next(table["sites"] for table in report["tables"] if table["sites"]["by"] == "function")
        said, coverage = {row["label"]: row for row in table["rows"]}, report["coverage"]
    nothing = {"value": 0, "low": 0, "high": 0}
    for site in SITES:
        row, mine = said.get(site, {}), truth[site]
        yield [number, os.path.basename(program), threads, user or "root", arm, site, mine["faults"], mine["mean_ns"],
               *(round(row.get(figure, nothing)[key], 1) for figure in ("faults", "time_ns") for key in ("value", "low", "high")),
               coverage.get("timed", 0), coverage.get("lost", 0)]


def print_sites(paths):
    rows = rows_of(paths, "own_mean_ns")
    cell = lambda row, number: (number, row["program"], row["threads"], row["user"], row["site"])
    plain = {cell(row, int(row["round"])): float(row["own_mean_ns"]) for row in rows if row["arm"] == "plain"}
    print(f"{'arm':8} {'site':18} {'n':>4} {'counts':>22} {'exact':>6} {'held':>6} {'time per fault / plain':>24} {'held':>6}")
    for arm, site in itertools.product(("all", "default"), SITES):
        mine = [row for row in rows if (row["arm"], row["site"]) == (arm, site) and int(row["own_faults"]) > 0]
        counts, times, exact, count_held, time_held = [], [], 0, 0, 0
        for row in mine:
            own_faults, faults = int(row["own_faults"]), float(row["faults"])
            counts.append(faults / own_faults)
            exact += abs(faults - own_faults) < 0.5
            count_held += float(row["faults_low"]) - 0.5 <= own_faults <= float(row["faults_high"]) + 0.5
            # Recording slows the program's own clock readings too, so the truth is that of the plain runs nearby.
            near = [plain[at] for number in (0, 1) if plain.get(at := cell(row, int(row["round"]) + number), 0) > 0]
            if near and faults > 0:
                truth = statistics.mean(near)
                times.append(float(row["time_ns"]) / faults / truth)
                time_held += float(row["time_low_ns"]) <= truth * own_faults <= float(row["time_high_ns"])
        if counts and times:
            print(f"{arm:8} {site:18} {len(mine):4} {text(interval(counts)):>22} {exact:3}/{len(mine)} {count_held:3}/{len(mine)} "
                  f"{text(interval(times)):>24} {time_held:3}/{len(times)}")


@topic("sites", print_sites, rounds=20)
def take_sites(to):
    """what `record` says of each site beside the program's own figures, by threads and user"""
    programs = [to.built("sites-fp", "sites.c", "-fno-omit-frame-pointer"), to.built("sites-nofp", "sites.c", "-fomit-frame-pointer")]
    cells = [*itertools.product(programs, (1, 2, 4, 8), (None, "nobody"), ("plain", "all", "default"))]
    with to.table("sites", SITE_FIELDS) as table:
        for number, order in rounds(to.rounds, cells, name="sites"):
            for program, threads, user, arm in order:
                with tempfile.TemporaryDirectory() as folder:
                    os.chmod(folder, 0o777)
                    for row in site_rows(to, number, program, threads, user, arm, folder):
                        table.row(*row)
