#!/usr/bin/env python3
"""Takes the records of this machine into record/TOPIC/DATE-HOST.

    bench/take.py --host xeon-2cpu run stat
    bench/take.py --host xeon-2cpu --list

Builds the release binary of this clean commit and copies it, so that no later build changes what is measured. Nothing
else should run meanwhile. Without topics it takes those marked with *. Options after -- go to the topic's own script.
"""
import argparse, os, shutil, subprocess, sys, tempfile, time

from harness import record

HERE = os.path.dirname(os.path.realpath(__file__))
# Workload -> MiB that it touches.
WARM_MIB = {"chunk-pipeline": 256, "temporaries": 1000, "mixed": 128, "calloc-sparse": 128, "calloc-full": 128, "growth": 2600,
            "bursts": 1024, "idle-bursts": 1024, "thread-churn": 256, "touch-once": 600}
# Program -> command and MiB that it touches. inputs.py writes the inputs.
PROGRAMS = {
    "gcc": ("gcc -O1 -c functions.c -o -", 150), "python3": ("./python parse.py", 300), "sqlite3": ("sqlite3 :memory: '.read table.sql'", 100),
    "xz": ("xz -0 -T2 -c some.txt", 100), "git": ("git -C tree hash-object big.json functions.c some.txt", 150),
    "node": ("node sum.js", 300), "cpp": ("./words", 300), "zstd": ("zstd -3 -T2 -qc lines.txt", 150), "sort": ("sort lines.txt", 300),
    "numpy": ("./python arrays.py", 600),
}
# The same programs for two seconds and more, in one process each but for gcc.
LONGER = {
    "gcc": ("gcc -O2 -S functions.c functions.c", 150), "python3": ("./python -c \"exec(open('parse.py').read() * 3)\"", 300),
    "sqlite3": ("sqlite3 :memory:" + " '.read table.sql' 'drop table t'" * 8, 100), "xz": ("xz -0 -T2 -c lines.txt", 100),
    "node": ("node -e \"for (let i = 0; i < 9; i++) eval(require('fs').readFileSync('sum.js', 'utf8'))\"", 300),
    "sort": ("sort lines.txt lines.txt", 600),
}

# Name -> two commands that `compare` tells apart, or not.
COMPARED = {
    "gcc": ("gcc -O1 -c functions.c -o -", "gcc -O2 -c functions.c -o -"), "sort": ("sort lines.txt", "sort -S 1M lines.txt"),
    "zstd": ("zstd -1 -qc lines.txt", "zstd -3 -qc lines.txt"), "python3": ("./python parse.py", "./python -X importtime parse.py"),
    "cpp": ("./words", "faultless run -- ./words"),
}


class Taker:
    """One call: the folder of inputs, which is the working directory, and where records go."""

    def __init__(self, args, work):
        self.args, self.work = args, work
        self.date = time.strftime("%Y-%m-%d", time.gmtime())

    def out(self, topic):
        root = self.args.trial or record.RECORDS
        return os.path.join(root, topic, f"{self.date}-{self.args.host}")

    def script(self, script, topic, *words):
        trial = ["--trial"] if self.args.trial else []
        rounds = ["--rounds", str(self.args.rounds)] if self.args.rounds else []
        subprocess.run([sys.executable, os.path.join(HERE, script), "--out", self.out(topic), *trial, *words, *rounds, *self.args.more],
                       check=True, cwd=self.work)

    def pair(self, topic, name, rounds, warm_mib, user="", **arms):
        as_user = ["--user", user] if user else []
        self.script("paired.py", topic, "--name", name, "--rounds", str(rounds), "--warm", str(warm_mib), *as_user,
                    *(f"{arm.replace('_', '-')}={command}" for arm, command in arms.items()))


def take_run(to):
    """* workloads and real programs under `run`, against plain glibc"""
    for name in ("chunk-pipeline", "temporaries", "bursts", "growth"):
        command = f"faultless workload --quiet {name}"
        to.pair("run", name, 15, WARM_MIB[name], plain=command, pool=f"faultless run -- {command}")
    for name in ("gcc", "python3", "sqlite3", "xz", "git", "node", "cpp"):
        command, mib = PROGRAMS[name]
        to.pair("run", name, 15, mib, plain=command, pool=f"faultless run -- {command}")


