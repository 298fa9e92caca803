#!/usr/bin/env python3
"""Takes the pictures of "Bringing The Hardware And Windows To Its Limits": the kernel's work and locks, by threads.

    bench/flames.py --out record/flame/DATE-HOST
    bench/flames.py --trial --out /tmp/flames --threads 1 2 4 8 --mib 100

A program touches every page of new memory with 1, 2 and more threads, again and again, and `faultless record` samples
the kernel's stacks. The memory is small, so that the hypervisor has backed all of it: other faults would look like work.
Leaves a picture of each number of threads, threads-N.svg, and kernel.json.gz with the stacks and the samples by part.
phases.csv.gz has what `faultless lab phases` measures in ROUNDS rounds. It needs root: nobody else sees the kernel's
functions.
"""
import gzip, json, os, shutil, subprocess, sys, tempfile

from harness import record
from harness.memory import warm

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "programs", "touch.c")
# Samples per second of CPU time, a prime: some thousand in a second of touches.
HERTZ = 4999
# All rounds together touch about as much as the document does.
TOTAL_MIB = 2000


def pack(path, data):
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(data)


def main():
    parser = record.parser(__doc__)
    record.options(parser, "kernel", 15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4], metavar="N", help="numbers of threads [1 2 4]")
    parser.add_argument("--mib", type=int, default=200, metavar="MIB", help="memory of a round [%(default)s]")
    args = parser.parse_args()
    head = record.check(args)
    faultless = shutil.which(args.faultless) or record.fail(f"--faultless: no program {args.faultless}; name the one to record")
    faultless, out = os.path.realpath(faultless), os.path.realpath(args.out)
    if os.geteuid() != 0:
        record.fail("only root sees the kernel's functions: run it as root")
    if os.path.exists(f"{out}/{args.name}.json.gz"):
        record.fail(f"{out}/{args.name}.json.gz exists: records are never overwritten")
    os.makedirs(out, exist_ok=True)
    pictures = {}
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["cc", "-O2", "-pthread", "-o", "touch", SOURCE], check=True, cwd=work)
        for count in args.threads:
            # A relative name: paths of this machine say nothing to a reader.
            command = ["./touch", str(args.mib), str(count), str(max(1, TOTAL_MIB // args.mib))]
            warm(args.mib)
            subprocess.run(command, check=True, cwd=work)
            subprocess.run([faultless, "record", "-F", str(HERTZ), "-o", "trace", "--", *command], check=True, cwd=work,
                           stdout=subprocess.DEVNULL)
            subprocess.run([faultless, "flame", "--kernel", "-o", "picture.svg", "trace"], check=True, cwd=work)
            shutil.copyfile(f"{work}/picture.svg", f"{out}/threads-{count}.svg")
            told = subprocess.run([faultless, "flame", "--kernel", "--json", "trace"], check=True, cwd=work, stdout=subprocess.PIPE)
            pictures[str(count)] = json.loads(told.stdout)
        threads = f"threads={','.join(map(str, args.threads))}"
        subprocess.run([faultless, "lab", "phases", threads, "samples=10000", "--rounds", str(args.rounds), "-o", "phases"], check=True,
                       cwd=work, stdout=sys.stderr)
        with open(f"{work}/phases/samples.csv", "rb") as file:
            samples = file.read()
    pack(f"{out}/phases.csv.gz", samples)
    pack(f"{out}/{args.name}.json.gz", json.dumps(pictures, indent=1).encode())
    with open(f"{out}/host.txt", "w") as file:
        file.write(record.host(head, record.command_line()))
    for count, picture in pictures.items():
        parts = ", ".join(f"{name} {100 * part['share']:.1f} %" for name, part in picture["parts"].items())
        print(f"{count} threads: {picture['samples']} samples, {parts}")


if __name__ == "__main__":
    main()
