"""What do `stat -p` and `record -p` do to a server under load: is a request lost, is anything left, what does it cost?"""
import contextlib, glob, os, random, re, shutil, subprocess, sys, time

from harness import record
from topics import PROGRAMS, json_of, left_out, topic

FIELDS = ["server", "part", "round", "arm", "value", "status", "errors", "descriptors", "threads", "events", "seconds"]
# Length of a window, s.
WINDOW_S = 4

REDIS = "redis-cli -s redis.sock "
HTTP = "curl -sf http://127.0.0.1:$(cat port)/"
SQL = "psql -h $PWD -Atc '{}' postgres"
# A server's shell commands, in a folder of its own. `load` runs until it is ended, `fixed` to its own end; `requests` and
# `errors` print counts.
SERVERS = {
    "redis": {
        "needs": "redis-server", "prepare": "true", "start": "exec redis-server --port 0 --unixsocket redis.sock --save '' --appendonly no",
        "ready": REDIS + "ping | grep -q PONG", "load": "exec redis-benchmark -s redis.sock -l -q -c 8 -d 400 -r 100000 -t set,get",
        "fixed": "redis-benchmark -s redis.sock -q -n 200000 -c 8 -d 4000 -r 20000 -t set",
        "pids": REDIS + "info server | grep process_id", "requests": REDIS + "info stats | grep total_commands",
        "errors": REDIS + "info errorstats | grep -c errorstat_", "stop": REDIS + "shutdown nosave"},
    "postgres": {
        "needs": "postgres", "prepare": "initdb -D data -A trust", "start": "exec postgres -D data -k $PWD -h '' -c shared_buffers=256MB",
        "ready": f"{SQL.format('select 1')} && (test -f filled || pgbench -h $PWD -i -q -s 5 postgres && touch filled)",
        "load": "exec pgbench -h $PWD -n -S -c 4 -T 100000 postgres", "fixed": "pgbench -h $PWD -n -S -c 4 -t 2000 -C postgres",
        "pids": "read -r main <data/postmaster.pid; echo $main; cat /proc/$main/task/$main/children",
        "requests": SQL.format("select sum(xact_commit) from pg_stat_database"),
        "errors": SQL.format("select sum(xact_rollback + deadlocks) from pg_stat_database"), "stop": "pg_ctl -D data -m fast stop"},
    "jvm": {
        "needs": "java", "prepare": f"javac -d . {PROGRAMS}/Server.java",
        "start": "rm -f port; echo $$ >pid; exec java -Xmx1g -Dsun.net.httpserver.nodelay=true -XX:-UseDynamicNumberOfCompilerThreads -XX:-UseDynamicNumberOfGCThreads Server",
        "ready": HTTP + "work", "load": f"exec {sys.executable} {PROGRAMS}/http_load.py", "fixed": f"{sys.executable} {PROGRAMS}/http_load.py 8000",
        "pids": "cat pid", "requests": HTTP + "stats | cut -d ' ' -f 1", "errors": HTTP + "stats | cut -d ' ' -f 2", "stop": "kill $(cat pid)"},
}


