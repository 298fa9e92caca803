"""The kernel's side: other users, containers and sandboxes."""
import shutil

from .outcomes import Skip, job, root, suite

@suite("users", version="su --version", needs=("su", "setpriv"), quick=True)
def users(box):
    """As another user, with fewer capabilities, through setuid programs."""
    if not root():
        raise Skip("only root can become another user")
    work = "sort /etc/passwd | sha256sum; python3 -c \"print(len(b'x' * (9 << 20)))\""
    work_file = box.write("work.sh", f"cd /\n{work}\nid -u\n")
    yield job("su nobody", f"su -s /bin/sh nobody -c 'sh {work_file}'")
    yield job("su - nobody", f"su - nobody -s /bin/sh -c 'sh {work_file}'", quick=False)
    yield job("setpriv", f"setpriv --reuid=65534 --regid=65534 --clear-groups sh {work_file}")
    yield job("run within su", f"su -s /bin/sh nobody -c '{{run}} sh {work_file}'", quick=False)
    yield job("no new privileges", f"setpriv --no-new-privs --bounding-set=-all --inh-caps=-all sh {work_file}", quick=False)
    yield job("chroot to /", f"chroot --userspec=nobody:nogroup / sh {work_file}", quick=False)


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
    yield job("no /proc", "unshare -r -m -p -f sh -c 'mount -t tmpfs none /proc; cd /; sort /etc/passwd | sha256sum; python3 -c \"print(len(bytes(9 << 20)))\"'", quick=False)
    if shutil.which("busybox"):
        yield job("static program", "busybox sort /etc/passwd | busybox sha256sum", noise="statically linked", quick=False)
    if shutil.which("bwrap"):
        yield job("bubblewrap", f"bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all sh -c '{script}'", noise=PRELOAD, quick=False)
