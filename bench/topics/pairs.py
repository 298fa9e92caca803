"""Topics that `faultless compare` measures: commands in shuffled rounds, each compared with the first. `compare` itself is
compared with pairs of runs that share no code with it."""
import json, os, shutil, subprocess

from harness import record
from harness.figures import text
from harness.process import COLUMNS, output, run, warm
from harness.rounds import rounds
from topics import PROGRAMS, left_out, topic

# Program -> command. inputs.py writes the inputs.
COMMANDS = {
    "gcc": "gcc -O1 -c functions.c -o /dev/null", "python3": "./python parse.py", "sqlite3": "sqlite3 :memory: '.read table.sql'",
    "xz": "xz -0 -T2 -c some.txt", "git": "git -C tree hash-object big.json functions.c some.txt", "node": "node sum.js", "cpp": "./words",
    "zstd": "zstd -3 -T2 -qc lines.txt", "sort": "sort lines.txt", "numpy": "./python array.py 16",
}
# The same programs for two seconds and more, in one process each but for gcc.
LONGER = {
    "gcc": "gcc -O2 -S functions.c functions.c", "python3": "./python -c \"exec(open('parse.py').read() * 3)\"",
    "sqlite3": "sqlite3 :memory:" + " '.read table.sql' 'drop table t'" * 8, "xz": "xz -0 -T2 -c lines.txt",
    "node": "node -e \"for (let i = 0; i < 9; i++) eval(require('fs').readFileSync('sum.js', 'utf8'))\"", "sort": "sort lines.txt lines.txt",
}
# Name -> two commands that `compare` tells apart, or not.
COMPARED = {
    "gcc": ("gcc -O1 -c functions.c -o /dev/null", "gcc -O2 -c functions.c -o /dev/null"), "sort": ("sort lines.txt", "sort -S 1M lines.txt"),
    "zstd": ("zstd -1 -qc lines.txt", "zstd -3 -qc lines.txt"), "python3": ("./python parse.py", "./python -X importtime parse.py"),
    "cpp": ("./words", "faultless run -- ./words"),
}
# One heap that grows by 64 MiB, never maps single blocks and never trims: the fewest faults of glibc.
KEEPING = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864"
HUGE = "glibc.malloc.hugetlb=1"


def workload(name, more=""):
    return f"faultless workload --quiet {name}{more and ' ' + more}"


def pair(to, name, *commands):
    """Compares commands with the first; whether it could. Fewer rounds than eight hold no interval, so `compare` takes none."""
    if not shutil.which(commands[0].split()[0]):
        left_out(name, f"{commands[0].split()[0]} is not installed")
        return False
    document = to.printed("compare", "--json", "--runs", str(max(8, to.rounds)), *commands)
    found = json.loads(document)["commands"]
    for command in found:
        if command["failed"]:
            left_out(name, f"`{command['command']}` ended with {command['failure']}")
            return False
    to.store(f"{name}.json.gz", document)
    for command in found[1:]:
        wall, cpu = (text(list(command[name]["ratio"].values())) for name in ("wall_ns", "cpu_ns"))
        print(f"{name}: wall time {wall}, CPU time {cpu}  {command['command']}")
    return True


@topic("run", rounds=15)
def take_run(to):
    """* workloads and real programs under `run`, against plain glibc"""
    commands = {name: workload(name) for name in ("chunk-pipeline", "temporaries", "bursts", "growth", "touch-once")} | COMMANDS
    for name, command in commands.items():
        pair(to, name, command, f"faultless run -- {command}")


@topic("cost", rounds=16)
def take_cost(to):
    """* what `stat` and `record` cost beside counters alone"""
    for name, command in ({name: COMMANDS[name] for name in LONGER} | {f"longer-{name}": command for name, command in LONGER.items()}).items():
        pair(to, name, f"faultless stat --sources counters -o /dev/null -- {command}", f"faultless stat -o /dev/null -- {command}",
             f"faultless record -o said.trace -- {command}")


