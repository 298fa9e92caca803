#!/usr/bin/env python3
"""What do `stat -p` and `record -p` do to a server under load: is a request lost, is anything left, what does it cost?

    bench/attach.py --out record/attach/DATE-HOST --faultless target/release/faultless

Needs Redis, PostgreSQL, and root. Each server runs in a folder of its own and gets load all the time. Part `cycle`: 20
times each, `stat -p` and `record -p` attach for a second; afterwards the load must have no error, and the server the same
descriptors and threads as before. Part `window`: 20 pairs of windows, attached and not, in random order; requests a second.
Part `figures`: the faults that `stat -p` counts during a fixed load, beside a run of the same under `stat`.
"""
import contextlib, glob, json, os, random, shutil, subprocess, sys, tempfile, time

from harness import record
from harness.figures import interval, text
from harness.limits import judge

FIELDS = ["server", "part", "round", "arm", "value", "status", "errors", "descriptors", "threads", "events"]
LEAST = 0.95
WITHIN = 0.10


def ended(process, seconds=30):
    """Asks a process to end and waits."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    return process.wait()


def until(what, seconds=60):
    begin = time.monotonic()
    while not what():
        if time.monotonic() - begin > seconds:
            record.fail("the server did not become ready in time")
        time.sleep(0.05)


class Redis:
    """redis-server, its load, and its counter."""
    name = "redis"
    needs = ["redis-server", "redis-cli", "redis-benchmark"]

    def __init__(self, folder):
        self.socket = os.path.join(folder, "redis.sock")
        self.command = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no", "--dir", folder]

    def start(self, before=()):
        self.process = subprocess.Popen([*before, *self.command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self.cli("ping") == "PONG")

    def cli(self, *words):
        return subprocess.run(["redis-cli", "-s", self.socket, *words], capture_output=True, text=True).stdout.strip()

    def pids(self):
        info = dict(line.split(":", 1) for line in self.cli("info", "server").split() if ":" in line)
        return [int(info["process_id"])]

    def requests(self):
        info = dict(line.split(":", 1) for line in self.cli("info", "stats").split() if ":" in line)
        return int(info["total_commands_processed"])

    def load(self):
        return subprocess.Popen(["redis-benchmark", "-s", self.socket, "-l", "-q", "-c", "8", "-d", "400", "-r", "100000", "-t", "set,get"],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def errors(self):
        stats = self.cli("info", "errorstats")
        return sum(line.startswith("errorstat_") for line in stats.split())

    def fixed_load(self):
        done = subprocess.run(["redis-benchmark", "-s", self.socket, "-q", "-n", "200000", "-c", "8", "-d", "4000", "-r", "20000", "-t", "set"],
                              stdout=subprocess.DEVNULL)
        return done.returncode

    def stop(self):
        self.cli("shutdown", "nosave")
        self.process.wait(30)


class Postgres:
    """postgres, pgbench, and the commits that the database counts."""
    name = "postgres"
    needs = ["psql", "pgbench"]

    def __init__(self, folder):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [os.path.dirname(shutil.which("postgres") or "")]
        self.bin, self.folder, self.data = found[-1], folder, os.path.join(folder, "data")
        shutil.chown(folder, "postgres")
        self.user = ["runuser", "-u", "postgres", "--"]
        subprocess.run([*self.user, f"{self.bin}/initdb", "-D", self.data, "-A", "trust"], check=True, stdout=subprocess.DEVNULL)
        self.command = [*self.user, f"{self.bin}/postgres", "-D", self.data, "-k", folder, "-h", "", "-c", "shared_buffers=256MB"]
        self.is_filled = False

    def start(self, before=()):
        self.process = subprocess.Popen([*before, *self.command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self.sql("select 1") == "1")
        if not self.is_filled:
            subprocess.run([*self.user, "pgbench", "-h", self.folder, "-i", "-q", "-s", "5", "postgres"], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            self.is_filled = True

    def sql(self, query):
        return subprocess.run([*self.user, "psql", "-h", self.folder, "-Atc", query, "postgres"], capture_output=True, text=True).stdout.strip()

    def pids(self):
        with open(f"{self.data}/postmaster.pid") as file:
            main = int(file.readline())
        with open(f"/proc/{main}/task/{main}/children") as file:
            return [main, *map(int, file.read().split())]

    def requests(self):
        return int(self.sql("select xact_commit from pg_stat_database where datname = 'postgres'"))

    def load(self):
        return subprocess.Popen([*self.user, "pgbench", "-h", self.folder, "-n", "-S", "-c", "4", "-T", "100000", "postgres"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def errors(self):
        return int(self.sql("select xact_rollback + deadlocks from pg_stat_database where datname = 'postgres'"))

    def fixed_load(self):
        done = subprocess.run([*self.user, "pgbench", "-h", self.folder, "-n", "-S", "-c", "4", "-t", "2000", "-C", "postgres"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode

    def stop(self):
        subprocess.run([*self.user, f"{self.bin}/pg_ctl", "-D", self.data, "-m", "fast", "stop"], stdout=subprocess.DEVNULL)
        self.process.wait(30)


SERVERS = {server.name: server for server in (Redis, Postgres)}


def left_behind(args, pids):
    """Descriptors and threads of the server's first process, and perf events that our program holds. Others may hold some too."""
    count = lambda what: len(os.listdir(f"/proc/{pids[0]}/{what}"))
    events = 0
    for path in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            is_ours = os.path.realpath(f"/proc/{path.split('/')[2]}/exe") == args.faultless
            events += is_ours and "perf_event" in os.readlink(path)
    return count("fd"), count("task"), events


