"""Topics that `faultless compare` measures: commands in shuffled rounds, each compared with the first. `compare` itself is
compared with pairs of runs that share no code with it."""
import os, shlex, shutil, sys

from harness import record
from harness.figures import Arms, cpu_s, text, wall_s
from harness.limits import CANNOT_SAY, FAILS, FEWEST, HOLDS
from harness.process import COLUMNS, run, warm
from harness.rounds import rounds
from topics import json_of, left_out, topic

# Program -> command. inputs.py writes the inputs.
PROGRAMS = {
    "gcc": "gcc -O1 -c functions.c -o -", "python3": "./python parse.py", "sqlite3": "sqlite3 :memory: '.read table.sql'",
    "xz": "xz -0 -T2 -c some.txt", "git": "git -C tree hash-object big.json functions.c some.txt", "node": "node sum.js", "cpp": "./words",
    "zstd": "zstd -3 -T2 -qc lines.txt", "sort": "sort lines.txt", "numpy": "./python arrays.py",
}
# The same programs for two seconds and more, in one process each but for gcc.
LONGER = {
    "gcc": "gcc -O2 -S functions.c functions.c", "python3": "./python -c \"exec(open('parse.py').read() * 3)\"",
    "sqlite3": "sqlite3 :memory:" + " '.read table.sql' 'drop table t'" * 8, "xz": "xz -0 -T2 -c lines.txt",
    "node": "node -e \"for (let i = 0; i < 9; i++) eval(require('fs').readFileSync('sum.js', 'utf8'))\"", "sort": "sort lines.txt lines.txt",
}
WORKLOADS = ("chunk-pipeline", "temporaries", "mixed", "calloc-sparse", "calloc-full", "growth", "bursts", "idle-bursts", "thread-churn", "touch-once")
# Name -> two commands that `compare` tells apart, or not.
COMPARED = {
    "gcc": ("gcc -O1 -c functions.c -o -", "gcc -O2 -c functions.c -o -"), "sort": ("sort lines.txt", "sort -S 1M lines.txt"),
    "zstd": ("zstd -1 -qc lines.txt", "zstd -3 -qc lines.txt"), "python3": ("./python parse.py", "./python -X importtime parse.py"),
    "cpp": ("./words", "faultless run -- ./words"),
}
# One heap that grows by 64 MiB, never maps single blocks and never trims: the fewest faults of glibc.
KEEPING = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864"
HUGE = "glibc.malloc.hugetlb=1"
# redis-server is measured, so its load must not be its child: the shell that starts the load ends at once.
REDIS = """sh -c '(sh redis-load.sh ./redis.sock >&3 2>/dev/null &) 3>&1
exec {run} redis-server --port 0 --unixsocket ./redis.sock --save "" --appendonly no --enable-debug-command yes >/dev/null'"""


def workload(name, more=""):
    return f"faultless workload --quiet {name}{more and ' ' + more}"


def pair(to, name, *commands, user=None):
    """Compares commands with the first. Fewer rounds than eight hold no interval, so `compare` takes none."""
    programs = {shlex.split(command.replace("{run}", ""))[0] for command in commands} - {"env", "sh"}
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        return left_out(name, f"{missing[0]} is not installed")
    to.keep(f"{name}.json.gz", "compare", "--json", "--runs", str(max(8, to.rounds)), *commands, user=user)


def print_pairs(paths):
    for path in paths:
        document = json_of(path)
        if "scores" in document:
            continue
        print(f"{os.path.basename(path).partition('.')[0]}: {document['rounds']} rounds")
        print(f"  {'wall ms':>9} {'wall ratio':>22} {'CPU ms':>9} {'CPU ratio':>22} {'faults':>9} {'RSS MiB':>8}  command")
        for command in document["commands"]:
            middle = lambda name, unit: command[name]["median"]["value"] / unit
            ratio = lambda name: text([command[name]["ratio"][end] for end in ("value", "low", "high")] if command[name]["ratio"] else None)
            print(f"  {middle('wall_ns', 1e6):9.1f} {ratio('wall_ns'):>22} {middle('cpu_ns', 1e6):9.1f} {ratio('cpu_ns'):>22} "
                  f"{middle('faults', 1):9.0f} {middle('peak_rss_bytes', 1 << 20):8.1f}  {command['command']}")