def allocators(to):
    """Arm -> words in front of a command: the pool, glibc with tunables, and each NAME=LIBRARY after --."""
    found = {"pool": "faultless run -- ", "pool-small": "faultless run --small mimalloc -- ", "glibc": ""}
    found |= {name: f"env GLIBC_TUNABLES={value} " for name, value in (("glibc-keeping", KEEPING), ("glibc-huge", HUGE), ("glibc-both", f"{KEEPING}:{HUGE}"))}
    for name, _, library in (word.partition("=") for word in to.more):
        if not os.path.exists(library):
            record.fail(f"{name}: no library at {library}")
        # A relative name: paths of this machine say nothing to a reader.
        os.symlink(os.path.realpath(library), f"{name}.so")
        found[name] = f"env LD_PRELOAD=./{name}.so "
    return found


@topic("peers", rounds=15)
def take_peers(to):
    """workloads under every allocator; name libraries after -- as NAME=LIBRARY"""
    # About a second each: 110 runs of each are taken.
    commands = {name: workload(name, size) for name, size in (
        ("temporaries", "--total-mib 2048"), ("bursts", "--bursts 4 --blocks 300"), ("growth", "--max-mib 512"), ("thread-churn", ""))}
    commands |= {f"chunk-pipeline-{workers}": workload("chunk-pipeline", f"--workers {workers}") for workers in (1, 2)}
    # Longer than by default, since 50 ms are too short; `mixed` with larger blocks.
    commands |= {name: workload(name, "--blocks 2000") for name in ("calloc-sparse", "calloc-full")}
    commands |= {"mixed-large": workload("mixed", "--ops 400000 --max-size 262144"), "idle-bursts": workload("idle-bursts", "--bursts 2")}
    arms = allocators(to)
    with to.table("peers", ["job", "round", "arm", "wall_s", "user_s", "sys_s", "minflt", "maxrss_kib", "body_s"], arms) as table:
        for name, command in commands.items():
            found = to.said("compare", "--json", "--runs", str(max(8, to.rounds)), *(before + command for before in arms.values()))
            for arm, own in zip(arms, found["commands"]):
                for number, one in enumerate(own["runs"]):
                    table.row(name, number, arm, one["wall_ns"] / 1e9, (one["cpu_ns"] - one["system_ns"]) / 1e9, one["system_ns"] / 1e9, one["faults"],
                              one["peak_rss_bytes"] // 1024, "")


# More programs, each with large blocks of other sizes and ages.
HELD = {
    "xz-3": "xz -3 -T2 -c some.txt", "zstd-9": "zstd -9 --long=24 -T2 -qc some.txt", "sort-twice": LONGER["sort"], "perl":
    "perl -e 'push @a, q(x) x ($_ % 700) for 1..300000; my $s = join q(), @a; for (1..30) {my $t = $s; $t .= q(z)} print length $s'",
    "dumps": "./python -c \"import json; d = json.load(open('big.json')); print(len(''.join([json.dumps(r) for r in d])))\"",
    "bytearrays": "./python -c \"x = [bytearray(i * 7919 % 900000) for i in range(400)]; del x[::2]; y = [bytes(2000000) for _ in range(40)]; print(len(y))\"",
    "numpy-append": "./python -c \"import numpy as np; a = np.zeros(0)\nfor _ in range(60): a = np.append(a, np.ones(100000))\nprint(a.sum())\"",
    "numpy-mixed": "./python -c \"import numpy as np; a = [np.random.rand(n) for n in (10**5, 10**6, 3*10**6)]; print(sum((x*x+x).sum() for _ in range(9) for x in a))\"",
    "javac-help": "javac --help-extra",
}
MIXES = ("beside", "beside-large", "doubling", "copying", "growing", "aligned", "sparse", "sparse-zeroed", "dense-sparse")
SMALL_MIXES = ("sparse", "phases", "threads", "beside", "grow")


@topic("memory")
def take_memory(to):
    """* memory at the peak and two decay times after the last free, under every allocator; libraries as for `peers`"""
    programs = os.path.join(record.ROOT, "crates/cli/tests/programs")
    for name in ("memory_mixes", "small_mix"):
        subprocess.run(["cc", "-O1", "-fno-builtin", "-pthread", "-o", name, f"{programs}/{name}.c"], check=True)
    commands = COMMANDS | HELD | {name: workload(name) for name in ("chunk-pipeline", "temporaries", "bursts", "growth", "touch-once")}
    commands = {name: command for name, command in commands.items() if shutil.which(command.split()[0])}
    commands |= {f"mix-{mix}": f"./memory_mixes {mix} 2" for mix in MIXES} | {f"small-{mix}": f"./small_mix {mix}" for mix in SMALL_MIXES}
    arms = {name: words for name, words in allocators(to).items() if not name.startswith("glibc-")}
    # The mixes end two seconds after their last free. By default the pool waits longer in some guests.
    arms |= {name: words.replace("faultless run", "faultless run --decay 1s") for name, words in arms.items()}
    with to.table("memory", ["job", "round", "arm", "peak_kib", "rest_mib"], arms) as table:
        for name, command in commands.items():
            for number, order in rounds(to.rounds, arms, warmup=0, name=name):
                for arm in order:
                    row, text = run(arms[arm] + command)
                    if row[COLUMNS.index("status")]:
                        record.fail(f"{name}: `{arms[arm]}{command}` ended with status {row[COLUMNS.index('status')]}")
                    rest = text.split()[-1].decode() if name.startswith(("mix-", "small-")) else ""
                    table.row(name, number, arm, row[COLUMNS.index("maxrss_kib")], rest)


@topic("compare", rounds=40)
def take_compare(to):
    """the ratio that `compare` says, beside pairs of runs that share no code with it"""
    for name, (first, second) in COMPARED.items():
        if not pair(to, name, first, second):
            continue
        arms = {"first": first, "second": second}
        with to.table(name, ["round", "order", "arm", *COLUMNS], arms) as table:
            for number, order in rounds(to.rounds, arms, warmup=1, name=name):
                for place, arm in enumerate(order):
                    warm(400)
                    row, _ = run(arms[arm])
                    if row[COLUMNS.index("status")]:
                        record.fail(f"{name}: `{arms[arm]}` ended with status {row[COLUMNS.index('status')]}")
                    if number >= 0:
                        table.row(number, place, arm, *row)


@topic("check")
def take_check(to):
    """* `doctor --check`: programs that time their own touches; -- TEXT takes those whose name has it"""
    to.keep("check.json.gz", "doctor", f"--check={' '.join(to.more)}", "--json")


@topic("screens")
def take_screens(to):
    """* what the README shows: `advise` on a script of NumPy expressions, and, with chromium, the begin of its report"""
    shutil.copy(f"{PROGRAMS}/analysis.py", ".")
    # Ends here without NumPy.
    output(["./python", "analysis.py"])
    to.keep("advise.txt", "advise", "--", "./python", "analysis.py")
    browser = shutil.which("chromium")
    if not browser:
        return left_out("the pictures", "chromium is not installed")
    output([to.faultless, "record", "-o", "trace", "--", "./python", "analysis.py"])
    output([to.faultless, "report", "--html", "-o", "page.html", "trace"])
    with open("page.html", "a", encoding="utf-8") as page:
        # The picture ends with the list, so that nothing is cut.
        page.write("<style>.went > ul ~ *, .went ~ * { display: none !important }</style>")
    for scheme, number in (("light", 1), ("dark", 0)):
        picture = f"report-{scheme}.png"
        output([browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000", "--window-size=1000,418",
                f"--blink-settings=preferredColorScheme={number}", f"--screenshot={picture}", os.path.abspath("page.html")])
        to.store_file(picture, picture)


@topic("lab", rounds=9)
def take_lab(to):
    """experiments and claims of the lab (all take about 75 minutes); options after -- go to `faultless lab`"""
    subprocess.run([to.faultless, "lab", *to.more, "--rounds", str(to.rounds), "--output", "lab"], stdout=subprocess.DEVNULL)
    to.store_file("samples.csv.gz", "lab/samples.csv")
    to.store_file("notes.csv", "lab/notes.csv")
    said = to.said("lab", "report", "lab", "-o", "page.html", "--json")
    to.store("verdicts.json", json.dumps({part: said[part] for part in ("claims", "unjudged")}, indent=1).encode())
