"""Fast tests of gate.py: python3 -m unittest discover -s bench/tests -t bench"""
import contextlib, io, os, tempfile, unittest

import gate
from harness import record


def answer(now, over, site=""):
    figure = lambda name, value: {"figure": name, "now": value, "over": over, "budget": {"limit": 1010, "median": 1000, "min": 999, "max": 1001}}
    return {"figures": [figure("faults", now), figure("peak_rss_bytes", 5)], "growth": [{"site": site, "before": 1, "now": 2}] if site else []}


class Gate(unittest.TestCase):
    def test_a_function_is_named_as_itself_or_as_the_caller_and_not_by_a_part_of_its_name(self):
        self.assertTrue(gate.is_named("load_rows", "touched <- load_rows"))
        self.assertTrue(gate.is_named("grow_tree", "planted::grow_tree <- planted::main"))
        self.assertFalse(gate.is_named("index", "build_index <- main"))
        self.assertFalse(gate.is_named("walk", ""))

    def test_a_row_holds_the_growth_and_what_is_over(self):
        found = dict(zip(gate.FIELDS, gate.row("planted", "c-leak", 0, 1, answer(1060, True, "load_rows <- main"), "load_rows")))
        self.assertEqual((found["growth"], found["over"], found["named"]), (1.06, "faults peak_rss_bytes", 1))
        self.assertEqual(dict(zip(gate.FIELDS, gate.row("real", "gcc", 3, 0, answer(1000, False))))["named"], 0)

    def test_the_summary_counts_alarms_and_catches(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gate.csv")
            with open(path, "w") as file:
                file.write(",".join(gate.FIELDS) + "\n")
                for number, over in enumerate([False, True]):
                    file.write(",".join(map(str, gate.row("real", "gcc", number, int(over), answer(1000, over)))) + "\n")
                file.write(",".join(map(str, gate.row("planted", "c-leak", 0, 1, answer(1060, True, "load_rows"), "load_rows"))) + "\n")
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                gate.summary([path])
        lines = said.getvalue().splitlines()
        self.assertEqual(lines[1].split()[:3], ["gcc", "2", "1"])
        self.assertEqual(lines[-1].split(), ["c-leak", "6.0%", "yes", "yes", "load_rows"])

    def test_ten_regressions_and_five_programs(self):
        self.assertEqual((len(gate.PLANTED), len(gate.REAL)), (10, 5))


if __name__ == "__main__":
    unittest.main()
