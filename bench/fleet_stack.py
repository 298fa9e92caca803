#!/usr/bin/env python3
"""Runs the parts of a fleet together and compares what they say. Measures nothing.

    bench/fleet_stack.py --faultless target/debug/faultless
    bench/fleet_stack.py --faultless target/debug/faultless --quick

Prometheus scrapes the agent: at the same poll it must have the figures of the agent's page. Two real runs are recorded and
exported: DuckDB must find the faults of `faultless report`. Spark, as a cluster of a master and two workers on this
machine, must give DuckDB's rows, of these runs and of a small synthetic fleet.

--quick leaves Spark out and takes under a minute. Status 1: something differs. All that it starts ends with it. Needs
Prometheus, DuckDB, NumPy and pyarrow; without --quick also PySpark and Java 17.
"""
import contextlib, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request

from harness import process, record
from topics import left_out
from topics.fleet import PACKAGE, is_same, rows_of

READY_S = 60
# What is compared between the agent and Prometheus; the last one tells the polls apart.
METRICS = ("faultless_page_faults_total", "faultless_fault_seconds_total", "faultless_cpu_seconds_total", "faultless_agent_polls_total")
# Two services, by programs of `faultless workload`.
RUNS = {"touch": "touch-once --mib=64", "temporaries": "temporaries --total-mib=256"}
SYNTHETIC = "--hosts 18 --days 3 --services 6 --samples 24".split()
WORKERS = 2


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def got(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(what, found):
    """The first true answer of `found`; a refused connection is none yet."""
    begin = time.monotonic()
    while time.monotonic() - begin < READY_S:
        with contextlib.suppress(OSError):
            if answer := found():
                return answer
        time.sleep(0.2)
    raise Differs(f"{what}: not within {READY_S} s")


class Differs(Exception):
    """What is not as it should be."""


class Stack(contextlib.ExitStack):
    """What runs, in a folder that goes with it. The last one that was started ends first."""

    def __init__(self, faultless):
        super().__init__()
        self.folder, self.faultless = self.enter_context(tempfile.TemporaryDirectory(prefix="faultless-stack-")), faultless
        # Java and Python write here, or not at all.
        self.environment = os.environ | {"TMPDIR": self.folder, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": self.folder,
                                         "JAVA_TOOL_OPTIONS": f"-XX:-UsePerfData -Djava.io.tmpdir={self.folder}"}

    def start(self, *words):
        """A server, until the end."""
        with open(f"{self.folder}/{len(os.listdir(self.folder))}.log", "w") as log:
            run = subprocess.Popen(list(map(str, words)), cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self.callback(process.end, run)

    def output(self, *words, folder=None):
        """What a command prints, which must succeed."""
        run = subprocess.Popen(list(map(str, words)), cwd=folder or self.folder, env=self.environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, error = run.communicate()
        finally:
            process.end(run)
        if run.returncode:
            raise Differs(f"`{' '.join(map(str, words))}`: status {run.returncode}: {error.strip()[-300:]}")
        return out

    def fleet(self, *words):
        """What faultless-fleet prints."""
        return self.output(sys.executable, "-m", "faultless_fleet", *words, folder=PACKAGE)

    def agent(self, *receivers):
        """The agent's address. `receivers`: flags that name who gets its pushes."""
        address = f"127.0.0.1:{free_port()}"
        self.start(self.faultless, "agent", "--listen", address, "--interval", "2s", "--budget", 100, *receivers)
        until("the agent", lambda: got(f"http://{address}/healthz"))
        return address


def same(what, found, wanted):
    if found != wanted:
        raise Differs(f"{what}: {found}, not {wanted}")
    print(f"same: {what}")


def on_page(page):
    """(Metric, labels) -> value, of the page in Prometheus' text format."""
    series = {}
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", page, re.MULTILINE):
        if name in METRICS:
            series[name, tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)))] = float(value)
    return series


def in_prometheus(address):
    """The same by Prometheus."""
    query = urllib.parse.urlencode({"query": f"{{__name__=~'{'|'.join(METRICS)}'}}"})
    series = {}
    for found in json.loads(got(f"http://{address}/api/v1/query?{query}"))["data"]["result"]:
        labels = {name: json.dumps(value, ensure_ascii=False)[1:-1] for name, value in found["metric"].items() if name not in ("job", "instance")}
        series[labels.pop("__name__"), tuple(sorted(labels.items()))] = float(found["value"][1])
    return series


