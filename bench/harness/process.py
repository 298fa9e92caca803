"""Runs commands and accounts for them by the kernel's own figures (wait4). Shares no code with faultless."""
import contextlib, ctypes, fcntl, hashlib, os, shlex, subprocess, sys, tempfile, time

# What `run` returns of a command, in this order.
COLUMNS = ["wall_s", "user_s", "sys_s", "minflt", "majflt", "maxrss_kib", "status", "stdout_sha"]

PRCTL, PR_SET_CHILD_SUBREAPER = ctypes.CDLL(None).prctl, 36


def user_ids(name):
    """User and group of a name; None for none."""
    if not name:
        return None
    import pwd
    entry = pwd.getpwnam(name)
    return entry.pw_uid, entry.pw_gid


def prepare(command, user, out):
    """Makes a shell command ready that writes to `out`: its process id, and a function that lets it begin.

    A shell starts it in the background and ends, and this process adopts it. A direct fork would count the faults and the
    peak memory of this process as the command's: the command begins as a copy of its parent. It waits until it is adopted.
    """
    PRCTL(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    (here, there), (waits, begins) = os.pipe(), os.pipe()
    shell = os.fork()
    if shell == 0:
        os.dup2(out.fileno(), 1)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 2)
        # Above what may be open; then to the numbers that the shell knows.
        for number, end in ((8, fcntl.fcntl(waits, fcntl.F_DUPFD, 20)), (9, fcntl.fcntl(there, fcntl.F_DUPFD, 20))):
            os.dup2(end, number)
        if user:
            os.setgid(user[1]), os.setuid(user[0])
        try:
            os.execvp("sh", ["sh", "-c", f"{{ read _ <&8; exec {command} 8<&- 9>&-; }} &\necho $! >&9"])
        finally:
            os._exit(127)
    os.close(there), os.close(waits)
    os.waitpid(shell, 0)

    def begin():
        os.write(begins, b"\n")
        os.close(begins)

    with open(here) as pipe:
        return int(pipe.readline()), begin


def run(command, user=None, watch=lambda pid: None):
    """One run of a shell command: its figures as in COLUMNS, and its standard output.

    `watch` is called while the command runs. It may look at the process, but not wait for it.
    """
    [result] = run_all([command], user, watch)
    return result


def run_all(commands, user=None, watch=lambda pid: None):
    """What `run` returns, for commands that run at the same time."""
    with contextlib.ExitStack() as files:
        outs = [files.enter_context(tempfile.TemporaryFile()) for _ in commands]
        running, results = {}, [None] * len(commands)
        for number, (command, out) in enumerate(zip(commands, outs)):
            pid, begin = prepare(command, user, out)
            running[pid] = number, begin
        for pid, (number, begin) in [*running.items()]:
            running[pid] = number, time.monotonic()
            begin()
            watch(pid)
        # What a command left behind was adopted too.
        while running:
            pid, status, usage = os.wait4(-1, 0)
            if pid not in running:
                continue
            number, begin = running.pop(pid)
            wall_s = time.monotonic() - begin
            outs[number].seek(0)
            text = outs[number].read()
            results[number] = [round(wall_s, 6), round(usage.ru_utime, 6), round(usage.ru_stime, 6), usage.ru_minflt,
                               usage.ru_majflt, usage.ru_maxrss, os.waitstatus_to_exitcode(status),
                               hashlib.sha256(text).hexdigest()[:16]], text
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return results


def timed(command, to="file"):
    """One run without a shell before it, which would take longer than a short command.

    Wall, user and system time in s, written MB; the status; standard output. Its output goes `to` a file, a pipe or the
    null device. That of the last two is not kept.
    """
    with tempfile.TemporaryFile() as out, contextlib.ExitStack() as ends:
        words = shlex.split(command)
        null = os.open(os.devnull, os.O_WRONLY)
        here, there = os.pipe() if to == "pipe" else (None, {"file": out.fileno(), "null": null}[to])
        actions = [(os.POSIX_SPAWN_DUP2, there, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
        begin = time.monotonic()
        pid = os.posix_spawnp(words[0], words, os.environ, file_actions=actions)
        if to == "pipe":
            ends.callback(os.close, here)
            os.close(there)
            while os.read(here, 1 << 20):
                pass
        _, status, usage = os.wait4(pid, 0)
        wall_s = time.monotonic() - begin
        os.close(null)
        out.seek(0)
        times = [wall_s, usage.ru_utime, usage.ru_stime, usage.ru_oublock * 512 / 1e6]
        return [round(value, 6) for value in times], os.waitstatus_to_exitcode(status), out.read()


def output(words, user=None, folder=None, allowed=(0,)):
    """Standard output of a command that is not accounted for; ends the script with one line if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, user=user, cwd=folder)
    if done.returncode not in allowed:
        sys.exit(f"`{shlex.join(words)}` ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
