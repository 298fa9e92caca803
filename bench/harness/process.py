"""Runs commands and accounts for them by the kernel's own figures (wait4). Shares no code with faultless."""
import contextlib, ctypes, glob, hashlib, mmap, os, shlex, signal, subprocess, sys, tempfile, time

# What `run` returns of a command, in this order.
COLUMNS = ["wall_s", "user_s", "sys_s", "minflt", "majflt", "maxrss_kib", "status", "stdout_sha"]

PRCTL, PR_SET_CHILD_SUBREAPER = ctypes.CDLL(None).prctl, 36


def run(command):
    """One run of a shell command: its figures as in COLUMNS, and its standard output.

    A shell starts it in the background and ends, and this process adopts it. A direct fork would count the faults and the
    peak memory of this process as the command's: the command begins as a copy of its parent. It waits until it is adopted.
    """
    PRCTL(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        out, gate = f"{folder}/out", f"{folder}/gate"
        os.mkfifo(gate)
        script = f"{{ read _ <{gate}; exec {command}\n}} >{out} 2>/dev/null </dev/null & echo $!"
        pid = int(subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout)
        with open(gate, "w") as begins:
            begin = time.monotonic()
            begins.write("\n")
        _, status, usage = os.wait4(pid, 0)
        wall_s = time.monotonic() - begin
        # What the command left behind was adopted too.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        with open(out, "rb") as file:
            text = file.read()
    return [round(wall_s, 6), round(usage.ru_utime, 6), round(usage.ru_stime, 6), usage.ru_minflt, usage.ru_majflt, usage.ru_maxrss,
            os.waitstatus_to_exitcode(status), hashlib.sha256(text).hexdigest()[:16]], text


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


def warm(mib):
    """Makes a hypervisor back this much memory: a process touches it and ends. Otherwise its first touch faults in the host too."""
    pid = os.fork()
    if pid == 0:
        block = mmap.mmap(-1, max(mib, 1) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block.madvise(mmap.MADV_HUGEPAGE)
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(block)), 1, len(block))
        os._exit(0)
    os.waitpid(pid, 0)


def session(leader):
    """Process -> s of CPU time and resident bytes, of all in a session."""
    found, tick, page = {}, os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path) as file:
            fields = file.read().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found[int(path.split("/")[2])] = (int(fields[11]) + int(fields[12])) / tick, int(fields[21]) * page
    return found


def end(leader, within_s=10):
    """Ends a session's processes, by force what is still there after so long. None is left."""
    begin = time.monotonic()
    while left := session(leader.pid):
        wanted = signal.SIGTERM if time.monotonic() - begin < within_s else signal.SIGKILL
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, wanted)
        leader.poll()
        time.sleep(0.1)
    leader.wait()
