"""Do `diff` and `check` name what changed, and nothing else? Builds and runs of programs whose differences are known."""
import itertools, json, os, random, shutil, subprocess, sys

from harness import record
from harness.process import output, warm
from harness.rounds import rounds
from topics import PROGRAMS, rows_of, topic

GROUP = 10
CHANGED = {"added:added", "removed:removed", "grown:changed"}
RIGHT = {"self": set(), "pages": CHANGED, "price": CHANGED}
BUILD = {"self": "a", "pages": "pages", "price": "price"}
DIFF_FIELDS = ["round", "threads", "user", "pair", "recordings", "right", "named", "cause", "faults_before", "faults_after", "time_before_ns",
               "time_after_ns", "price_ratio", "warnings"]


def diff_rows(to, folder, numbers, threads, user):
    """Compares the recordings of some rounds at once."""
    files = lambda arm: [os.path.join(folder, f"{arm}-{number}") for number in numbers]
    for pair, right in RIGHT.items():
        diff = json.loads(output([to.faultless, "diff", "--json", *files("a"), "--against", *files(pair)], user))
        # A row names a function and its caller.
        own_name = lambda row: row["name"].split(" <- ")[0]
        named = {f"{row['class']}:{own_name(row)}" for row in diff["rows"] if row["class"] != "unchanged"}
        changed = next(row for row in diff["rows"] if own_name(row) == "changed")
        yield [numbers[-1], threads, user or "root", pair, len(numbers), int(named == right), " ".join(sorted(named)), changed["cause"] or "",
               *(round(changed[figure][side]["value"], 1) for figure in ("faults", "time_ns") for side in ("before", "after")),
               round(diff["price"]["ratio"]["value"], 4), len(diff["warnings"])]


def print_diffs(paths):
    found = rows_of(paths, "price_ratio")
    print(f"{'pair':6} {'recordings':>10} {'right':>9}  wrong")
    for recordings, pair in itertools.product(("1", str(GROUP)), RIGHT):
        mine = [set(row["named"].split()) for row in found if (row["pair"], row["recordings"]) == (pair, recordings)]
        wrong = [f"not {name}" for names in mine for name in RIGHT[pair] - names] + [name for names in mine for name in names - RIGHT[pair]]
        right = f"{sum(names == RIGHT[pair] for names in mine)}/{len(mine)}"
        print(f"{pair:6} {recordings:>10} {right:>9}  " + ", ".join(f"{name} ({wrong.count(name)})" for name in sorted(set(wrong))))


@topic("diffs", print_diffs, rounds=20)
def take_diffs(to):
    """what `diff` names between builds whose differences are known, by threads and user

    Each round records the first build twice, one that faults more often (pages), and one whose faults take longer (price).
    Every tenth round also compares ten recordings a side."""
    built = {name: to.built(f"diffs-{name}", "diffs.c", "-fno-ipa-icf", "-fno-inline", *flags)
             for name, flags in (("a", []), ("pages", ["-DPAGES"]), ("price", ["-DPRICE"]))}
    with to.table("diffs", DIFF_FIELDS) as table:
        for number, order in rounds(to.rounds, itertools.product((1, 4), (None, "nobody")), name="diffs"):
            for threads, user in order:
                folder = os.path.abspath(f"diffs-of-{threads}-{user}")
                os.makedirs(folder, exist_ok=True)
                os.chmod(folder, 0o777)
                for arm in random.sample(["a", *BUILD], 4):
                    warm(100)
                    command = [built[BUILD.get(arm, arm)], str(threads), os.path.join(folder, "file")]
                    output([to.faultless, "record", "-o", os.path.join(folder, f"{arm}-{number}"), "--", *command], user)
                for numbers in [[number]] + [range(number + 1 - GROUP, number + 1)] * ((number + 1) % GROUP == 0):
                    for row in diff_rows(to, folder, numbers, threads, user):
                        table.row(*row)


GATE_FIELDS = ["part", "program", "round", "status", "over", "faults", "faults_limit", "faults_min", "faults_max", "growth", "peak_rss_bytes", "site",
               "wanted", "named"]
REAL = {"gcc": "gcc -O1 -c functions.c -o /dev/null", "python3": "./python parse.py", "sort": "sort -S 64M some.txt",
        "sqlite3": "sqlite3 :memory: '.read table.sql'", "node": "node sum.js"}
# Program -> its planted regressions, and the function that must be named. Python 3.12 or later names its functions.
PLANTED = {"./planted-c": {"leak": "load_rows", "index": "build_index", "passes": "sort_passes", "stack": "walk", "copy": "run_child", "sparse": "fill_table"},
           "./python planted.py": {"strings": "parse_rows", "index": "make_index"}, "./planted-rs": {"clone": "collect_numbers", "tree": "grow_tree"}}


def check(to, name, command, *more):
    """Exit status and the answer of `check`; with --update it writes the budget."""
    words = [to.faultless, "check", *(more or ["--json"]), "--budget", "budget.toml", "--name", name, "--", "sh", "-c", f"exec {command}"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        record.fail(f"{name}: {done.stderr.strip()}")
    return done.returncode, json.loads(done.stdout or "null")


def gate_row(part, name, number, status, answer, wanted=""):
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


def print_gate(paths):
    rows = rows_of(paths, "wanted")
    print(f"{'program':26} {'checks':>6} {'alarms':>6} {'faults, least':>14} {'most':>9} {'limit':>9}")
    real = [row for row in rows if row["part"] == "real"]
    for name in dict.fromkeys(row["program"] for row in real):
        mine = [row for row in real if row["program"] == name]
        faults = [int(row["faults"]) for row in mine]
        alarms = sum(row["status"] != "0" for row in mine)
        print(f"{name:26} {len(mine):6} {alarms:6} {min(faults):14} {max(faults):9} {mine[0]['faults_limit']:>9}")
    print(f"\n{'regression':26} {'growth':>7}  {'caught':6}  {'named':5}  site")
    for row in rows:
        if row["part"] == "planted":
            caught, named = ("yes" if row[key] == "1" else "no" for key in ("status", "named"))
            print(f"{row['program']:26} {100 * (float(row['growth']) - 1):6.1f}%  {caught:6}  {named:5}  {row['site']}")


@topic("gate", print_gate, rounds=40)
def take_gate(to):
    """false alarms of `check` for real programs, and whether it names planted regressions of 5 %"""
    to.built("planted-c", "planted.c", "-O1")
    subprocess.run(["rustc", "-O", "-g", "-o", "planted-rs", f"{PROGRAMS}/planted.rs"], check=True)
    shutil.copy(f"{PROGRAMS}/planted.py", ".")
    with to.table("gate", GATE_FIELDS) as table:
        for name, command in REAL.items():
            check(to, name, command, "--update")
        for number in range(to.rounds):
            for name, command in REAL.items():
                table.row(*gate_row("real", name, number, *check(to, name, command)))
            print(f"\rround {number + 1} of {to.rounds}", end="", file=sys.stderr, flush=True)
        for command, regressions in PLANTED.items():
            check(to, command, command, "--update")
            for planted, function in regressions.items():
                table.row(*gate_row("planted", f"{command} {planted}", 0, *check(to, command, f"{command} {planted}"), function))
