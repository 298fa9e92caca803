#!/usr/bin/env python3
"""Runs commands in shuffled interleaved rounds and keeps every run: see record/README.md."""
import argparse, contextlib, csv, ctypes, hashlib, mmap, os, random, sys, tempfile, time

FIELDS = ["name", "round", "order", "arm", "wall_s", "user_s", "sys_s", "minflt", "majflt", "maxrss_kib", "status", "stdout_sha"]

PRCTL, PR_SET_CHILD_SUBREAPER = ctypes.CDLL(None).prctl, 36


def start(command, user, out):
    """Starts a shell command that writes to `out`; its process id.

    A shell starts it in the background and ends. So it begins as a copy of that small shell: of a copy of this process the faults
    and the peak of resident memory would be counted as the command's. Who adopts it is this process.
    """
    PRCTL(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    here, there = os.pipe()
    shell = os.fork()
    if shell == 0:
        os.dup2(out.fileno(), 1)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 2)
        os.dup2(there, 9)
        os.set_inheritable(9, True)  # where it was 9 already
        if user:
            os.setgid(user[1]), os.setuid(user[0])
        try:
            os.execvp("sh", ["sh", "-c", f"exec {command} 9>&- &\necho $! >&9"])
        finally:
            os._exit(127)
    os.close(there)
    os.waitpid(shell, 0)
    with open(here) as pipe:
        return int(pipe.readline())


def run(command, user=None, watch=lambda pid: None):
    """One run: elapsed time, wait4's accounting and a hash of standard output, as in FIELDS; and standard output itself.

    `watch` is called while the command runs and may look at the process, but not wait for it.
    """
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        pid = start(command, user, out)
        watch(pid)
        _, status, usage = os.wait4(pid, 0)
        wall = time.monotonic() - begin
        out.seek(0)
        text = out.read()
    # What the command has left behind was adopted too.
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    sha = hashlib.sha256(text).hexdigest()[:16]
    return [wall, usage.ru_utime, usage.ru_stime, usage.ru_minflt, usage.ru_majflt, usage.ru_maxrss,
            os.waitstatus_to_exitcode(status), sha], text


def warm(mib):
    """Makes a hypervisor back this much memory: a process touches it and ends. Guest-cold pages cost several times more."""
    if mib == 0:
        return
    pid = os.fork()
    if pid == 0:
        block = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block.madvise(mmap.MADV_HUGEPAGE)
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(block)), 1, mib << 20)
        os._exit(0)
    os.waitpid(pid, 0)


def measure(args, arms):
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, args.name + ".csv")
    if os.path.exists(path):
        sys.exit(f"{path} exists: records are never overwritten")
    user = None
    if args.user:
        import pwd
        entry = pwd.getpwnam(args.user)
        user = (entry.pw_uid, entry.pw_gid)
    rows = []
    for number in range(-args.warmup, args.rounds):
        order = list(arms)
        random.shuffle(order)
        for place, arm in enumerate(order):
            warm(args.warm)
            result, _ = run(arms[arm], user)
            if number >= 0:
                rows.append([args.name, number, place, arm] + [round(x, 6) if isinstance(x, float) else x for x in result])
        print(f"\r{args.name}: round {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    with open(path + ".new", "w", newline="") as file:
        for arm, command in arms.items():
            file.write(f"# {arm}: {command}\n")
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
    summary([path])


def median(values):
    values, half = sorted(values), len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def interval(ratios):
    """The median with a 95 % bootstrap interval: value, low, high."""
    draw = random.Random(1)
    boot = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return median(ratios), boot[50], boot[1949]


def ratio(top, bottom):
    """Median of per-round ratios with its interval, as text."""
    ratios = [a / b for a, b in zip(top, bottom) if b]
    return "{:.3f} [{:.3f} {:.3f}]".format(*interval(ratios)) if ratios else "-"


def read(path):
    """The runs of a record and the names of its arms, the first being what the others are compared with."""
    with open(path) as file:
        lines = list(file)
    arms = list(dict.fromkeys(line.split(":")[0][2:] for line in lines if line.startswith("# ")))
    return list(csv.DictReader(line for line in lines if not line.startswith("#"))), arms


def wall_ratios(path):
    """Elapsed time over that of the first arm, round by round, for each arm of a record."""
    rows, arms = read(path)
    rows.sort(key=lambda row: int(row["round"]))
    wall = {arm: [float(row["wall_s"]) for row in rows if row["arm"] == arm] for arm in arms}
    return {arm: [a / b for a, b in zip(wall[arm], wall[arms[0]])] for arm in arms}


def summary(paths):
    print(f"{'name':24} {'arm':14} {'n':>3} {'wall ms':>9} {'wall ratio':>22} {'CPU ms':>9} {'CPU ratio':>22} {'faults':>9} {'RSS MiB':>8} same")
    for path in paths:
        rows, arms = read(path)
        if not (rows and arms and "stdout_sha" in rows[0]):
            print(f"{path}: not a table of paired.py's", file=sys.stderr)
            continue
        pick = lambda arm, get: [get(row) for row in sorted(rows, key=lambda row: int(row["round"])) if row["arm"] == arm]
        wall = lambda row: float(row["wall_s"]) * 1e3
        cpu = lambda row: (float(row["user_s"]) + float(row["sys_s"])) * 1e3
        outputs = {arm: {(row["status"], row["stdout_sha"]) for row in rows if row["arm"] == arm} for arm in arms}
        for arm in arms:
            print(f"{rows[0]['name']:24} {arm:14} {len(pick(arm, wall)):3} {median(pick(arm, wall)):9.1f} "
                  f"{ratio(pick(arm, wall), pick(arms[0], wall)):>22} {median(pick(arm, cpu)):9.1f} "
                  f"{ratio(pick(arm, cpu), pick(arms[0], cpu)):>22} {median(pick(arm, lambda r: int(r['minflt']))):9.0f} "
                  f"{median(pick(arm, lambda r: int(r['maxrss_kib']))) / 1024:8.1f} {'yes' if outputs[arm] == outputs[arms[0]] else 'NO'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="folder of the record")
    parser.add_argument("--name", help="name of the measurement and of its file")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--warm", type=int, default=0, metavar="MIB", help="touch this much memory before each run (virtual machines)")
    parser.add_argument("--user", help="run as this user (needs root)")
    parser.add_argument("--summary", nargs="+", metavar="CSV", help="print what is recorded")
    parser.add_argument("arms", nargs="*", metavar="ARM=COMMAND")
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    if not (args.out and args.name and len(args.arms) > 1):
        parser.error("give --out, --name and at least two ARM=COMMAND")
    measure(args, dict(arm.split("=", 1) for arm in args.arms))


if __name__ == "__main__":
    main()
