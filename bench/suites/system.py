"""The kernel's side: stress-ng's memory and fork stressors, other users, containers and sandboxes."""
import shutil

from .outcomes import Skip, job, root, suite

STRESSORS = {
    "malloc": "--malloc 2 --malloc-ops 20000 --verify", "malloc, large": "--malloc 2 --malloc-bytes 64M --malloc-ops 5000 --verify",
    "malloc, threads": "--malloc 1 --malloc-pthreads 4 --malloc-ops 10000 --verify", "malloc, touched": "--malloc 2 --malloc-touch --malloc-ops 5000 --verify",
    "vm": "--vm 2 --vm-bytes 64M --vm-ops 200 --vm-method all --verify", "vm, populated": "--vm 1 --vm-bytes 32M --vm-populate --vm-ops 50 --verify",
    "mmapfork": "--mmapfork 1 --mmapfork-ops 10", "fork": "--fork 2 --fork-ops 500", "fork, vm": "--fork 1 --fork-vm --fork-ops 200", "vfork": "--vfork 2 --vfork-ops 500",
    "bigheap": "--bigheap 1 --bigheap-growth 64K --bigheap-ops 500", "brk": "--brk 1 --brk-ops 50000", "stack": "--stack 1 --stack-ops 3",
    "mmap": "--mmap 1 --mmap-bytes 32M --mmap-ops 20 --verify", "mremap": "--mremap 1 --mremap-ops 50 --verify", "madvise": "--madvise 1 --madvise-ops 20",
    "pthread": "--pthread 2 --pthread-ops 2000", "clone": "--clone 1 --clone-ops 200", "exec": "--exec 1 --exec-ops 30", "daemon": "--daemon 1 --daemon-ops 30",
    "sigsegv": "--sigsegv 1 --sigsegv-ops 500", "shm": "--shm 1 --shm-ops 20 --verify", "memfd": "--memfd 1 --memfd-ops 20", "zlib": "--zlib 1 --zlib-ops 10 --verify",
    "qsort": "--qsort 1 --qsort-ops 3 --verify", "tree": "--tree 1 --tree-ops 1 --tree-size 20000 --verify", "hsearch": "--hsearch 1 --hsearch-ops 3 --verify",
    "lsearch": "--lsearch 1 --lsearch-ops 1 --verify", "bsearch": "--bsearch 1 --bsearch-ops 5 --verify", "mergesort": "--mergesort 1 --mergesort-ops 3 --verify",
    "memcpy": "--memcpy 1 --memcpy-ops 50 --verify", "str": "--str 1 --str-ops 50 --verify", "wcs": "--wcs 1 --wcs-ops 20 --verify", "rmap": "--rmap 1 --rmap-ops 50",
    "pageswap": "--pageswap 1 --pageswap-ops 50", "userfaultfd": "--userfaultfd 1 --userfaultfd-ops 500", "mlock": "--mlock 1 --mlock-ops 100", "prefetch": "--prefetch 1 --prefetch-ops 5 --verify",
    "resources": "--resources 1 --resources-ops 20", "seccomp": "--seccomp 1 --seccomp-ops 50", "numa": "--numa 1 --numa-ops 5", "mcontend": "--mcontend 1 --mcontend-ops 50",
}


@suite("stress-ng", version="stress-ng --version", needs=("stress-ng",), apt=("stress-ng",))
def stress(box):
    """Memory, fork, thread and signal stressors with a fixed number of operations and --verify."""
    for name, options in STRESSORS.items():
        # Only the status: the output has times.
        yield job(name, f"stress-ng --temp-path . --timeout 20 --no-rand-seed {options}", limit_s=90, errors=False, out=False)


@suite("users", version="su --version", needs=("su", "setpriv"), quick=True)
def users(box):
    """As another user, with fewer capabilities, through setuid programs."""
    if not root():
        raise Skip("only root can become another user")
    work = "sort /etc/passwd | sha256sum; python3 -c \"print(len(b'x' * (9 << 20)))\""
    work_file = box.write("work.sh", f"cd /\n{work}\nid -u\n", executable=True)
    yield job("su nobody", f"su -s /bin/sh nobody -c 'sh {work_file}'")
    yield job("su - nobody", f"su - nobody -s /bin/sh -c 'sh {work_file}'", quick=False)
    yield job("setpriv", f"setpriv --reuid=65534 --regid=65534 --clear-groups sh {work_file}")
    yield job("run within su", f"su -s /bin/sh nobody -c '{{run}} sh {work_file}'", quick=False)
    yield job("no new privileges", f"setpriv --no-new-privs --bounding-set=-all --inh-caps=-all sh {work_file}", quick=False)
    yield job("setuid program", "su -s /bin/sh nobody -c 'chsh --help; passwd -S nobody' | head -3", quick=False)
    yield job("chroot to /", f"chroot --userspec=nobody:nogroup / sh {work_file}", quick=False)
    yield job("nice, ionice, taskset", f"nice -n 5 taskset -c 0 sh {work_file}", quick=False)
    yield job("new session, no terminal", f"setsid -w sh {work_file} </dev/null", quick=False)


# A preloaded library that the container lacks is what the loader complains about; help says so.
PRELOAD = r"cannot be preloaded|ld\.so"


@suite("containers", version="unshare --version", needs=("unshare", "chroot", "ldd"), quick=True)
def containers(box):
    """unshare with user, mount, pid and network namespaces; chroot into a copied root; static programs; bubblewrap."""
    box.prepare("""unshare -r true && mkdir -p rootfs/etc rootfs/dev rootfs/proc rootfs/tmp && cp /etc/passwd rootfs/etc/ && for p in sh sort head sha256sum cat; do f=$(readlink -f $(command -v $p)); mkdir -p rootfs/bin; cp $f rootfs/bin/$p
        for l in $(ldd $f | grep -o '/[^ ]*'); do mkdir -p rootfs$(dirname $l); cp -L $l rootfs$l; done; done""")
    script = "for i in 1 2 3; do sort -S 4M /etc/passwd | sha256sum; done; cat /etc/passwd | head -3"
    yield job("chroot", f"unshare -r chroot {box.inputs}/rootfs /bin/sh -c '{script}'", noise=PRELOAD)
    yield job("user and pid namespace", f"unshare -r -p -f --mount-proc sh -c '{script}; ps -e 2>/dev/null | wc -l'", quick=False)
    yield job("no network", f"unshare -r -n sh -c '{script}'", quick=False)
    yield job("run within", f"unshare -r -m -p -f --mount-proc {{run}} sh -c '{script}'", quick=False)
    yield job("read-only, no /tmp", f"unshare -r -m sh -c 'mount -t tmpfs -o ro none /tmp 2>/dev/null; mount -t tmpfs -o ro none /dev/shm 2>/dev/null; cd /; {script}'", quick=False)
    yield job("run, read-only, no /tmp", f"unshare -r -m sh -c 'mount -t tmpfs -o ro none /dev/shm 2>/dev/null; cd /; {{run}} sh -c \"{script}\"'", quick=False)
    yield job("no /proc", f"unshare -r -m -p -f sh -c 'mount -t tmpfs none /proc; cd /; sort /etc/passwd | sha256sum; python3 -c \"print(len(bytes(9 << 20)))\"'", quick=False)
    if shutil.which("busybox"):
        yield job("static program", "busybox sort /etc/passwd | busybox sha256sum", noise="statically linked", quick=False)
    if shutil.which("bwrap"):
        yield job("bubblewrap", f"bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all sh -c '{script}'", noise=PRELOAD, quick=False)
