"""Guest memory in a known state before a run, and the price of a first touch that shows the state.

In a virtual machine whose host takes free memory back (free page reporting, a balloon), the first touch of a page faults
twice, once in the host. The guest's kernel hands out first what was freed last, so memory is warm right after somebody used
it. No command makes it cold. So another process takes memory until what it gets is cold, and holds it while the run lasts.
"""
import contextlib, ctypes, mmap, os, struct, time

from harness.figures import median

GROUP = 2 << 20
PAGE = mmap.PAGESIZE
# Groups of 2 MiB touched to see a price.
PROBE_GROUPS = 4
# ns per base page, between a warm touch and a cold one. A base page took 1.4 us warm and 4 to 11 us cold on our guests.
# A page of a THP took 0.2 us warm and 3 to 10 us cold.
COLD_NS = {"base": 2800, "thp": 900}
# This many groups in a row must be cold.
ENOUGH = 48
# Memory that is never taken.
LEAVE_MIB = 5000


def warm(mib):
    """Makes a hypervisor back this much memory: a process touches it and ends."""
    if mib == 0:
        return
    pid = os.fork()
    if pid == 0:
        block = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block.madvise(mmap.MADV_HUGEPAGE)
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(block)), 1, mib << 20)
        os._exit(0)
    os.waitpid(pid, 0)


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
    """While this lasts, memory that the kernel hands out is cold; yields the prices seen, or None if there was none."""
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
