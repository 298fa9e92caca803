"""Spark gives DuckDB's rows, and finds the same damage."""

import importlib.util
import re
import shutil
import unittest

from support import answers, copied, damage, faults_as_text, file_of, fleet, rewrite, same_rows, without_cpu_time

WHY = None if importlib.util.find_spec("pyspark") else "PySpark is not installed"
WHY = WHY or (None if shutil.which("java") else "there is no Java")


@unittest.skipIf(WHY, WHY)
class Spark(unittest.TestCase):
    def test_the_same_rows_from_both(self):
        wanted, found = answers(fleet())[0], answers(fleet(), "--engine", "spark", "--master", "local[2]")[0]
        for question, rows in wanted.items():
            self.assertEqual(len(found[question]), len(rows), question)
            for row, other in zip(found[question], rows):
                self.assertEqual(list(row), list(other))
                same_rows(self, row, other)

    def test_the_same_damage_by_both(self):
        source = copied()
        damage(file_of(source, "samples", "search"))
        file_of(source, "runs", "feed").write_bytes(b"PAR1 not at all PAR1")
        shutil.rmtree(file_of(source, "mechanisms", "login").parent)
        shutil.copytree(source / "runs/date=2026-11-02/service=feed", source / "runs/date=bogus/service=feed")
        rewrite(file_of(source, "kinds", "search"), lambda table: table.drop_columns(["faults"]))
        rewrite(file_of(source, "sites", "feed"), faults_as_text)
        rewrite(file_of(source, "runs", "login"), without_cpu_time)
        wanted, found = (answers(source, "--engine", engine) for engine in ("duckdb", "spark"))
        place = lambda document: sorted((entry["table"], re.sub("^file:/*", "/", entry["where"]), entry["why"].split(":")[0])
                                        for entry in document["incomplete"])
        self.assertEqual(place(wanted[1]), place(found[1]))
        self.assertEqual(len(place(found[1])), 6)
        for question, rows in wanted[0].items():
            for row, other in zip(found[0][question], rows):
                same_rows(self, row, other)


if __name__ == "__main__":
    unittest.main()