def prometheus(stack, _):
    """Prometheus scrapes the agent, and has its figures."""
    agent, address = stack.agent(), f"127.0.0.1:{free_port()}"
    with open(f"{stack.folder}/prometheus.yml", "w") as file:
        file.write(f"global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: faultless, static_configs: [{{targets: ['{agent}']}}]}}]\n")
    stack.start("prometheus", f"--web.listen-address={address}", "--config.file=prometheus.yml", "--storage.tsdb.path=data")
    polls = (METRICS[-1], ())

    def at_one_poll():
        page, scraped = on_page(got(f"http://{agent}/metrics")), in_prometheus(address)
        return (page, scraped) if page[polls] == scraped.get(polls) and page[polls] > 2 else None
    page, scraped = until("Prometheus at the agent's poll", at_one_poll)
    same(f"{len(page)} series of the agent in Prometheus", scraped, page)


def exported(stack):
    """Records and exports real runs to `records`, and returns their faults; none where perf is denied."""
    faults = 0
    for service, workload in RUNS.items():
        try:
            stack.output(stack.faultless, "record", "-o", service, "--", stack.faultless, "workload", "--quiet", *workload.split())
        except Differs as error:
            if "perf_event_open()" not in str(error):
                raise
            left_out("records of real runs", error)
            return 0
        stack.output(stack.faultless, "export", "--format", "parquet", "-o", "records", "--service", service, "--release", "1", service)
        faults += json.loads(stack.output(stack.faultless, "report", "--json", service))["faults"]
    return faults


def reports(stack, with_spark):
    """The engines' rows of exported runs and of a synthetic fleet."""
    faults = exported(stack)
    stack.fleet("generate", *SYNTHETIC, f"{stack.folder}/synthetic")
    master = cluster(stack) if with_spark else None
    sources = ("records", "synthetic") if faults else ("synthetic",)
    for name in sources:
        source = f"{stack.folder}/{name}"
        printed = stack.fleet("report", source, "--format", "json")
        rows = rows_of(printed)
        if name == "records":
            [answer] = [answer for answer in json.loads(printed)["answers"] if answer["question"] == "fleet"]
            same("faults by DuckDB and by report", dict(zip(answer["columns"], answer["rows"][0]))["faults"], faults)
        if with_spark:
            found = rows_of(stack.fleet("report", source, "--format", "json", "--engine", "spark", "--master", master))
            same(f"rows of {name} by DuckDB and Spark", [question for question in rows if not is_same(found.get(question), rows[question])], [])
    if with_spark:
        # A worker has a folder for each application that it ran a part of.
        parts = [len(os.listdir(f"{stack.folder}/worker-{worker}")) for worker in range(WORKERS)]
        same("reports that each worker took part in", parts, [len(sources)] * WORKERS)


def cluster(stack):
    """The URL of a master with its workers, by the programs that PySpark brings."""
    home = stack.output(sys.executable, "-c", "import os, pyspark; print(os.path.dirname(pyspark.__file__))").strip()
    stack.environment["SPARK_HOME"] = home
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = lambda role, *words: stack.start(f"{home}/bin/spark-class", f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1", *words)
    deploy("master.Master", "--port", port, "--webui-port", page)
    until("Spark's master", lambda: got(f"http://127.0.0.1:{page}/json/"))
    for worker in range(WORKERS):
        deploy("worker.Worker", "--cores", 1, "--memory", "1g", "--webui-port", 0, "--work-dir", f"{stack.folder}/worker-{worker}", url)
    until(f"{WORKERS} workers", lambda: json.loads(got(f"http://127.0.0.1:{page}/json/"))["aliveworkers"] == WORKERS)
    return url


def main():
    parser = record.parser(__doc__)
    parser.add_argument("--faultless", default="faultless", metavar="PATH", help="the program [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="without Spark")
    args = parser.parse_args()
    faultless = shutil.which(args.faultless) or record.fail(f"--faultless: no program {args.faultless}; name the one to try")
    for program, remedy in ({"prometheus": "install it"} | ({} if args.quick else {"java": "install it, or leave Spark out with --quick"})).items():
        shutil.which(program) or record.fail(f"{program} is not installed: {remedy}")
    # So that all ends by a signal too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        for part in (prometheus, reports):
            with Stack(os.path.realpath(faultless)) as stack:
                part(stack, not args.quick)
    except Differs as error:
        print(f"differs: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
