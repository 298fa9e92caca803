#!/usr/bin/env python3
"""Takes the records of this machine into record/TOPIC/DATE-HOST.

    bench/take.py --list
    bench/take.py --host xeon-2cpu run stat
    bench/take.py --host xeon-2cpu peers -- mimalloc3=BUILD/libmimalloc.so
    bench/take.py --trial DIR --faultless target/debug/faultless --rounds 1 strangers

Builds the release binary of this clean commit and copies it, so that no later build changes what is measured. Nothing
else should run meanwhile. Without topics it takes those marked with *. Options after -- go to the topic.
"""
import importlib, os, shutil, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import topics
from harness import record


def arguments():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = record.parser(__doc__)
    parser.add_argument("--host", default="host", help="name of this machine [%(default)s]")
    parser.add_argument("--list", action="store_true", help="print the topics and exit")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds, instead of each topic's own")
    parser.add_argument("--python", default="python3", metavar="PATH", help="a Python with NumPy that every user may run, not of a virtual environment [%(default)s]")
    parser.add_argument("--trial", metavar="DIR", help="write to DIR instead of record/; the commit need not be clean")
    parser.add_argument("--faultless", metavar="PATH", help="with --trial: this program instead of a new build")
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    args = parser.parse_args(words[:cut])
    args.more = words[cut + 1:]
    unknown = [name for name in args.topics if name not in topics.TOPICS]
    if unknown:
        record.fail(f"there is no topic {unknown[0]}; there are {', '.join(topics.TOPICS)}")
    if args.faultless and not args.trial:
        record.fail("a record measures a build of this commit: --faultless needs --trial")
    if args.faultless and not os.path.exists(args.faultless):
        record.fail(f"--faultless: no program {args.faultless}; name the one to measure")
    if args.rounds is not None and args.rounds < 1:
        record.fail("--rounds must be 1 or more")
    return args


def prepare(args, work):
    """Inputs, the program under test and a Python that every user may run, in one folder, which becomes the working directory."""
    subprocess.run([sys.executable, f"{topics.HERE}/inputs.py", work], check=True)
    if not args.faultless:
        subprocess.run(["cargo", "build", "--release"], check=True, cwd=record.ROOT)
    built = os.path.realpath(args.faultless or f"{record.ROOT}/target/release/faultless")
    shutil.copy(built, f"{work}/faultless")
    # `faultless` starts these programs beside it.
    for name in ("lab", "grep"):
        if os.path.exists(f"{built}-{name}"):
            shutil.copy(f"{built}-{name}", f"{work}/faultless-{name}")
    found = subprocess.run([shutil.which(args.python), "-c", "import os, sys; print(os.path.realpath(sys.executable))"], capture_output=True, text=True, check=True)
    os.symlink(found.stdout.strip(), f"{work}/python")
    subprocess.run("g++ -O2 -o words words.cpp && git init -q tree && cp big.json functions.c some.txt tree && chmod -R a+rX .",
                   shell=True, check=True, cwd=work)
    os.environ["PATH"] = f"{work}:{os.environ['PATH']}"
    sys.argv[0] = os.path.realpath(sys.argv[0])
    os.chdir(work)


def take(args):
    root = os.path.realpath(args.trial or record.RECORDS)
    args.head = record.check(root, args.trial)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    with tempfile.TemporaryDirectory(prefix="faultless-take-") as work:
        os.chmod(work, 0o755)
        prepare(args, work)
        for name in args.topics or [name for name, topic in topics.TOPICS.items() if topic.take.__doc__.startswith("*")]:
            to = topics.To(args, name, os.path.join(root, name, f"{date}-{args.host}"))
            topics.TOPICS[name].take(to)
            print(f"{name}: {to.folder}")
        os.chdir("/")


def main():
    for name in topics.MODULES:
        importlib.import_module(f"topics.{name}")
    args = arguments()
    if args.list:
        for name, topic in topics.TOPICS.items():
            print(f"{name:12} {topic.take.__doc__.splitlines()[0]}")
    else:
        take(args)


if __name__ == "__main__":
    main()
