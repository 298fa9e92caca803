"""Is it true what the profiler says? `stat` beside programs that time their own faults; `diff` and `check` on programs
with planted regressions, and on programs without."""
import itertools, json, os, random, shutil, subprocess, sys

from harness import record
from harness.process import output, warm
from harness.rounds import rounds
from topics import PROGRAMS, json_of, topic

# Ways of strangers.c. A user can't see the faults of the last.
WAYS = ["blocks", "large-blocks", "downwards", "across", "threads", "shared", "file-read", "file-private", "child-copies", "parent-copies",
        "zero-first", "again", "stack", "huge", "mixed", "heap", "grown", "bss", "computing", "children", "system-call"]
TIMES = "6"
STRANGERS_FIELDS = ["way", "user", "load", "round", "before_s", "during_s", "after_s", "recorder_s", "value_s", "low_s", "high_s", "system_s", "cpu_s"]


def strangers_row(to, way, user):
    program = os.path.abspath("strangers")
    own = lambda: int(output([program, way, TIMES], user)) / 1e9
    before = own()
    during, _, stat = output([to.faultless, "stat", "--json", "-o", "-", "--", program, way, TIMES], user).partition("\n")
    stat = json.loads(stat)
    seconds, usage = stat["time"]["seconds"], stat["usage"]
    ends = [seconds[end] for end in ("value", "low", "high")]
    return [before, int(during) / 1e9, own(), stat["recorder_ns"] / 1e9, *ends, usage["system_ns"] / 1e9, (usage["user_ns"] + usage["system_ns"]) / 1e9]


@topic("strangers", rounds=5)
def take_strangers(to):
    """* `stat` beside the clocks of programs that time their own faults, idle and beside a process that takes huge pages"""
    to.built("strangers", "strangers.c", "-O1", "-fno-builtin")
    with to.table("strangers", STRANGERS_FIELDS) as table:
        for number in range(to.rounds):
            for load in ("idle", "beside hog"):
                hog = subprocess.Popen([os.path.abspath("strangers"), "hog"]) if load != "idle" else None
                for _, order in rounds(1, itertools.product(WAYS, ("root", "nobody")), name=f"strangers, {load}, {number + 1}"):
                    for way, user in order:
                        warm(600)
                        table.row(way, user, load, number, *strangers_row(to, way, None if user == "root" else user))
                if hog:
                    hog.kill()
                    hog.wait()


# Ways of gives.c, each with the pages that a call gives back: many for their time, few for the price of recording a call.
GIVES = {way: (256, 400) for way in ("munmap", "dontneed", "brk", "mremap", "over")} | {"dontneed-few": (2, 10000)}
CALLS_FIELDS = ["way", "user", "round", "calls", "bytes", "call_ns", "cpu_ns", "without_cpu_ns", "with_cpu_ns", "found_calls", "found_bytes", "found_ns"]


def calls_row(to, way, user):
    pages, times = GIVES[way]
    command = [os.path.abspath("gives"), way.partition("-")[0], str(pages), str(times)]
    own = lambda *before: [int(word) for word in output([*before, *command], user).split()]
    recorded = lambda *more: own(to.faultless, "record", *more, "-o", "calls.trace", "--")
    plain, without, with_calls = own(), recorded("--no-calls"), recorded()
    found = json.loads(output([to.faultless, "report", "--json", "calls.trace"], user))["mechanisms"]
    found = [one for one in found if one["cycled_bytes"] > 0]
    sums = [sum(one[name] or 0 for one in found) for name in ("calls", "cycled_bytes", "call_ns")]
    return [*plain, without[3], with_calls[3], *sums]


@topic("calls", rounds=7)
def take_calls(to):
    """* bytes and times of calls that give memory back, beside programs that know both, and what recording a call costs"""
    to.built("gives", "gives.c", "-O1")
    os.chmod(".", 0o777)
    with to.table("calls", CALLS_FIELDS) as table:
        for number, order in rounds(to.rounds, itertools.product(GIVES, ("root", "nobody")), name="calls"):
            for way, user in order:
                if os.path.exists("calls.trace"):
                    os.remove("calls.trace")
                warm(200)
                table.row(way, user, number, *calls_row(to, way, None if user == "root" else user))