def take_stat(to):
    """* what `stat` costs, as root and as a normal user"""
    longer = {"chunk-pipeline": " --chunks 16000", "mixed": " --ops 20000000"}
    commands = {name: PROGRAMS[name] for name in ("gcc", "python3", "numpy", "sort", "zstd")}
    commands |= {name: (f"faultless workload --quiet {name}{longer.get(name, '')}", WARM_MIB[name])
                 for name in ("chunk-pipeline", "temporaries", "mixed", "bursts")}
    for user in ("", "nobody"):
        for name, (command, mib) in commands.items():
            # One counter of perf is what counting alone costs.
            counting = {"perf": f"perf stat -e page-faults -o /dev/null -- {command}"} if shutil.which("perf") else {}
            to.pair("stat", f"{user and 'user-'}{name}", 15, mib, user, plain=command, **counting,
                    stat=f"faultless stat -o /dev/null -- {command}")


def take_cost(to):
    """* what `stat` and `record` cost beside counters alone"""
    jobs = {name: PROGRAMS[name] for name in LONGER} | {f"longer-{name}": job for name, job in LONGER.items()}
    for name, (command, mib) in jobs.items():
        to.pair("cost", name, 16, mib, counters=f"faultless stat --sources counters -o /dev/null -- {command}",
                stat=f"faultless stat -o /dev/null -- {command}", record=f"faultless record -o said.trace -- {command}")


def take_record(to):
    """what `record` costs beside perf and heaptrack, as root and as a normal user"""
    subprocess.run(["cc", "-O2", "-g", "-o", "faults", f"{HERE}/programs/faults.c"], check=True, cwd=to.work)
    os.makedirs(f"{to.work}/recorded", exist_ok=True)
    os.chmod(f"{to.work}/recorded", 0o1777)
    commands = {"faults": ("./faults 400", 128), "chunk-pipeline": ("faultless workload --quiet chunk-pipeline --chunks 64000", 256),
                "numpy": ("./python -c \"exec(open('arrays.py').read() * 18)\"", 600)}
    for user in ("", "nobody"):
        for name, (command, mib) in commands.items():
            others = {"perf": f"perf record -q -e page-faults -c 97 -g -o /dev/null -- {command}"} if shutil.which("perf") else {}
            others |= {"heaptrack": f"heaptrack -o recorded/heaptrack {command}"} if shutil.which("heaptrack") else {}
            to.pair("record", f"{user and 'user-'}{name}", 10, mib, user, plain=command,
                    record=f"faultless record -o recorded/trace -- {command}",
                    alloc=f"faultless record --alloc -o recorded/trace -- {command}", **others)
    if shutil.which("perf"):
        # A tenth of the length: this arm takes seven times as long.
        to.pair("record", "perf-trace", 10, 128, plain="./faults 40", perf_trace="perf trace -F all -o /dev/null -- ./faults 40")


def take_first(to):
    """first passes over a fresh block under `run`, against plain glibc"""
    subprocess.run(["cc", "-O2", "-o", "first", f"{HERE}/programs/first.c"], check=True, cwd=to.work)
    for call in ("malloc", "calloc"):
        for mib in (16, 64, 256, 1024, 3000):
            to.pair("first", f"{call}-{mib}", 15, mib, plain=f"./first {call} {mib}", pool=f"faultless run -- ./first {call} {mib}")


def take_older(to):
    """workloads and programs under `run`, by an older build (--older PATH) and by this one"""
    if not to.args.older:
        record.fail("name the older build with --older")
    shutil.copy(to.args.older, f"{to.work}/older")
    jobs = {name: (f"faultless workload --quiet {name}", mib) for name, mib in WARM_MIB.items()} | PROGRAMS
    for name, (command, mib) in jobs.items():
        to.pair("older", name, 15, mib, older=f"./older run -- {command}", now=f"faultless run -- {command}", plain=command)


def take_peers(to):
    """workloads under every allocator; name libraries after --"""
    to.script("peers.py", "peers")


def take_programs(to):
    """real programs under every allocator; name libraries after --"""
    to.script("peers.py", "peers", "--name", "programs", "--programs", to.work, "--python", f"{to.work}/python")


def take_short(to):
    """* `stat` and `record --all` on short programs"""
    to.script("short.py", "short")


def take_diffs(to):
    """what `diff` names between builds whose differences are known"""
    to.script("diffs.py", "diffs")


def kept(to, topic, name, *words):
    """Keeps what a verb of faultless prints."""
    folder = to.out(topic)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "host.txt"), "a") as file:
        file.write(("\n" if file.tell() else "") + record.host(to.head, f"faultless {' '.join(words)}"))
    with open(os.path.join(folder, name), "x") as out:
        # 1 is an answer too: no.
        status = subprocess.run(["faultless", *words], stdout=out, cwd=to.work).returncode
    if status > 1:
        record.fail(f"faultless {' '.join(words)}: status {status}")


