"""A record: raw rows in NAME.csv.gz and the machine in host.txt, in one folder.

A record needs a clean commit: other people must be able to build what was measured. `--trial` measures without one, and
writes no folder below record/. A record is never overwritten.
"""
import argparse, contextlib, csv, gzip, os, platform, shlex, shutil, subprocess, sys, textwrap, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
RECORDS = os.path.join(ROOT, "record")
# Folders whose host.txt this process has written.
BEGUN = set()


def fail(text):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
    raise SystemExit(2)


def parser(text):
    """A parser whose help begins with this text: paragraphs wrapped to 80 columns, indented lines as they are."""
    paragraphs = [part if part.startswith(" ") else textwrap.fill(part, 79) for part in text.strip().split("\n\n")]
    return argparse.ArgumentParser(description="\n\n".join(paragraphs), formatter_class=argparse.RawDescriptionHelpFormatter)


def script(text, name, rounds, measure, summary, more=lambda parser: None):
    """The whole of a script: its options, of which `more` adds its own, then a record or the summary of records."""
    found = parser(text)
    found.add_argument("--out", metavar="DIR", help="folder of the record")
    found.add_argument("--name", default=name, help="name of its files [%(default)s]")
    found.add_argument("--rounds", type=int, default=rounds, metavar="N", help="rounds [%(default)s]")
    found.add_argument("--trial", action="store_true", help="measure without a clean commit, outside record/")
    found.add_argument("--summary", nargs="+", metavar="CSV", help="print the summary of records and exit")
    found.add_argument("--faultless", default="faultless", metavar="PATH", help="the program [%(default)s]")
    more(found)
    args = found.parse_args()
    if args.summary:
        return summary(args.summary)
    check(args.out, args.trial)
    if args.rounds < 1:
        fail("--rounds must be 1 or more")
    if not shutil.which(args.faultless):
        fail(f"--faultless: no program {args.faultless}; name the one to measure")
    args.faultless, args.out = os.path.realpath(shutil.which(args.faultless)), os.path.realpath(args.out)
    return measure(args)


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def commit():
    """The commit of this tree and whether nothing but records has changed since; (None, False) without a repository."""
    head = git("rev-parse", "--short=12", "HEAD")
    return (head.strip(), git("status", "--porcelain", "--", ".", ":!record") == "") if head else (None, False)


def below(path, folder):
    return os.path.commonpath([os.path.realpath(path), os.path.realpath(folder)]) == os.path.realpath(folder)


def check(out, trial):
    """Ends the script unless a record may be taken into the folder `out`; the text that host.txt has for the commit."""
    if not out:
        fail("name the folder of the record with --out, or print one with --summary")
    head, clean = commit()
    if trial:
        if below(out, RECORDS):
            fail("a trial is no record: choose a folder outside record/")
        return f"{head or 'unknown'}, a trial"
    if head is None:
        fail("the commit is unknown: take records in a clone of the repository, or use --trial")
    if not clean:
        fail("the tree has changes: commit them before you take a record, or use --trial")
    return head


def read_line(path, start=""):
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            if line.startswith(start):
                return line.partition(":")[2].strip() if start else line.strip()
    return "unknown"


def host(head):
    """The facts of this machine that a reader of a record needs."""
    virtual = "virtual machine" if " hypervisor" in read_line("/proc/cpuinfo", "flags") else "bare metal"
    thp = "/sys/kernel/mm/transparent_hugepage"
    told = ("mitigations", "page_reporting", "nested", "init_on", "transparent")
    words = [os.path.relpath(word, ROOT) if os.path.isabs(word) and below(word, ROOT) else word for word in [os.path.realpath(sys.argv[0]), *sys.argv[1:]]]
    facts = {
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
        "commit": head,
        "command": shlex.join(words),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": f"{read_line('/proc/cpuinfo', 'model name')}, {len(os.sched_getaffinity(0))} processors, {virtual}",
        "memory": read_line("/proc/meminfo", "MemTotal"),
        "thp": f"{read_line(f'{thp}/enabled')}, defrag {read_line(f'{thp}/defrag')}",
        "cmdline": " ".join(word for word in read_line("/proc/cmdline").split() if word.startswith(told)),
        "libc": " ".join(platform.libc_ver()),
        "user": "root" if os.geteuid() == 0 else "a normal user",
        "load": " ".join(read_line("/proc/loadavg").split()[:3]),
    }
    return "".join(f"{name + ':':9}{value}\n" for name, value in facts.items())


def begin(folder, head):
    """Makes the folder of a record and its host.txt."""
    if folder not in BEGUN:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "host.txt"), "a") as file:
            file.write(("\n" if file.tell() else "") + host(head))
        BEGUN.add(folder)


class Record:
    """Takes rows and stores them. Rows are on disk at once, in NAME.csv.new, and compressed at the end."""

    def __init__(self, args, fields, comments=None):
        head, folder = check(args.out, args.trial), os.path.realpath(args.out)
        self.path = os.path.join(folder, f"{args.name}.csv.gz")
        if os.path.exists(self.path):
            fail(f"{self.path} exists: records are never overwritten")
        begin(folder, head)
        self.file = open(f"{folder}/{args.name}.csv.new", "w", newline="")
        for name, text in (comments or {}).items():
            self.file.write(f"# {name}: {' '.join(text.split())}\n")
        self.table = csv.writer(self.file, lineterminator="\n")
        self.table.writerow(fields)

    def row(self, *values):
        self.table.writerow([f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else value for value in values])
        self.file.flush()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.file.close()
        if kind is not None:
            if issubclass(kind, KeyboardInterrupt):
                print(f"\ninterrupted: the rows so far are in {self.file.name}", file=sys.stderr)
                os._exit(130)
            return
        with open(self.file.name, "rb") as rows, open(f"{self.path}.new", "wb") as out:
            # Without a time and a name inside, the same rows give the same file.
            with gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
                packed.write(rows.read())
        os.rename(f"{self.path}.new", self.path)
        os.remove(self.file.name)

    def summarize(self, summary):
        """Prints the summary of the rows. No file keeps it: anyone can compute it from the rows."""
        summary([self.path])


def lines(path):
    """The lines of a file, compressed or not."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as file:
        return file.read().splitlines()


def read(path):
    """Rows as dictionaries, and the comments: name -> text. Ends the script if this is no table."""
    try:
        found = lines(path)
    except (OSError, UnicodeDecodeError, EOFError) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or error}")
    comments = dict(line[2:].partition(": ")[::2] for line in found if line.startswith("# "))
    rows = list(csv.DictReader(line for line in found if not line.startswith("#")))
    if not rows:
        fail(f"{path}: not a table of raw rows, or an empty one")
    return rows, comments
