"""Runs one unit of a suite in each way and compares the outcomes. Used by suites.py and the suites; no program of its own.

A suite yields units. A unit runs in one way, in an empty directory of its own, and gives an outcome for each of its cases. An
outcome is a text that begins with pass, fail or skip. The ways are plain, `faultless run` and `faultless run --small=mimalloc`.
"""
import contextlib, hashlib, os, re, shlex, shutil, signal, subprocess, sys, threading, time
from collections import Counter, namedtuple
from pathlib import Path

# The longest run of one unit with --quick.
QUICK_LIMIT_S = 15
# A differing unit runs so many times more, each way.
RERUNS = 3
# Marks the processes of one run: left-over processes are found by it.
MARK = "SUITES_RUN"
UNPRIVILEGED = 65534
SUITES = []


class Skip(Exception):
    """The suite cannot run here; the text says why."""


class OutOfTime(Exception):
    """The time of the whole program is over."""


# `words` stand before a command.
Way = namedtuple("Way", "name words")
# `status` is None after a timeout.
Ran = namedtuple("Ran", "status out err")
# `run` is given a Place and returns outcomes by case.
Unit = namedtuple("Unit", "name run quick")
# `units` is given a Box and yields units; its doc comment is the table's "what ran". `version` is the command that prints the
# version, and `needs` are programs that must be on the PATH.
Suite = namedtuple("Suite", "name units version needs quick")
# One case: by way its outcomes in the order of the runs, and by way "same", "flaky" or "different".
Row = namedtuple("Row", "suite unit case outcomes verdicts")


def suite(name, version, needs=(), quick=False):
    """Registers the function below as a suite."""
    def register(units):
        SUITES.append(Suite(name, units, version, tuple(needs), quick))
        return units
    return register


def progress(text):
    print(text, file=sys.stderr, flush=True)


def root():
    return os.geteuid() == 0


def environment(home):
    """The environment of every run: a home of its own, one language, and the tools of the user."""
    kept = ("PATH", "JAVA_HOME", "GOPROXY", "GOSUMDB", "PIP_INDEX_URL", "SSL_CERT_FILE")
    found = {name: value for name, value in os.environ.items() if name in kept or name.lower().endswith("_proxy")}
    # Tools that look for their own files in the home directory.
    folders = {"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv"}
    folders = {name: os.environ.get(name) or os.path.expanduser(f"~/{folder}") for name, folder in folders.items()}
    found |= {name: folder for name, folder in folders.items() if os.path.isdir(folder)}
    return found | {"HOME": str(home), "TMPDIR": f"{home}/tmp", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}


class Box:
    """What all runs of a suite share: a directory of inputs, the ways, the time that is left."""

    def __init__(self, directory, ways, deadline, logs, quick, install):
        self.directory, self.ways, self.deadline, self.logs = Path(directory), ways, deadline, logs
        self.quick, self.install = quick, install
        # For a suite whose version no command of its own prints.
        self.version = ""
        self.inputs = self.directory / "inputs"
        self.inputs.mkdir(parents=True)
        self.runs, self.lock, self.alive = 0, threading.Lock(), set()

    def place(self, way):
        with self.lock:
            self.runs += 1
            number = self.runs
        directory = self.directory / f"run-{number}"
        directory.mkdir()
        return Place(self, way, directory, f"{os.getpid()}-{self.directory.name}-{number}")

    def write(self, name, text):
        """An input file of the suite; its path."""
        path = self.inputs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def prepare(self, command, limit_s=300):
        """Runs a command plain in the directory of inputs. The suite is skipped if it fails."""
        place = Place(self, Way("prepare", ()), self.inputs, f"{os.getpid()}-{self.directory.name}-prepare")
        ran = place.call(["sh", "-c", command], limit_s)
        if ran.status != 0:
            said = (ran.err or ran.out).decode(errors="replace").strip().splitlines()
            raise Skip(f"preparation failed: {said[-1][:100] if said else ran.status}")
        return ran.out.decode(errors="replace")

    def stop(self):
        """Ends all runs, and lets no other begin."""
        self.deadline = 0
        for process in list(self.alive):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Place:
    """One run of one unit: the way, and an empty directory that is the working directory and the home."""

    def __init__(self, box, way, directory, mark):
        self.box, self.way, self.directory, self.mark, self.said = box, way, directory, mark, []
        # Below the home: Go takes no project that lies in the directory of temporary files itself.
        temporary = directory / "tmp"
        temporary.mkdir(exist_ok=True)
        if root():
            # Units that become another user write here as well.
            directory.chmod(0o777), temporary.chmod(0o777)

    def call(self, words, limit_s, user=None):
        """Runs a command as it is and gives its status and output. The whole session of processes ends with it."""
        left = self.box.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        switch = {"user": user, "group": user, "extra_groups": []} if user is not None else {}
        out, err = self.directory.parent / f"{self.mark}.out", self.directory.parent / f"{self.mark}.err"
        with open(out, "wb+") as to, open(err, "wb+") as errors:
            full = environment(self.directory) | {MARK: self.mark, "INPUTS": str(self.box.inputs)}
            process = subprocess.Popen([str(word) for word in words], cwd=self.directory, env=full, stdin=subprocess.DEVNULL,
                                       stdout=to, stderr=errors, start_new_session=True, **switch)
            self.box.alive.add(process)
            try:
                status = process.wait(min(limit_s, left, QUICK_LIMIT_S if self.box.quick else limit_s))
            except subprocess.TimeoutExpired:
                status = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.box.alive.discard(process)
        ran = Ran(status, out.read_bytes(), err.read_bytes())
        out.unlink(), err.unlink()
        self.said.append((words, ran))
        if time.monotonic() >= self.box.deadline:
            raise OutOfTime
        return ran

    def run(self, words, limit_s, user=None):
        """Runs a command in this way."""
        return self.call([*self.way.words, *words], limit_s, user)

    def end(self, unit):
        """Kills what the run left behind, daemons that have left their session too; stores its log; removes its directory."""
        wanted = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
        if self.box.logs:
            folder = self.box.logs / self.box.directory.name
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.=+-]+", "_", unit)
            with open(folder / f"{name}.{self.way.name}.log", "ab") as log:
                for words, ran in self.said:
                    log.write(f"$ {shlex.join(map(str, words))}\n".encode() + ran.out[-1 << 20:] + b"\n-- stderr\n" + ran.err[-1 << 20:]
                              + f"\n-- status {ran.status}\n\n".encode())
        shutil.rmtree(self.directory, ignore_errors=True)