def take_check(to):
    """* `doctor --check`: programs that time their own touches"""
    kept(to, "check", "check.json", "doctor", "--check", "--json")


def take_screens(to):
    """* what the README shows: `stat` and `advise` on a script of NumPy expressions"""
    shutil.copy(f"{HERE}/programs/analysis.py", to.work)
    kept(to, "screens", "stat.txt", "stat", "-o", "-", "--", "./python", "analysis.py")
    kept(to, "screens", "advise.txt", "advise", "--", "./python", "analysis.py")


def take_compare(to):
    """the ratio that `compare` says, and that of 40 pairs of runs"""
    for name, (first, second) in COMPARED.items():
        kept(to, "compare", f"{name}.json", "compare", "--json", first, second)
        to.pair("compare", name, 40, 150, first=first, second=second)


def take_lab(to):
    """every experiment and claim of the lab, in the rounds that a pilot plans (about 75 minutes)"""
    rounds = str(to.args.rounds or 9)
    subprocess.run(["faultless", "lab", "--rounds", rounds, "--output", "pilot"], stdout=subprocess.DEVNULL, cwd=to.work)
    kept(to, "lab", "verdicts.txt", "lab", "--pilot", "pilot", "--output", "lab")
    for name in ("samples.csv", "notes.csv", "plan.json"):
        shutil.copy(f"{to.work}/lab/{name}", to.out("lab"))
    subprocess.run(["gzip", "-9n", f"{to.out('lab')}/samples.csv"], check=True)


TOPICS = {name.removeprefix("take_"): take for name, take in list(globals().items()) if name.startswith("take_")}


def prepare(args, work):
    """Inputs, the program under test and a Python that every user may run, in one folder."""
    subprocess.run([sys.executable, f"{HERE}/inputs.py", work], check=True)
    if not args.faultless:
        subprocess.run(["cargo", "build", "--release"], check=True, cwd=record.ROOT)
    built = args.faultless or f"{record.ROOT}/target/release/faultless"
    shutil.copy(built, f"{work}/faultless")
    # `faultless lab` starts the program beside it.
    if os.path.exists(f"{built}-lab"):
        shutil.copy(f"{built}-lab", f"{work}/faultless-lab")
    python = shutil.which(args.python)
    os.symlink(subprocess.run([python, "-c", "import os, sys; print(os.path.realpath(sys.executable))"], capture_output=True, text=True,
                              check=True).stdout.strip(), f"{work}/python")
    subprocess.run("g++ -O2 -o words words.cpp && git init -q tree && cp big.json functions.c some.txt tree && chmod -R a+rX .",
                   shell=True, check=True, cwd=work)
    os.environ["PATH"] = f"{work}:{os.environ['PATH']}"


def main():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = record.parser(__doc__)
    parser.add_argument("--host", default="host", help="name of this machine [%(default)s]")
    parser.add_argument("--list", action="store_true", help="print the topics and exit")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds, instead of each topic's own")
    parser.add_argument("--python", default="python3", metavar="PATH", help="a Python with NumPy and pandas, not of a virtual environment [%(default)s]")
    parser.add_argument("--older", metavar="PATH", help="an older build, for the topic `older`")
    parser.add_argument("--trial", metavar="DIR", help="write to DIR instead of record/; the commit need not be clean")
    parser.add_argument("--faultless", metavar="PATH", help="with --trial: this program instead of a new build")
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    args = parser.parse_args(words[:cut])
    args.more = words[cut + 1:]
    if args.list:
        for name, take in TOPICS.items():
            print(f"{name:12} {take.__doc__}")
        return
    for name in args.topics:
        if name not in TOPICS:
            record.fail(f"there is no topic {name}; there are {', '.join(TOPICS)}")
    if args.faultless and not args.trial:
        record.fail("a record measures a build of this commit: --faultless needs --trial")
    args.trial = args.trial and os.path.realpath(args.trial)
    args.faultless = args.faultless and os.path.realpath(args.faultless)
    with tempfile.TemporaryDirectory(prefix="faultless-take-") as work:
        os.chmod(work, 0o755)
        to = Taker(args, work)
        to.head = record.check(argparse.Namespace(out=args.trial or record.RECORDS, rounds=1, trial=args.trial))
        prepare(args, work)
        for name in args.topics or [name for name, take in TOPICS.items() if take.__doc__.startswith("*")]:
            TOPICS[name](to)


if __name__ == "__main__":
    main()
