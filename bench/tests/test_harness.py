"""Fast tests of the harness: python3 -m unittest discover -s bench/tests -t bench"""
import argparse, contextlib, io, os, subprocess, sys, tempfile, unittest
from unittest import mock

from harness import figures, limits, process, record
from harness.rounds import rounds

BENCH = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def rows(**arms):
    return [{"arm": arm, "round": str(number), "wall_s": str(value)} for arm, values in arms.items() for number, value in enumerate(values)]


class Figures(unittest.TestCase):
    def test_interval_is_the_same_everywhere_and_that_of_equal_values_has_no_width(self):
        self.assertEqual(figures.interval([1.0, 2.0, 3.0, 4.0, 10.0]), (3.0, 1.0, 10.0))
        self.assertEqual(figures.interval([float(n * n % 17) for n in range(15)]), (9.0, 4.0, 13.0))
        self.assertEqual(figures.interval([2.0] * 9), (2.0, 2.0, 2.0))

    def test_ratio_is_paired_by_round_and_rounds_that_lack_an_arm_are_left_out(self):
        # The machine is ten times slower in the second round, for both arms.
        found = figures.Arms(rows(plain=[1, 10, 1, 10, 1], cure=[0.5, 5, 0.5, 5, 0.5]))
        self.assertEqual(found.ratio("cure", "plain", figures.wall_s), (0.5, 0.5, 0.5))
        self.assertEqual(figures.Arms(rows(plain=[1, 1, 1], cure=[2])).ratio("cure", "plain", figures.wall_s)[0], 2)
        self.assertIsNone(figures.Arms(rows(plain=[1])).ratio("cure", "plain", figures.wall_s))


class Limits(unittest.TestCase):
    def test_three_answers(self):
        answers = [limits.judge(*ends, least=0.95, most=1.05) for ends in ((0.96, 1.04), (1.06, 1.2), (0.5, 0.9), (1.0, 1.2))]
        self.assertEqual(answers, [limits.HOLDS, limits.FAILS, limits.FAILS, limits.CANNOT_SAY])

    def test_few_values_cannot_say(self):
        found = limits.Limits()
        for count in (4, 5):
            found.at_most("some", figures.interval([0.5] * count), 1)
        self.assertEqual(found.answers, [limits.CANNOT_SAY, limits.HOLDS])


class Process(unittest.TestCase):
    def test_every_round_has_every_cell(self):
        with contextlib.redirect_stderr(io.StringIO()):
            found = [(number, sorted(order)) for number, order in rounds(3, "abc", warmup=1)]
        self.assertEqual(found, [(number, ["a", "b", "c"]) for number in (-1, 0, 1, 2)])

    def test_accounts_for_the_command_alone(self):
        row, text = process.run("sh -c 'echo hello; exit 3'")
        row = dict(zip(process.COLUMNS, row))
        self.assertEqual((row["status"], text), (3, b"hello\n"))
        self.assertLess(row["maxrss_kib"], 8 << 10)
        self.assertEqual([process.run("true")[0][6] for _ in range(9)], [0] * 9, "short ones are never lost")


class Records(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_refuses_a_dirty_or_unknown_commit_and_a_trial_below_record_in_one_line(self):
        for commit, out, trial, words in ((("abc", False), self.folder, False, "commit them"), ((None, False), self.folder, False, "unknown"),
                                          (("abc", True), f"{record.RECORDS}/x", True, "outside record/")):
            said = io.StringIO()
            with mock.patch.object(record, "commit", lambda: commit), contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
                record.check(out, trial)
            self.assertEqual((end.exception.code, said.getvalue().count("\n")), (2, 1))
            self.assertIn(words, said.getvalue())

    def test_rows_come_back_and_are_never_overwritten(self):
        args = argparse.Namespace(out=f"{self.folder}/a", name="x", trial=False)
        with mock.patch.object(record, "commit", lambda: ("abc", True)):
            with record.Record(args, ["round", "arm", "wall_s"], {"plain": "true"}) as table:
                table.row(0, "plain", 0.125)
            self.assertEqual(record.read(table.path), ([{"round": "0", "arm": "plain", "wall_s": "0.125"}], {"plain": "true"}))
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                record.Record(args, ["round"])
        with open(f"{self.folder}/a/host.txt") as host:
            self.assertIn("commit:  abc\n", host.read())
        with open(table.path, "rb") as file:
            # No time and no name: the same rows make the same file.
            self.assertEqual(file.read()[3:8], b"\0\0\0\0\0")
        self.assertEqual(os.listdir(f"{self.folder}/a").count("x.csv.new"), 0)


class Scripts(unittest.TestCase):
    def run_script(self, name, *words):
        return subprocess.run([sys.executable, f"{BENCH}/{name}", *words], capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"})

    def test_help_fits_a_screen(self):
        scripts = [name for name in os.listdir(BENCH) if os.access(f"{BENCH}/{name}", os.X_OK) and name.endswith(".py") and name != "inputs.py"]
        self.assertGreater(len(scripts), 3)
        for name in scripts:
            done = self.run_script(name, "-h")
            lines = done.stdout.splitlines()
            self.assertEqual(done.returncode, 0, name)
            self.assertLessEqual(len(lines), 50, name)
            self.assertLessEqual(max(map(len, lines)), 100, name)

    def test_a_missing_program_or_topic_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("grep.py", "grep_random.py"):
                done = self.run_script(name, "--trial", "--out", folder, "--faultless", f"{folder}/none")
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertIn("no program", done.stderr)
            for words, said in (([], "no program"), (["nonsense"], "there is no topic nonsense")):
                done = self.run_script("take.py", "--trial", folder, "--faultless", f"{folder}/none", *words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