def outcome(ran, noise="", errors=True, out=True):
    """Exit status and hashes of the output, without the lines that match `noise`."""
    if ran.status is None:
        return "fail timeout"
    told = lambda data: b"".join(line for line in data.splitlines(keepends=True) if not noise or not re.search(noise.encode(), line))
    said = [(name, told(data)) for name, data in (("out", ran.out), ("err", ran.err))]
    hashes = [f" {name} {hashlib.sha256(data).hexdigest()[:12]}" for name, data in said if (out if name == "out" else errors and data)]
    return f"{'pass' if ran.status == 0 else 'fail'} status {ran.status}{''.join(hashes)}"


def job(name, command, limit_s=120, noise="", errors=True, out=True, quick=True, user=None):
    """A unit of one case: a shell command. It runs below the way's words as a whole, or {run} says where those stand."""
    def run(place):
        if "{run}" in command:
            ran = place.call(["bash", "-c", command.replace("{run}", shlex.join(place.way.words))], limit_s, user)
        else:
            ran = place.run(["sh", "-c", command], limit_s, user)
        return {name: outcome(ran, noise, errors, out)}
    return Unit(name, run, quick)


def steps(name, command, limit_s=300, user=None):
    """A unit of several cases: a shell command with {run}, whose output has lines `CASE: anything`."""
    def run(place):
        ran = place.call(["bash", "-c", command.replace("{run}", shlex.join(place.way.words))], limit_s, user)
        found = {case: f"pass {value}" for case, value in re.findall(r"(?m)^([\w ,.+-]+): (.*)$", ran.out.decode(errors="replace"))}
        return found | {f"{name}: exit": outcome(ran, errors=False, out=False)}
    return Unit(name, run, True)


def verdict(plain, other):
    """What the outcomes in a way are beside the plain ones: one outcome each, or those with all reruns.

    Plain outcomes that vary excuse other outputs, but no failures that come again.
    """
    if set(other) <= set(plain):
        return "same"
    failed = sum(value.startswith("fail") for value in other)
    if failed > 1 and not any(value.startswith("fail") for value in plain):
        return "different"
    return "flaky" if len(set(plain)) > 1 or (len(other) > 1 and other[1:] == plain[1:]) else "different"


def compare(suite_name, box, unit):
    """Runs a unit in all ways, again where a case differs, and gives its rows."""
    def once(way):
        place = box.place(way)
        try:
            return unit.run(place)
        finally:
            place.end(unit.name)

    begin, plain = time.monotonic(), box.ways[0]
    samples = {way: [once(way)] for way in box.ways}
    progress(f"  {suite_name}: {unit.name}: {time.monotonic() - begin:.1f}s")
    different = [way for way in box.ways[1:] if samples[way][0] != samples[plain][0]]
    for number in range(RERUNS if different else 0):
        progress(f"  {suite_name}: {unit.name}: differs, rerun {number + 1} of {RERUNS}")
        for way in [plain, *different]:
            samples[way].append(once(way))
    rows = []
    for case in sorted({case for found in samples.values() for sample in found for case in sample}):
        outcomes = {way.name: [sample.get(case, "fail absent") for sample in samples[way]] for way in box.ways}
        verdicts = {way.name: verdict(outcomes[plain.name], outcomes[way.name]) for way in box.ways[1:]}
        rows.append(Row(suite_name, unit.name, case, outcomes, verdicts))
    return rows


def counts(rows, way):
    """Cases that pass, fail and are skipped, by the first run."""
    found = Counter(row.outcomes[way][0].split()[0] for row in rows)
    return ", ".join(f"{found[kind]} {kind}" for kind in ("pass", "fail", "skip") if found[kind]) or "none"


def tally(outcomes):
    """Outcomes with their counts: "3x pass, 1x fail"."""
    return ", ".join(f"{count}x {value}" for value, count in Counter(outcomes).items())
