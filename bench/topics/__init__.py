"""The topics of take.py, one module a field. A module registers its topics when it is imported."""
import argparse, gzip, json, os, subprocess, sys
from collections import namedtuple

from harness import record

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PROGRAMS = os.path.join(HERE, "programs")
MODULES = ("pairs", "accuracy", "mechanisms", "estimates", "servers", "pictures", "fleet")


# `take` is given a To and takes the records. Its doc comment says what it asks; * marks what is taken by default.
Topic, TOPICS = namedtuple("Topic", "take rounds"), {}


def topic(name, rounds=1):
    """Registers the function below as a topic."""
    def register(take):
        TOPICS[name] = Topic(take, rounds)
        return take
    return register


class To:
    """Where a topic's record goes, and the options for it. The working directory is the folder of inputs."""

    def __init__(self, args, topic, folder):
        self.topic, self.folder, self.args = topic, folder, args
        self.rounds, self.more = args.rounds or TOPICS[topic].rounds, args.more
        self.faultless = "faultless"

    def table(self, name, fields, comments=None):
        """A table of raw rows."""
        return record.Record(argparse.Namespace(out=self.folder, name=name, trial=self.args.trial), fields, comments)

    def store(self, name, data):
        """Stores bytes in a new file of the record."""
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            record.fail(f"{path} exists: records are never overwritten")
        record.begin(self.folder, self.args.head)
        with open(path, "xb") as file:
            if name.endswith(".gz"):
                # Without a time and a name inside, the same bytes give the same file.
                with gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
                    packed.write(data)
            else:
                file.write(data)

    def store_file(self, name, path):
        """Stores a file in the record."""
        with open(path, "rb") as file:
            self.store(name, file.read())

    def printed(self, *words):
        """What a verb of faultless prints."""
        done = subprocess.run([self.faultless, *words], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        # 1 is an answer too: no.
        if done.returncode > 1:
            record.fail(f"faultless {' '.join(words)}: status {done.returncode}")
        return done.stdout

    def said(self, *words):
        """The JSON document that a verb prints."""
        return json.loads(self.printed(*words))

    def keep(self, name, *words):
        """Stores what a verb prints."""
        self.store(name, self.printed(*words))

    def built(self, name, source, *flags):
        """Compiles a program of programs/ into the working directory."""
        if not os.path.exists(name):
            subprocess.run(["cc", "-O2", "-g", "-pthread", *flags, "-o", name, os.path.join(PROGRAMS, source)], check=True)
        return os.path.abspath(name)


def left_out(what, why):
    print(f"left out: {what}: {why}", file=sys.stderr)


def json_of(path):
    """The document in a file."""
    with open(path) as file:
        return json.load(file)