# Program -> its planted regressions, and the function that must be named. Python 3.12 or later names its functions.
PLANTED = {"./planted-c": {"leak": "load_rows", "index": "build_index", "passes": "sort_passes", "stack": "walk", "copy": "run_child", "sparse": "fill_table"},
           "./python planted.py": {"strings": "parse_rows", "index": "make_index"}, "./planted-rs": {"clone": "collect_numbers", "tree": "grow_tree"}}
# As many faults of a dearer kind: no count grows, so it is for `diff` alone.
PRICE = {"price": "look_up"}
GROUP = 10
DIFF_FIELDS = ["round", "user", "program", "planted", "pair", "recordings", "right", "named", "others", "price_ratio", "warnings"]


def planted_programs(to):
    to.built("planted-c", "planted.c", "-O1")
    subprocess.run(["rustc", "-O", "-g", "-o", "planted-rs", f"{PROGRAMS}/planted.rs"], check=True)
    shutil.copy(f"{PROGRAMS}/planted.py", ".")


def is_named(function, site):
    """Whether the function is in the site: a function, and after an arrow its caller."""
    return any(function in part.replace("::", " ").replace(":", " ").split() for part in site.split(" <- "))


def diff_row(to, user, command, planted, function, before, after):
    """Compares recordings. A program beside itself should name nothing, and a regression its function first."""
    diff = json.loads(output([to.faultless, "diff", "--json", *before, "--against", *after], user))
    named = [f"{row['class']} {row['name']}" for row in diff["rows"] if row["class"] != "unchanged"]
    right = bool(named) and is_named(function, named[0].partition(" ")[2]) if function else not named
    pair = planted if planted in ("self", "price") else "pages"
    return [user or "root", command, planted, pair, len(before), int(right), named[0] if named else "", max(len(named) - 1, 0),
            round(diff["price"]["ratio"]["value"], 4), len(diff["warnings"])]


@topic("diffs", rounds=20)
def take_diffs(to):
    """what `diff` names between runs whose differences are known, and between runs without any

    Every tenth round also compares ten recordings a side."""
    planted_programs(to)
    with to.table("diffs", DIFF_FIELDS) as table:
        for number, order in rounds(to.rounds, itertools.product(PLANTED, (None, "nobody")), name="diffs"):
            for command, user in order:
                folder = os.path.abspath(f"diffs-{os.path.basename(command)}-{user}")
                os.makedirs(folder, exist_ok=True)
                os.chmod(folder, 0o777)
                arms = {"": "", "self": ""} | PLANTED[command] | (PRICE if command == "./planted-c" else {})
                for arm in random.sample([*arms], len(arms)):
                    warm(200)
                    words = [*command.split(), *([arm] if arms[arm] else [])]
                    output([to.faultless, "record", "-o", f"{folder}/{arm}-{number}", "--", *words], user)
                for numbers in [[number]] + [range(number + 1 - GROUP, number + 1)] * ((number + 1) % GROUP == 0):
                    files = lambda arm: [f"{folder}/{arm}-{number}" for number in numbers]
                    for arm, function in arms.items():
                        if arm:
                            table.row(number, *diff_row(to, user, command, arm, function, files(""), files(arm)))


GATE_FIELDS = ["part", "program", "round", "status", "over", "faults", "faults_limit", "faults_min", "faults_max", "growth", "peak_rss_bytes", "site",
               "wanted", "named"]
REAL = {"gcc": "gcc -O1 -c functions.c -o /dev/null", "python3": "./python parse.py", "sort": "sort -S 64M some.txt",
        "sqlite3": "sqlite3 :memory: '.read table.sql'", "node": "node sum.js"}

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


@topic("gate", rounds=40)
def take_gate(to):
    """false alarms of `check` for real programs, and whether it names planted regressions of 5 %"""
    planted_programs(to)
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