def attach(args, verb, pids, seconds):
    """Starts `stat -p` or `record -p`."""
    out = ["-o", os.path.join(args.work, "out")]
    words = [args.faultless, verb, *out, *(["--json"] if verb == "stat" else []), "-p", ",".join(map(str, pids))]
    return subprocess.Popen([*words, "--for", f"{round(seconds * 1000)}ms"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def cycles(args, server, table):
    """20 times each: attach for a second under load. Then everything must be as before."""
    server.start()
    before, errors = left_behind(args, server.pids()), server.errors()
    load = server.load()
    time.sleep(1)
    for number in range(args.rounds):
        for verb in ("stat", "record"):
            done = attach(args, verb, server.pids(), 1)
            said = done.communicate()[1]
            if done.returncode:
                record.fail(f"{server.name}: {verb} -p: {said.strip()}")
            table.row(server.name, "cycle", number, verb, 0, done.returncode, server.errors() - errors, "", "", "")
    lives = load.poll() is None
    ended(load)
    time.sleep(1)
    after = left_behind(args, server.pids())
    table.row(server.name, "after", 0, "all", int(lives), 0, server.errors() - errors, after[0] - before[0], after[1] - before[1], after[2] - before[2])
    server.stop()


def windows(args, server, table):
    """Pairs of windows under load, one of each with `record` or `stat` attached."""
    server.start()
    load = server.load()
    time.sleep(2)
    for number in range(args.rounds):
        for verb in ("stat", "record"):
            arms = [verb, f"without {verb}"]
            random.shuffle(arms)
            for arm in arms:
                watching = attach(args, verb, server.pids(), args.seconds + 2) if arm == verb else None
                # Attaching calibrates first.
                time.sleep(1)
                begin, requests = time.monotonic(), server.requests()
                time.sleep(args.seconds)
                rate = (server.requests() - requests) / (time.monotonic() - begin)
                if watching:
                    watching.communicate()
                table.row(server.name, "window", number, arm, rate, 0, "", "", "", "")
    ended(load)
    server.stop()


def counted(path):
    with open(path) as file:
        stat = json.load(file)
    return sum(row["faults"] for row in stat["rows"])


def figures(args, server, table):
    """Faults of a fixed load, by `stat -p` and by runs under `stat` with and without it."""
    out = os.path.join(args.work, "figures")
    for number in range(3):
        found = {}
        for arm in ("idle", "whole"):
            server.start([args.faultless, "stat", "--json", "-o", out, "--"])
            if arm == "whole" and server.fixed_load():
                record.fail(f"{server.name}: the load failed")
            server.stop()
            found[arm] = counted(out)
        server.start()
        watching = subprocess.Popen([args.faultless, "stat", "--json", "-o", out, "-p", ",".join(map(str, server.pids()))], stderr=subprocess.DEVNULL)
        time.sleep(2)
        server.fixed_load()
        watching.send_signal(2)
        watching.wait()
        server.stop()
        table.row(server.name, "figures", number, "under stat", found["whole"] - found["idle"], 0, "", "", "", "")
        table.row(server.name, "figures", number, "stat -p", counted(out), 0, "", "", "", "")


PARTS = {"cycle": cycles, "window": windows, "figures": figures}


def measure(args):
    args.faultless = os.path.realpath(args.faultless)
    names, parts = args.servers.split(","), args.parts.split(",")
    for name in names:
        if name not in SERVERS:
            record.fail(f"--servers: there is no {name}; there are {', '.join(SERVERS)}")
        missing = [tool for tool in SERVERS[name].needs if not shutil.which(tool)]
        if missing:
            record.fail(f"{name}: {missing[0]} is not installed")
    for part in parts:
        if part not in PARTS:
            record.fail(f"--parts: there is no {part}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="faultless-attach-") as args.work, record.Record(args, FIELDS) as table:
        os.chmod(args.work, 0o755)
        for name in names:
            folder = os.path.join(args.work, name)
            os.mkdir(folder)
            server = SERVERS[name](folder)
            for part in parts:
                print(f"{name}: {part}", file=sys.stderr)
                PARTS[part](args, server, table)
    table.summarize(summary)


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    if "descriptors" not in rows[0]:
        record.fail(f"{paths[0]}: not a table of attach.py")
    of = lambda **wanted: [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    for name in dict.fromkeys(row["server"] for row in rows):
        for row in of(server=name, part="after"):
            made = len(of(server=name, part="cycle"))
            lost = int(row["errors"]) + (row["value"] != "1")
            print(f"{name}: {made} cycles, {lost} requests lost, left: {row['descriptors']} descriptors, {row['threads']} threads, {row['events']} events")
        for verb in ("stat", "record"):
            own, others = ({row["round"]: float(row["value"]) for row in of(server=name, part="window", arm=arm)} for arm in (verb, f"without {verb}"))
            ratios = [own[number] / others[number] for number in own if others.get(number)]
            if ratios:
                found = interval(ratios)
                print(f"{name}: throughput with {verb} -p / without: {text(found)}, at least {LEAST}: {judge(found[1], found[2], least=LEAST)}")
        own, others = ([float(row["value"]) for row in of(server=name, part="figures", arm=arm)] for arm in ("stat -p", "under stat"))
        if own:
            ratio = sum(own) / sum(others)
            answer = "holds" if abs(ratio - 1) <= WITHIN else "fails"
            print(f"{name}: faults by stat -p / under stat: {ratio:.3f}, within {WITHIN:.0%}: {answer}")


def main():
    parser = record.parser(__doc__)
    record.options(parser, "attach", 20)
    parser.add_argument("--servers", default=",".join(SERVERS), metavar="NAMES", help="only these [%(default)s]")
    parser.add_argument("--parts", default=",".join(PARTS), metavar="NAMES", help="only these [%(default)s]; `window` needs a quiet machine")
    parser.add_argument("--seconds", type=float, default=4, metavar="S", help="length of a window [%(default)s]")
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    measure(args)


if __name__ == "__main__":
    main()
