#!/usr/bin/env python3
"""Does `faultless check` raise no alarm without a reason, and does it catch regressions of 5 % and name their site?

    bench/gate.py --out record/gate/DATE-HOST --faultless target/release/faultless

First it writes a budget for each of five real programs and checks it again and again: 200 checks in all. Then it writes
budgets of small programs and checks each with a planted regression (programs/planted.*): it must fail, and the site that
it names first must be the planted one. Counts need no quiet machine.
"""
import json, os, shutil, subprocess, sys, tempfile

from harness import record

HERE = os.path.dirname(os.path.realpath(__file__))
FIELDS = ["part", "program", "round", "status", "over", "faults", "faults_limit", "faults_min", "faults_max", "growth", "peak_rss_bytes", "site", "wanted",
          "named"]
# Program -> command, in the folder of inputs.py.
REAL = {"gcc": "gcc -O1 -c functions.c -o /dev/null", "python3": "{python} parse.py", "sort": "sort -S 64M some.txt",
        "sqlite3": "sqlite3 :memory: '.read table.sql'", "node": "node sum.js"}
# Planted regression -> command without it, its name, and the function that must be named.
PLANTED = {"c-leak": ("./planted-c", "leak", "load_rows"), "c-index": ("./planted-c", "index", "build_index"),
           "c-passes": ("./planted-c", "passes", "sort_passes"), "c-stack": ("./planted-c", "stack", "walk"),
           "c-copy": ("./planted-c", "copy", "run_child"), "c-sparse": ("./planted-c", "sparse", "fill_table"),
           "python-strings": ("{python} planted.py", "strings", "parse_rows"), "python-index": ("{python} planted.py", "index", "make_index"),
           "rust-clone": ("./planted-rs", "clone", "collect_numbers"), "rust-tree": ("./planted-rs", "tree", "grow_tree")}


def prepare(folder):
    subprocess.run([sys.executable, f"{HERE}/inputs.py", folder], check=True)
    subprocess.run(["cc", "-O1", "-g", "-o", f"{folder}/planted-c", f"{HERE}/programs/planted.c"], check=True)
    subprocess.run(["rustc", "-O", "-g", "-o", f"{folder}/planted-rs", f"{HERE}/programs/planted.rs"], check=True)
    shutil.copy(f"{HERE}/programs/planted.py", folder)


def words(args, command, more=""):
    return ["sh", "-c", f"exec {command.format(python=args.python)} {more}".strip()]


def update(args, name, command):
    done = subprocess.run([args.faultless, "check", "--update", "--budget", "budget.toml", "--name", name, "--", *words(args, command)],
                          cwd=args.work, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        record.fail(f"{name}: {done.stderr.strip()}")


def check(args, name, command, more=""):
    """Exit status and the answer."""
    done = subprocess.run([args.faultless, "check", "--json", "--budget", "budget.toml", "--name", name, "--", *words(args, command, more)],
                          cwd=args.work, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        record.fail(f"{name}: {done.stderr.strip()}")
    return done.returncode, json.loads(done.stdout)


def row(part, name, number, status, answer, wanted=""):
    """A row of the table."""
    figures = {figure["figure"]: figure for figure in answer["figures"]}
    faults, budget = figures["faults"], figures["faults"]["budget"]
    over = " ".join(figure["figure"] for figure in answer["figures"] if figure["over"])
    site = answer["growth"][0]["site"] if answer["growth"] else ""
    growth = round(faults["now"] / max(budget["median"], 1), 6)
    return [part, name, number, status, over, faults["now"], budget["limit"], budget["min"], budget["max"], growth, figures["peak_rss_bytes"]["now"],
            site, wanted, int(bool(wanted) and is_named(wanted, site))]


def is_named(function, site):
    """Whether the function is in the site: a function, and after an arrow its caller."""
    return any(function in part.replace("::", " ").replace(":", " ").split() for part in site.split(" <- "))


def measure(args):
    with tempfile.TemporaryDirectory(prefix="faultless-gate-") as work:
        args.work = work
        # A later build changes nothing.
        args.faultless = shutil.copy(os.path.realpath(args.faultless), f"{work}/faultless")
        prepare(work)
        with record.Record(args, FIELDS) as table:
            for name, command in REAL.items():
                update(args, name, command)
            for number in range(args.rounds):
                for name, command in REAL.items():
                    table.row(*row("real", name, number, *check(args, name, command)))
                print(f"\rround {number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
            for command in dict.fromkeys(command for command, _, _ in PLANTED.values()):
                update(args, command, command)
            for name, (command, planted, function) in PLANTED.items():
                table.row(*row("planted", name, 0, *check(args, command, command, planted), function))
    print(file=sys.stderr)
    table.summarize(summary)


def summary(paths):
    rows = [row for path in paths for row in record.read(path)[0]]
    if "named" not in rows[0]:
        record.fail(f"{paths[0]}: not a table of gate.py")
    print(f"{'program':16} {'checks':>6} {'alarms':>6} {'faults, least':>14} {'most':>9} {'limit':>9}")
    real = [row for row in rows if row["part"] == "real"]
    for name in dict.fromkeys(row["program"] for row in real):
        mine = [row for row in real if row["program"] == name]
        faults = [int(row["faults"]) for row in mine]
        alarms = sum(row["status"] != "0" for row in mine)
        print(f"{name:16} {len(mine):6} {alarms:6} {min(faults):14} {max(faults):9} {mine[0]['faults_limit']:>9}")
    print(f"\n{'regression':16} {'growth':>7}  {'caught':6}  {'named':5}  site")
    for row in rows:
        if row["part"] == "planted":
            caught, named = ("yes" if row[key] == "1" else "no" for key in ("status", "named"))
            print(f"{row['program']:16} {100 * (float(row['growth']) - 1):6.1f}%  {caught:6}  {named:5}  {row['site']}")


def main():
    parser = record.parser(__doc__)
    record.options(parser, "gate", 40)
    parser.add_argument("--python", default="python3", metavar="PATH", help="Python 3.12 or later, which names its functions [%(default)s]")
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    measure(args)


if __name__ == "__main__":
    main()
