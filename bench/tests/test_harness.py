"""Fast tests of the harness: python3 -m unittest discover -s bench/tests -t bench"""
import argparse, contextlib, gzip, io, os, subprocess, sys, tempfile, unittest
from unittest import mock

from harness import figures, limits, process, record
from harness.rounds import rounds

BENCH = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def rows(**arms):
    return [{"arm": arm, "round": str(number), "wall_s": str(value)} for arm, values in arms.items() for number, value in enumerate(values)]


class Figures(unittest.TestCase):
    def test_interval_is_the_same_everywhere(self):
        self.assertEqual(figures.interval([1.0, 2.0, 3.0, 4.0, 10.0]), (3.0, 1.0, 10.0))
        self.assertEqual(figures.interval([float(n * n % 17) for n in range(15)]), (9.0, 4.0, 13.0))

    def test_interval_of_equal_values_has_no_width(self):
        self.assertEqual(figures.interval([2.0] * 9), (2.0, 2.0, 2.0))

    def test_ratio_is_paired_by_round(self):
        # The machine is ten times slower in the second round, for both arms.
        found = figures.Arms(rows(plain=[1, 10, 1, 10, 1], cure=[0.5, 5, 0.5, 5, 0.5]))
        self.assertEqual(found.ratio("cure", "plain", figures.wall_s), (0.5, 0.5, 0.5))

    def test_rounds_that_lack_an_arm_are_left_out(self):
        found = figures.Arms(rows(plain=[1, 1, 1], cure=[2]))
        self.assertEqual(found.ratio("cure", "plain", figures.wall_s)[0], 2)
        self.assertIsNone(figures.Arms(rows(plain=[1])).ratio("cure", "plain", figures.wall_s))


class Limits(unittest.TestCase):
    def test_three_answers(self):
        self.assertEqual(limits.judge(0.9, 1.04, most=1.05), limits.HOLDS)
        self.assertEqual(limits.judge(1.06, 1.2, most=1.05), limits.FAILS)
        self.assertEqual(limits.judge(0.9, 1.2, most=1.05), limits.CANNOT_SAY)

    def test_an_interval_that_only_reaches_the_limit_does_not_hold(self):
        found = limits.Limits()
        found.at_most("calloc-sparse", figures.interval([0.62, 1.0, 1.323, 1.4, 1.48]), 1.05)
        self.assertEqual(found.answers, [limits.CANNOT_SAY])

    def test_few_values_cannot_say(self):
        found = limits.Limits()
        found.at_most("four", figures.interval([0.5] * 4), 1)
        found.at_most("five", figures.interval([0.5] * 5), 1)
        self.assertEqual(found.answers, [limits.CANNOT_SAY, limits.HOLDS])

    def test_lower_limits(self):
        self.assertEqual(limits.judge(2.0, 3.0, least=1.15), limits.HOLDS)
        self.assertEqual(limits.judge(0.5, 1.0, least=1.15), limits.FAILS)
        self.assertEqual(limits.judge(1.0, 1.2, least=0.95, most=1.05), limits.CANNOT_SAY)


class Rounds(unittest.TestCase):
    def test_every_round_has_every_cell(self):
        with contextlib.redirect_stderr(io.StringIO()):
            found = [(number, sorted(order)) for number, order in rounds(3, "abc", warmup=1)]
        self.assertEqual(found, [(number, ["a", "b", "c"]) for number in (-1, 0, 1, 2)])


class Process(unittest.TestCase):
    def test_accounts_for_the_command_alone(self):
        row, text = process.run("sh -c 'echo hello; exit 3'")
        row = dict(zip(process.COLUMNS, row))
        self.assertEqual((row["status"], text), (3, b"hello\n"))
        self.assertLess(row["maxrss_kib"], 8 << 10)

    def test_short_commands_are_never_lost(self):
        for _ in range(20):
            self.assertEqual(process.run("true")[0][6], 0)

    def test_commands_run_together(self):
        one, two = process.run_all(["sleep 0.2", "sleep 0.2"])
        self.assertLess(max(one[0][0], two[0][0]), 2)


class Records(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def args(self, **more):
        return argparse.Namespace(**{"out": f"{self.folder}/a", "name": "x", "rounds": 1, "trial": False} | more)

    def refusal(self, commit, **more):
        said = io.StringIO()
        with mock.patch.object(record, "commit", lambda: commit), contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            record.check(self.args(**more))
        self.assertEqual(end.exception.code, 2)
        self.assertEqual(said.getvalue().count("\n"), 1)
        return said.getvalue()

    def test_refuses_a_dirty_or_unknown_commit_in_one_line(self):
        self.assertIn("commit them", self.refusal(("abc", False)))
        self.assertIn("unknown", self.refusal((None, False)))

    def test_a_trial_is_no_record(self):
        self.assertIn("outside record/", self.refusal(("abc", True), trial=True, out=f"{record.RECORDS}/x"))

    def test_rows_come_back_and_are_never_overwritten(self):
        with mock.patch.object(record, "commit", lambda: ("abc", True)):
            with record.Record(self.args(), ["round", "arm", "wall_s"], {"plain": "true"}) as table:
                table.row(0, "plain", 0.125)
            found, comments = record.read(table.path)
            self.assertEqual(found, [{"round": "0", "arm": "plain", "wall_s": "0.125"}])
            self.assertEqual(comments, {"plain": "true"})
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                record.Record(self.args(), ["round"])
        with open(f"{self.folder}/a/host.txt") as host:
            self.assertIn("commit:  abc\n", host.read())
        self.assertEqual(os.listdir(f"{self.folder}/a").count("x.csv.new"), 0)

    def test_the_same_rows_make_the_same_file(self):
        packed = []
        for name in ("one", "two"):
            with record.Record(self.args(name=name, trial=True), ["a"]) as table:
                table.row(1)
            with open(table.path, "rb") as file:
                packed.append(file.read())
        self.assertEqual(*packed)
        self.assertEqual(gzip.decompress(packed[0]), b"a\n1\n")


class Scripts(unittest.TestCase):
    def test_help_fits_a_screen(self):
        scripts = [name for name in os.listdir(BENCH) if os.access(f"{BENCH}/{name}", os.X_OK) and name.endswith(".py") and name != "inputs.py"]
        self.assertGreater(len(scripts), 10)
        for name in scripts:
            done = subprocess.run([sys.executable, f"{BENCH}/{name}", "-h"], capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"})
            lines = done.stdout.splitlines()
            self.assertEqual(done.returncode, 0, name)
            self.assertLessEqual(len(lines), 50, name)
            self.assertLessEqual(max(map(len, lines)), 100, name)

    def test_a_missing_program_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("peers", "short", "diffs", "grep", "grep_same"):
                words = ["--trial", "--out", folder, "--faultless", f"{folder}/none"]
                done = subprocess.run([sys.executable, f"{BENCH}/{name}.py", *words], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertIn("no program", done.stderr)

    def test_summaries_read_the_kept_records(self):
        kept = {"paired.py": "cost/2026-11-27-epyc-2cpu-5/sort.csv.gz", "short.py": "short/2026-11-28-xeon-2cpu/short.csv.gz"}
        for script, path in kept.items():
            done = subprocess.run([sys.executable, f"{BENCH}/{script}", "--summary", f"{record.RECORDS}/{path}"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(len(done.stdout.splitlines()), 2, script)
        done = subprocess.run([sys.executable, f"{BENCH}/peers.py", "--summary", f"{record.RECORDS}/{kept['paired.py']}"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))


if __name__ == "__main__":
    unittest.main()
