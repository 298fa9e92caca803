"""The pictures of two documents: the kernel's work and locks by threads ("Bringing The Hardware And Windows To Its Limits"),
and timelines of a search with a pool and without ("A queue of page faults")."""
import json, os, subprocess, sys

from harness import record
from harness.process import output, warm
from topics import topic

# Samples per second of CPU time, a prime: some thousand in a second of touches.
HERTZ = 4999
# Memory of a round: so little that the hypervisor has backed all of it. The rounds touch about as much as the document does.
MIB, TOUCHES = 200, 10


@topic("flame", rounds=15)
def take_flame(to):
    """the kernel's work and locks while 1, 2 and more threads (-- N N ...) touch new memory; needs root"""
    counts = to.more or ("1", "2", "4")
    if os.geteuid() != 0:
        record.fail("only root sees the kernel's functions: run it as root")
    to.built("touch", "touch.c")
    pictures = {}
    for count in counts:
        command = ["./touch", str(MIB), count, str(TOUCHES)]
        warm(MIB)
        output([to.faultless, "record", "-F", str(HERTZ), "-o", "kernel.trace", "--", *command])
        output([to.faultless, "flame", "--kernel", "-o", "picture.svg", "kernel.trace"])
        to.store_file(f"threads-{count}.svg", "picture.svg")
        pictures[count] = to.said("flame", "--kernel", "--json", "kernel.trace")
    to.store("kernel.json.gz", json.dumps(pictures, indent=1).encode())
    to.printed("lab", "phases", f"threads={','.join(counts)}", "samples=10000", "--rounds", str(to.rounds), "-o", "phases")
    to.store_file("phases.csv.gz", "phases/samples.csv")


@topic("timeline")
def take_timeline(to):
    """timelines of a search of every chunk of a tree (-- TREE), with blocks from the pool and from mmap

    Each search runs once before, so that the database is in the page cache. A missing database is built."""
    if not to.more:
        record.fail("name the folder to search after --")
    tree, work = os.path.realpath(to.more[0]), os.getcwd()
    if not os.path.isdir(f"{tree}/.faultless"):
        subprocess.run([to.faultless, "index", "init", tree], check=True, stdout=sys.stderr)
    without_paths = lambda text: text.replace(f"{work}/", "").replace(f"{tree}/", "").encode()
    for memory in ("pool", "mmap"):
        search = [to.faultless, "grep", f"-j{len(os.sched_getaffinity(0))}", "--brute-force", f"--memory={memory}", "fooo?bar"]
        for before in ([], [to.faultless, "record", "-o", f"{work}/{memory}", "--"]):
            # What the decompressed text of a search needs at most.
            warm(512)
            output([*before, *search], folder=tree, allowed=(0, 1))
        output([to.faultless, "timeline", "-o", "page.html", memory])
        with open("page.html") as file:
            to.store(f"{memory}.html", without_paths(file.read()))
    to.store("lanes.json.gz", without_paths(output([to.faultless, "timeline", "--json", "pool", "mmap"])))