@topic("run", print_pairs, rounds=15)
def take_run(to):
    """* workloads and real programs under `run`, against plain glibc"""
    commands = {name: workload(name) for name in ("chunk-pipeline", "temporaries", "bursts", "growth", "touch-once")}
    commands |= {name: PROGRAMS[name] for name in ("gcc", "python3", "sqlite3", "xz", "git", "node", "cpp")}
    # The first pass over one fresh block.
    commands |= {f"first-{mib}": workload("touch-once", f"--mib {mib}") for mib in (16, 64, 256, 1024, 3000)}
    for name, command in commands.items():
        pair(to, name, command, f"faultless run -- {command}")


@topic("stat", print_pairs, rounds=15)
def take_stat(to):
    """* what `stat` costs, as root and as a normal user"""
    commands = {name: PROGRAMS[name] for name in ("gcc", "python3", "numpy", "sort", "zstd")}
    commands |= {"chunk-pipeline": workload("chunk-pipeline", "--chunks 16000"), "mixed": workload("mixed", "--ops 20000000")}
    commands |= {name: workload(name) for name in ("temporaries", "bursts")}
    # One counter of perf is what counting alone costs.
    counting = ["perf stat -e page-faults -o /dev/null -- "] if shutil.which("perf") else []
    for user in (None, "nobody"):
        for name, command in commands.items():
            pair(to, f"{'user-' if user else ''}{name}", command, *(f"{before}{command}" for before in counting),
                 f"faultless stat -o /dev/null -- {command}", user=user)


@topic("cost", print_pairs, rounds=16)
def take_cost(to):
    """* what `stat` and `record` cost beside counters alone"""
    for name, command in ({name: PROGRAMS[name] for name in LONGER} | {f"longer-{name}": command for name, command in LONGER.items()}).items():
        pair(to, name, f"faultless stat --sources counters -o /dev/null -- {command}", f"faultless stat -o /dev/null -- {command}",
             f"faultless record -o said.trace -- {command}")


@topic("record", print_pairs, rounds=10)
def take_record(to):
    """what `record` costs beside perf and heaptrack, as root and as a normal user"""
    to.built("touch", "touch.c")
    os.makedirs("recorded", exist_ok=True)
    os.chmod("recorded", 0o1777)
    commands = {"faults": "./touch 64 1 400", "chunk-pipeline": workload("chunk-pipeline", "--chunks 64000"),
                "numpy": "./python -c \"exec(open('arrays.py').read() * 18)\""}
    others = {"perf": "perf record -q -e page-faults -c 97 -g -o /dev/null -- ", "heaptrack": "heaptrack -o recorded/heaptrack "}
    for user in (None, "nobody"):
        for name, command in commands.items():
            pair(to, f"{'user-' if user else ''}{name}", command, f"faultless record -o recorded/{user}.trace -- {command}",
                 f"faultless record --alloc -o recorded/{user}.trace -- {command}",
                 *(f"{before}{command}" for program, before in others.items() if shutil.which(program)), user=user)
    # A tenth of the length: this arm takes seven times as long.
    pair(to, "perf-trace", "./touch 64 1 40", "perf trace -F all -o /dev/null -- ./touch 64 1 40")


@topic("older", print_pairs, rounds=15)
def take_older(to):
    """workloads and programs under `run`, by an older build (-- PATH) and by this one"""
    if not to.more:
        record.fail("name the older build after --")
    shutil.copy(to.more[0], "older")
    for name, command in ({name: workload(name) for name in WORKLOADS} | PROGRAMS).items():
        pair(to, name, f"./older run -- {command}", f"faultless run -- {command}", command)


def allocators(to):
    """Words in front of a command: the pool, glibc with tunables, and each NAME=LIBRARY after --."""
    found = ["faultless run -- ", ""] + [f"env GLIBC_TUNABLES={tunables} " for tunables in (KEEPING, HUGE, f"{KEEPING}:{HUGE}")]
    for name, _, library in (word.partition("=") for word in to.more):
        if not os.path.exists(library):
            record.fail(f"{name}: no library at {library}")
        if not os.path.exists(f"{name}.so"):
            os.symlink(os.path.realpath(library), f"{name}.so")
        found.append(f"env LD_PRELOAD=./{name}.so ")
    return found + ["faultless run --small mimalloc -- "]


@topic("peers", print_pairs, rounds=15)
def take_peers(to):
    """workloads under every allocator; name libraries after -- as NAME=LIBRARY"""
    commands = {name: workload(name) for name in ("temporaries", "bursts", "growth", "thread-churn")}
    commands |= {f"chunk-pipeline-{workers}": workload("chunk-pipeline", f"--workers {workers}") for workers in (1, 2)}
    # Longer than by default, since 50 ms are too short; `mixed` with larger blocks.
    commands |= {name: workload(name, "--blocks 2000") for name in ("calloc-sparse", "calloc-full")}
    commands |= {"mixed-large": workload("mixed", "--ops 400000 --max-size 262144"), "idle-bursts": workload("idle-bursts", "--bursts 4")}
    for name, command in commands.items():
        pair(to, name, *(before + command for before in allocators(to)))


