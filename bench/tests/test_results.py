"""Fast tests of what results.py stands on: the names of folders, figures as text, runs of `faultless compare --json`."""
import json, os, tempfile, unittest
from unittest import mock

from harness import record, tables
from harness.folders import Folder, Pair


class Results(unittest.TestCase):
    def test_a_folder_is_a_date_a_machine_and_what_sets_it_apart(self):
        found = [Folder(f"record/lab/2026-11-27-{name}") for name in ("epyc-2cpu", "epyc-2cpu-5", "epyc-2cpu-major", "tcg-612")]
        self.assertEqual([(folder.machine, folder.part) for folder in found],
                         [("epyc-2cpu", None), ("epyc-2cpu", None), ("epyc-2cpu", "major"), ("tcg-612", None)])
        self.assertLess(found[0].order, found[1].order)

    def test_figures_have_three_digits(self):
        self.assertEqual([tables.digits(value) for value in (0.123, 9.876, 12.34, 605310.2)], ["0.12", "9.88", "12.3", "605 310"])
        self.assertEqual(tables.change((1.001, 0.9, 1.25)), "0 % (-10 to +25)")
        self.assertEqual(tables.table("a, b", [[1, 2]]), "|a|b|\n|---|---|\n|1|2|\n")

    def test_runs_of_compare_are_paired_by_round(self):
        runs = lambda *walls: {"runs": [{"wall_ns": wall, "cpu_ns": wall, "faults": 7, "peak_rss_bytes": 4096} for wall in walls]}
        with tempfile.TemporaryDirectory() as root, mock.patch.object(record, "ROOT", root):
            os.makedirs(f"{root}/record/run/2026-11-27-epyc-2cpu")
            with open(f"{root}/record/run/2026-11-27-epyc-2cpu/gcc.json", "w") as file:
                json.dump({"commands": [runs(1e9, 10e9, 1e9), runs(2e9, 20e9, 2e9)]}, file)
            pair = Pair(Folder("record/run/2026-11-27-epyc-2cpu"), "gcc.json")
        self.assertEqual(pair.by_plain(1, lambda row: row["wall_s"]), (2.0, 2.0, 2.0))


if __name__ == "__main__":
    unittest.main()
