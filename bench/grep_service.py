#!/usr/bin/env python3
"""Times searches that `faultless index watch` answers, and looks for lines that are out of date.

    bench/grep_service.py --out record/grep/DATE-HOST --tree TREE --queries 10000 --seed 1

The queries are those of `grep_random.py` whose words are literals, alternations, case folds or words. One client asks,
then eight, each over a new connection for every query, as `faultless grep` does. Then eight ask while files of the tree
change as often as there are queries. The tree is copied to a folder of its own, because files change.

One query in ten asks for a file that counts the changes. Its line is stale if it is older than the query and no notice
says so.
"""
import array, multiprocessing, os, random, shutil, signal, socket, statistics, subprocess, sys, time

import grep
import grep_random
from harness import record

FIELDS = ["clients", "changes", "client", "number", "kind", "status", "ms", "stale", "noticed"]
KINDS = ("literal", "alternation", "case fold", "word")
COUNTER = "changes.txt"
CLIENTS = 8
CHANGED = 200


def request(version, folder, words):
    """See crates/grep/src/service/request.rs."""
    body = b"".join(os.fsencode(field) + b"\0" for field in (version, folder, "", *words))
    return len(body).to_bytes(4, "little") + body


def ask(path, bytes_, out, err):
    """Exit status and milliseconds of a search; None if the service does not take it."""
    begin = time.perf_counter()
    with socket.socket(socket.AF_UNIX) as service:
        service.connect(path)
        service.sendmsg([bytes_], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [out, err]))])
        said = service.recv(1) and service.recv(1)
    return said[0] if said else None, (time.perf_counter() - begin) * 1e3


def client(me, args, tree, queries, counter, to):
    """Asks one query after another; sends a row for each."""
    null, socket_path = os.open(os.devnull, os.O_WRONLY), os.path.join(tree, ".faultless/grep/socket")
    rows = []
    for number, (kind, flags, pattern) in enumerate(queries):
        if number % 10:
            status, ms = ask(socket_path, request(args.version, tree, [*flags.split(), "-n", "-e", pattern]), null, null)
            rows.append((me, number, kind, status, ms, False, False))
            continue
        before = counter.value
        out, err = os.memfd_create("out"), os.memfd_create("err")
        status, ms = ask(socket_path, request(args.version, tree, ["-e", "thechangeof"]), out, err)
        printed, noticed = (os.pread(fd, 1 << 16, 0) for fd in (out, err))
        os.close(out), os.close(err)
        seen = int(printed.split()[-1]) if status == 0 else -1
        rows.append((me, number, "counter", status, ms, seen < before, bool(noticed)))
    to.put(rows)


def change(tree, files, count, seconds, counter):
    """Writes files of the tree and the counter, evenly over so many seconds; the number of changes."""
    begin = time.monotonic()
    for number in range(1, count + 1):
        path = os.path.join(tree, files[number % len(files)])
        with open(path, "ab") as file:
            file.write(b"\n")
        with open(os.path.join(tree, "next"), "w") as file:
            file.write(f"thechangeof {number}\n")
        os.replace(os.path.join(tree, "next"), os.path.join(tree, COUNTER))
        counter.value = number
        time.sleep(max(0.0, begin + seconds * number / count - time.monotonic()))


def phase(args, tree, files, queries, clients, changes, seconds):
    """Rows of one phase; each client has its share of the queries."""
    counter, to = multiprocessing.Value("q", 0), multiprocessing.Queue()
    with open(os.path.join(tree, COUNTER), "w") as file:
        file.write("thechangeof 0\n")
    time.sleep(1)
    parts = [queries[me::clients] for me in range(clients)]
    asking = [multiprocessing.Process(target=client, args=(me, args, tree, part, counter, to)) for me, part in enumerate(parts)]
    changing = multiprocessing.Process(target=change, args=(tree, files, changes, seconds, counter))
    for process in [*asking, changing]:
        process.start()
    rows = [(clients, changes, *row) for _ in asking for row in to.get()]
    for process in [*asking, changing]:
        process.join()
    return rows


def measure(args):
    if not args.tree:
        record.fail("name the folder to search with --tree")
    args.version = subprocess.run([args.faultless, "--version"], capture_output=True, text=True).stdout.split()[-1]
    tree = os.path.realpath(os.path.join(args.databases, "service"))
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(args.tree, tree, symlinks=True, ignore=shutil.ignore_patterns(".faultless", ".git"))
    index = grep.verb(args, "index").split()
    subprocess.run([*index, "init"], cwd=tree, check=True, capture_output=True)
    listed = subprocess.run([*index, "files"], cwd=tree, capture_output=True, text=True, check=True).stdout.split("\n")
    rng = random.Random(args.seed)
    files = rng.sample([name for name in sorted(listed) if name], CHANGED)
    drawn = (query for query in grep_random.queries(tree, sorted(name for name in listed if name), args.queries * 4, rng))
    queries = [query for query in drawn if query[0] in KINDS][:args.queries]
    watch = subprocess.Popen([*index, "watch"], cwd=tree, stderr=subprocess.DEVNULL)
    while not os.path.exists(os.path.join(tree, ".faultless/grep/socket")):
        time.sleep(0.05)
    time.sleep(2)
    try:
        with record.Record(args, FIELDS, {"seed": str(args.seed)}) as table:
            for clients, changes in ((1, 0), (CLIENTS, 0), (CLIENTS, args.queries)):
                begin = time.monotonic()
                for row in phase(args, tree, files, queries, clients, changes, args.seconds):
                    table.row(*row)
                print(f"{clients} clients, {changes} changes: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    finally:
        watch.send_signal(signal.SIGINT)
        watch.wait()
        shutil.rmtree(tree, ignore_errors=True)
    table.summarize(summary)


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    for clients, changes in dict.fromkeys((row["clients"], row["changes"]) for row in rows):
        of = [row for row in rows if (row["clients"], row["changes"]) == (clients, changes)]
        answered = [float(row["ms"]) for row in of if row["status"] not in ("", "None")]
        cut = statistics.quantiles(answered, n=100)
        stale = [row for row in of if row["stale"] == "True"]
        print(f"{clients} clients, {changes} changes: {len(answered)} of {len(of)} answered; ms: "
              f"50 % {cut[49]:.2f}, 90 % {cut[89]:.2f}, 99 % {cut[98]:.2f}, longest {max(answered):.2f}; "
              f"stale lines {len(stale)}, {sum(row['noticed'] != 'True' for row in stale)} without a notice")


if __name__ == "__main__":
    def more(parser):
        parser.add_argument("--tree", metavar="DIR", help="folder to search")
        parser.add_argument("--databases", default="/tmp", metavar="DIR", help="where the copy of the tree goes [%(default)s]")
        parser.add_argument("--queries", type=int, default=10000, metavar="N", help="queries of each phase [%(default)s]")
        parser.add_argument("--seconds", type=float, default=60, metavar="S", help="over which the files change [%(default)s]")
        parser.add_argument("--seed", type=int, default=1, help="of the queries [%(default)s]")

    record.script(__doc__, "service", 1, measure, summary, more)