@topic("programs", print_pairs, rounds=15)
def take_programs(to):
    """real programs under every allocator; name libraries after -- as NAME=LIBRARY"""
    commands = {f"numpy-{mib}": f"{{run}}./python array.py {mib}" for mib in (1, 16, 64)} | {"pandas": "{run}./python frame.py", "redis": REDIS}
    commands |= {name: "{run}" + PROGRAMS[name] for name in ("python3", "sqlite3", "gcc", "zstd", "xz", "node")}
    for name, command in commands.items():
        needed = {"numpy": "numpy", "pandas": "pandas"}.get(name.partition("-")[0])
        if needed and os.system(f"./python -c 'import {needed}' 2>/dev/null") or name == "redis" and not shutil.which("redis-server"):
            left_out(name, f"there is no {needed or name}")
        else:
            pair(to, name, *(command.replace("{run}", before) for before in allocators(to)))


@topic("advise", print_pairs, rounds=8)
def take_advise(to):
    """the verdicts of `advise`, each beside a comparison of its winner with the plain program"""
    commands = {name: workload(name) for name in WORKLOADS if not name.startswith(("calloc", "idle", "thread"))}
    commands |= {name: workload(name, "--blocks 2000") for name in ("calloc-sparse", "calloc-full")}
    commands |= {"idle-bursts": workload("idle-bursts", "--bursts 4 --idle-ms 300"), "shell-loop": "sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done'"}
    few = ["--runs", str(max(3, to.args.rounds))] if to.args.rounds else []
    for name, command in commands.items():
        advice = to.keep(f"advise-{name}.json.gz", "advise", "--json", *few, "--", *shlex.split(command))
        if advice["winner"] is None:
            print(f"{name}: nothing helps", file=sys.stderr)
            continue
        best = advice["scores"][advice["winner"]]
        print(f"{name}: {best['arm']['name']}, wall ratio {text([best['wall'][end] for end in ('value', 'low', 'high')])}", file=sys.stderr)
        pair(to, name, command, best["arm"]["adopt"])


def print_compared(paths):
    print(f"{'commands':10} {'':5} {'compare':>22} {'pairs':>22} {'n':>3}  the interval of compare holds the ratio of the pairs")
    for path in (path for path in paths if ".csv" in path):
        pairs, found = Arms(record.read(path)[0]), json_of(path.replace(".csv", ".json"))["commands"][1]
        for what, get in (("wall", wall_s), ("cpu", cpu_s)):
            ours, theirs = (found[f"{what}_ns"]["ratio"][end] for end in ("value", "low", "high")), pairs.ratio("second", "first", get)
            value, low, high = ours
            answer = CANNOT_SAY if theirs.count < FEWEST else HOLDS if low <= theirs[0] <= high else FAILS
            print(f"{os.path.basename(path).partition('.')[0]:10} {what:5} {text((value, low, high)):>22} {text(theirs):>22} {theirs.count:3}  {answer}")


@topic("compare", print_compared, rounds=40)
def take_compare(to):
    """the ratio that `compare` says, beside pairs of runs that share no code with it"""
    for name, (first, second) in COMPARED.items():
        pair(to, name, first, second)
        arms = {"first": first, "second": second}
        with to.table(name, ["round", "order", "arm", *COLUMNS], arms) as table:
            for number, order in rounds(to.rounds, arms, warmup=1, name=name):
                for place, arm in enumerate(order):
                    warm(400)
                    row, _ = run(arms[arm])
                    if number >= 0:
                        table.row(number, place, arm, *row)


def print_kept(paths):
    for path in paths:
        document = json_of(path) if ".json" in path else {}
        print(f"{path}: {document.get('verdict', '')}")


@topic("check", print_kept)
def take_check(to):
    """* `doctor --check`: programs that time their own touches; -- TEXT takes those whose name has it"""
    to.keep("check.json.gz", "doctor", f"--check={' '.join(to.more)}", "--json")


@topic("lab", print_kept, rounds=9)
def take_lab(to):
    """experiments and claims of the lab (all take about 75 minutes); options after -- go to `faultless lab`"""
    to.keep("verdicts.txt", "lab", *to.more, "--rounds", str(to.rounds), "--output", "lab")
    for name in ("samples.csv", "notes.csv"):
        with open(f"lab/{name}", "rb") as file:
            to.store(name + ".gz" * (name == "samples.csv"), file.read())
