"""The allocators that peers.py compares, each as the words in front of a command.

The user names others as NAME=LIBRARY, loaded by LD_PRELOAD. An arm whose option this faultless lacks is left out with a note.
"""
import os, subprocess, sys

# One heap that grows by 64 MiB, never maps single blocks and never trims: the fewest faults of glibc.
KEEPING = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864"
HUGE = "glibc.malloc.hugetlb=1"
# Arms of faultless; all others are peers.
OURS = ("pool", "pool-1s", "pool-warm", "pool-small")
# Only for jobs with idle times, which are 1.5 s: memory goes back after 1 s on any machine.
IDLE_ONLY = "pool-1s"


def arms(faultless, libraries):
    """Name -> words in front of the command; {mib} stands for the memory that the job touches."""
    found = {"glibc": "", "glibc-keeping": f"env GLIBC_TUNABLES={KEEPING}", "glibc-huge": f"env GLIBC_TUNABLES={HUGE}",
             "glibc-both": f"env GLIBC_TUNABLES={KEEPING}:{HUGE}"}
    for name, library in libraries.items():
        if not os.path.exists(library):
            sys.exit(f"{name}: no library at {library}")
        found[name] = f"env LD_PRELOAD={os.path.realpath(library)}"
    found["pool"] = f"{faultless} run --"
    help_text = subprocess.run([faultless, "run", "--help"], capture_output=True, text=True, check=True).stdout
    options = {"pool-1s": "--decay 1s", "pool-warm": "--prewarm {mib}M", "pool-small": "--small mimalloc"}
    for arm, words in options.items():
        option = words.split()[0]
        if f"{option} " in help_text:
            found[arm] = f"{faultless} run {words} --"
        else:
            print(f"left out: {arm}: this faultless has no run {option}", file=sys.stderr)
    return found


def is_peer(arm):
    return arm not in OURS
