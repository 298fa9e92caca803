"""The folders of records, record/TOPIC/DATE-HOST: the newest of each machine, what tables read of them, and whether their
commits are known.
"""
import functools, json, os, re

from . import record
from .figures import Arms
from .tables import table

# DATE-HOST, a count if that folder is taken, and what sets this record apart from others of the machine.
FOLDER = re.compile(r"(\d{4}-\d\d-\d\d)-([a-z]+-\w+?)(?:-(\d+))?(?:-([a-z]+))?$")
# Topic -> the crates that its figures measure. Of `lab` and `kernel` the raw samples last: today's code judges them.
MEASURED = {"run": "pool preload", "peers": "pool preload", "grep": "grepdb grep"} | dict.fromkeys(
    ("attach", "check", "compare", "cost", "diffs", "estimates", "flame", "gate", "screens", "strangers", "timeline"), "prof trace")
# A machine that was lent once: its records cannot be taken again.
LENT = "xeon-16cpu"


class Missing(Exception):
    """There is no record of a topic."""


class Folder:
    """A folder below record/. Whatever a table reads of it is used."""
    used = set()

    def __init__(self, path):
        named = FOLDER.match(os.path.basename(path)) or record.fail(f"{path}: no DATE-HOST")
        self.path, self.topic, self.machine, self.part = path, path.split("/")[1], named[2], named[4]
        self.order = (named[1], int(named[3] or 1))

    def names(self, end=""):
        return sorted(name for name in os.listdir(f"{record.ROOT}/{self.path}") if name.endswith(end))

    def text(self, name):
        self.used.add(f"{self.path}/{name}")
        return "\n".join(record.lines(f"{record.ROOT}/{self.path}/{name}"))

    def picture(self, name):
        """Where it lies."""
        self.used.add(f"{self.path}/{name}")
        return f"{self.path}/{name}"

    def json(self, name):
        return json.loads(self.text(name))

    def rows(self, name):
        self.used.add(f"{self.path}/{name}")
        return record.read(f"{record.ROOT}/{self.path}/{name}")[0]

    def host(self, fact):
        """The first such fact of host.txt."""
        found = re.search(rf"^{fact}:\s*(.*)", self.text("host.txt"), re.MULTILINE)
        return found[1].removesuffix(", virtual machine") if found else ""

    def source(self):
        """Machine and commit, linked to host.txt."""
        machine = re.sub(r"\(R\)| Processor(?=[, ])", "", self.host("cpu") or self.host("machine"))
        return f"[{machine}, {self.host('commit')[:7]}]({self.path}/host.txt)"

    def table(self, head, rows):
        """A table whose first cell says where it comes from."""
        return table(head, rows, f": {self.source()}")


@functools.cache
def folders():
    top = f"{record.ROOT}/record"
    topics = [name for name in sorted(os.listdir(top)) if os.path.isdir(f"{top}/{name}")]
    return [Folder(f"record/{topic}/{name}") for topic in topics for name in sorted(os.listdir(f"{top}/{topic}"))]


def newest(topic, holds="host.txt", part=None):
    """The newest folder of each machine that holds such a file, the newest of all first."""
    found = [folder for folder in folders() if (folder.topic, folder.part) == (topic, part) and holds in folder.names()]
    by_machine = {folder.machine: folder for folder in sorted(found, key=lambda folder: folder.order)}
    if not found:
        raise Missing(topic)
    return sorted(by_machine.values(), key=lambda folder: folder.order, reverse=True)


class Pair(Arms):
    """The runs of some commands in turn, from paired.py or `faultless compare --json`. The first is the plain one."""

    def __init__(self, folder, name):
        if ".json" in name:
            commands = folder.json(name)["commands"]
            self.order = list(range(len(commands)))
            super().__init__([
                {"arm": arm, "round": at, "wall_s": run["wall_ns"] / 1e9, "user_s": run["cpu_ns"] / 1e9, "sys_s": 0,
                 "minflt": run["faults"], "maxrss_kib": run["peak_rss_bytes"] / 1024}
                for arm, command in enumerate(commands) for at, run in enumerate(command["runs"])])
        else:
            super().__init__(folder.rows(name))
            # The rows are shuffled; the comments are not.
            self.order = [line[2:].split(": ")[0] for line in folder.text(name).splitlines() if line.startswith("# ")]

    def by_plain(self, arm, get):
        return self.ratio(self.order[arm], self.order[0], get)


def pairs(folder):
    return {name.split(".")[0]: Pair(folder, name) for name in folder.names(".gz")}


@functools.cache
def size(crate):
    return sum(open(f"{record.ROOT}/{name}", "rb").read().count(b"\n") for name in record.git("ls-files", f"crates/{crate}/src").split())


def changed(commit, crates):
    """The share of the lines of these crates that have changed since."""
    said = record.git("diff", "--numstat", commit, "HEAD", "--", *(f"crates/{crate}/src" for crate in crates))
    return sum(int(number) for line in said.splitlines() for number in line.split("\t")[:2] if number.isdigit()) / sum(map(size, crates))


def provenance():
    """What is wrong with the commits and commands of the records, and which are old."""
    wrong, old = [], []
    has_history = record.git("rev-parse", "--is-shallow-repository") == "false\n"
    for folder in folders():
        commits = dict.fromkeys(re.findall(r"^commit:\s*([0-9a-f]{7,40})\b", folder.text("host.txt"), re.MULTILINE))
        if not commits or not folder.host("command"):
            wrong.append(f"{folder.path}/host.txt names no commit or no command")
        crates = MEASURED.get(folder.topic, "").split() if folder.machine != LENT else []
        for commit in commits if has_history else ():
            if record.git("cat-file", "-e", f"{commit}^{{commit}}") is None:
                wrong.append(f"{folder.path}/host.txt: the commit {commit} is not in this repository")
            elif crates and changed(commit, crates) > 0.1:
                old.append(f"warning: {folder.path}: {changed(commit, crates):.0%} of {' and '.join(crates)} changed since: take it again")
    return wrong, old
