"""Guest memory in a known state before a run, and the price that shows it. Used by peers.py; no program of its own.

In a virtual machine whose host takes free memory back (free page reporting, a balloon), the first touch of a page faults twice, once
in the host. The guest's kernel hands out what was freed last first, so memory is warm right after somebody used it. It can't be
made cold by command. What can be done: another process takes memory until what it gets is cold, and holds it all while the run
lasts, so that the run gets what comes after.
"""
import contextlib, ctypes, mmap, os, struct, time

GROUP = 2 << 20
PAGE = mmap.PAGESIZE
# Touched to see a price, in groups of 2 MiB.
PROBE_GROUPS = 4
# A cold touch costs several times a warm one (facts of this project: base pages 1.4 us warm and 4 to 11 us cold, pages of a THP
# 0.2 us and 3 to 10 us); these lie between, ns per base page.
COLD_NS = {"base": 2800, "thp": 900}
# So many groups in a row have to be cold.
ENOUGH = 48
# Memory that is never taken.
LEAVE_MIB = 5000


def touch(block, at, step):
    """Writes one byte per `step` in one group; ns per base page."""
    begin = time.perf_counter_ns()
    for byte in range(at, at + GROUP, step):
        block[byte] = 1
    return (time.perf_counter_ns() - begin) / (GROUP // PAGE)


def private(mib, advice):
    block = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(advice)
    begin = -ctypes.addressof(ctypes.c_char.from_buffer(block)) % GROUP
    return block, range(begin, (mib << 20) - GROUP, GROUP)


KINDS = {"base": (mmap.MADV_NOHUGEPAGE, PAGE), "thp": (mmap.MADV_HUGEPAGE, GROUP)}


def median(values):
    return sorted(values)[len(values) // 2]


def child(body):
    """Runs body(write) in a process of its own: the numbers written, and a function that lets the process end."""
    here, there = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(here[0]), os.close(there[1])
        keep = body(lambda *numbers: os.write(here[1], struct.pack(f"{len(numbers)}d", *numbers)))
        os.close(here[1])
        os.read(there[0], 1)
        os._exit(0 if keep else 0)
    os.close(here[1]), os.close(there[0])
    data = os.read(here[0], 1 << 16)

    def end():
        os.close(there[1]), os.close(here[0])
        os.waitpid(pid, 0)

    return struct.unpack(f"{len(data) // 8}d", data), end


def probe():
    """ns per base page of a first touch now, (by base pages, by THP): the state that the next run finds."""
    def body(write):
        prices, kept = [], []
        for advice, step in KINDS.values():
            block, groups = private(2 * PROBE_GROUPS + 4, advice)
            kept.append(block)
            prices.append(median([touch(block, at, step) for at in list(groups)[:PROBE_GROUPS]]))
        write(*prices)
        return kept
    prices, end = child(body)
    end()
    return prices


def free_mib():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("MemFree"))


def take(room_mib, kind):
    """Touches until the last groups were cold or the room is used up: the memory, what it came to, the price at the end."""
    advice, step = KINDS[kind]
    block, groups = private(room_mib, advice)
    row, prices = 0, []
    for at in groups:
        prices.append(touch(block, at, step))
        row = row + 1 if prices[-1] > COLD_NS[kind] else 0
        if row == ENOUGH:
            break
    return block, median(prices[-ENOUGH:])


@contextlib.contextmanager
def cold_memory():
    """While this lasts, memory that the kernel hands out is cold; gives the prices seen, or None if none was to be had."""
    def body(write):
        kept, prices = [], []
        for kind in ("thp", "base"):
            block, price = take(max(free_mib() - LEAVE_MIB, 64), kind)
            kept.append(block)
            prices.append(price)
        write(*reversed(prices))
        return kept
    for _ in range(8):
        prices, end = child(body)
        if len(prices) == 2 and prices[0] > COLD_NS["base"] and prices[1] > COLD_NS["thp"]:
            break
        # All that is free is warm: reporting takes some half a minute.
        end()
        time.sleep(15)
    else:
        yield None
        return
    try:
        yield prices
    finally:
        end()