class Server:
    """A running server and its load, in a folder of its own; postgres runs as its own user."""

    def __init__(self, name):
        self.name, self.commands, self.folder = name, SERVERS[name], os.path.abspath(f"server-{name}")
        self.user = ["runuser", "-u", "postgres", "--"] if name == "postgres" else []
        os.makedirs(self.folder, exist_ok=True)
        if self.user:
            shutil.chown(self.folder, "postgres")
        self.sh("prepare")

    def begin(self, what, before=()):
        return subprocess.Popen([*before, *self.user, "sh", "-c", self.commands[what]], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def sh(self, what):
        done = subprocess.run([*self.user, "sh", "-c", self.commands[what]], cwd=self.folder, capture_output=True, text=True)
        return done.returncode, [int(number) for number in re.findall(r"\d+", done.stdout)]

    def start(self, before=()):
        self.process, begin = self.begin("start", before), time.monotonic()
        while self.sh("ready")[0]:
            if time.monotonic() - begin > 60:
                record.fail(f"{self.name} did not become ready in time")
            time.sleep(0.05)

    def stop(self):
        self.sh("stop")
        self.process.wait(30)

    def __enter__(self):
        """Under load."""
        self.start()
        # Before the load, whose connections count too.
        self.before = self.held()
        self.load = self.begin("load")
        time.sleep(2)
        return self

    def __exit__(self, *_):
        self.end_load()
        self.stop()

    def end_load(self):
        """Whether the load was still running."""
        lives = self.load.poll() is None
        self.load.terminate()
        self.load.wait(30)
        return lives

    def held(self):
        """Errors; descriptors and threads of the first process; perf events that programs called faultless hold."""
        first, errors, events = self.sh("pids")[1][0], self.sh("errors")[1][0], 0
        # The connections of these questions end.
        time.sleep(0.2)
        for path in glob.iglob("/proc/[0-9]*/fd/*"):
            with contextlib.suppress(OSError):
                events += "perf_event" in os.readlink(path) and os.readlink(f"/proc/{path.split('/')[2]}/exe").endswith("/faultless")
        return [errors, len(os.listdir(f"/proc/{first}/fd")), len(os.listdir(f"/proc/{first}/task")), events]


def attach(to, verb, server, seconds):
    """Starts `stat -p` or `record -p`."""
    pids = ",".join(map(str, server.sh("pids")[1]))
    return subprocess.Popen([to.faultless, verb, "-o", f"attached.{verb}", "-p", pids, "--for", f"{round(seconds * 1000)}ms"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cycles(to, name, table):
    """Attaches for a second under load, again and again. Then everything must be as before."""
    with Server(name) as server:
        for number in range(to.rounds):
            for verb in ("stat", "record"):
                status = attach(to, verb, server, 1).wait()
                table.row(name, "cycle", number, verb, 0, status, server.held()[0] - server.before[0], "", "", "", "")
        lives = server.end_load()
        time.sleep(1)
        table.row(name, "after", 0, "all", int(lives), 0, *(now - before for now, before in zip(server.held(), server.before)), "")


def windows(to, name, table):
    """Pairs of windows under load, one of each with `record` or `stat` attached; requests a second."""
    with Server(name) as server:
        for number in range(to.rounds):
            for verb in ("stat", "record"):
                for arm in random.sample([verb, f"without {verb}"], 2):
                    watching = attach(to, verb, server, WINDOW_S + 2) if arm == verb else None
                    # Attaching calibrates first.
                    time.sleep(1)
                    begin, requests = time.monotonic(), server.sh("requests")[1][0]
                    time.sleep(WINDOW_S)
                    rate = (server.sh("requests")[1][0] - requests) / (time.monotonic() - begin)
                    table.row(name, "window", number, arm, rate, watching.wait() if watching else 0, "", "", "", "", "")


def figures(to, name, table):
    """Faults of a fixed load and seconds in them, by `stat -p`, and by `stat` around the server with the load and without."""
    def counted():
        found = json_of("counted.json")
        return sum(row["faults"] for row in found["rows"]), found["time"]["seconds"]["value"]

    server = Server(name)
    around = [to.faultless, "stat", "--json", "-o", os.path.abspath("counted.json")]
    for number in range(min(to.rounds, 6)):
        found = {}
        for what in ("pids", "fixed"):
            server.start([*around, "--"])
            server.sh(what)
            server.stop()
            found[what] = counted()
        server.start()
        watching = subprocess.Popen([*around, "-p", ",".join(map(str, server.sh("pids")[1]))], stderr=subprocess.DEVNULL)
        time.sleep(2)
        server.sh("fixed")
        watching.send_signal(2)
        watching.wait()
        server.stop()
        of_load = [more - less for more, less in zip(found["fixed"], found["pids"])]
        for arm, (faults, seconds) in (("under stat", of_load), ("stat -p", counted())):
            table.row(name, "figures", number, arm, faults, 0, "", "", "", "", seconds)


@topic("attach", rounds=20)
def take_attach(to):
    """what `stat -p` and `record -p` do to Redis, PostgreSQL and a JVM under load; needs root, and `window` a quiet machine"""
    with to.table("attach", FIELDS) as table:
        for name, commands in SERVERS.items():
            if not shutil.which(commands["needs"]):
                left_out(name, f"{commands['needs']} is not installed")
                continue
            for part in (cycles, windows, figures):
                part(to, name, table)
