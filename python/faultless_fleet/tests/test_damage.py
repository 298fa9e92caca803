"""What is lost, damaged or asked wrongly is named, and the rest answered."""

import itertools
import shutil
import unittest

import pyarrow

from support import (TABLES, answers, as_exported, copied, damage, faults_as_text, file_of, fleet, folder, rewrite, run,
                     same_rows)

DAY = ["--since", "2026-11-02", "--until", "2026-11-02"]
TEXT = ["--ask", "services", "--ask", "sites", "--ask", "stacks"]


class Damage(unittest.TestCase):
    def check(self, source, table, path, why, engine="duckdb"):
        status, out, error = run("report", source, *TEXT, "--engine", engine)
        self.assertEqual(status, 1, error)
        self.assertIn("incomplete: 1 part could not be read", out)
        [line] = [line for line in error.splitlines() if table in line and why in line]
        self.assertIn(str(path), line)
        self.assertIn("search", out)

    def test_a_lost_partition(self):
        source = copied()
        shutil.rmtree(file_of(source, "sites", "search").parent)
        self.check(source, "sites", "date=2026-11-02/service=search", "lost")

    def test_a_lost_partition_does_not_change_what_a_host_costs(self):
        source = copied()
        file_of(source, "runs", "feed").unlink()
        rows = answers(source, "--service", "feed", "--ask", "services", "--ask", "sites")[0]
        whole = answers(fleet(), "--service", "feed", "--ask", "services", "--ask", "sites")[0]
        for question in rows:
            for row, wanted in zip(rows[question][:3], whole[question][:3]):
                self.assertAlmostEqual(row["seconds_per_day"] / wanted["seconds_per_day"], 1, delta=0.1)

    def test_a_lost_day(self):
        source = copied()
        for path in source.glob("*/date=2026-11-02"):
            shutil.rmtree(path)
        self.check(source, "runs", "date=2026-11-02", "lost")

    def test_a_lost_table(self):
        source = copied()
        shutil.rmtree(source / "frames")
        self.check(source, "frames", "frames", "lost")

    def test_a_truncated_file(self):
        source = copied()
        path = file_of(source, "runs", "search")
        path.write_bytes(path.read_bytes()[:500])
        self.check(source, "runs", path, "damaged")

    def test_an_empty_file(self):
        source = copied()
        path = file_of(source, "samples", "feed")
        path.write_bytes(b"")
        self.check(source, "samples", path, "damaged")

    def test_a_file_damaged_in_its_middle(self):
        source = copied()
        path = file_of(source, "samples", "search")
        damage(path)
        self.check(source, "samples", path, "damaged")

    def test_another_schema_version(self):
        source = copied()
        path = file_of(source, "runs", "search")
        rewrite(path, version="1")
        self.check(source, "runs", path, "schema version 1; this program reads version 2")
        self.assertEqual(run("report", source, "--service", "search", "--since", "2026-11-02", "--until", "2026-11-02", "--ask", "services")[0], 2)

    def test_a_column_that_is_not_there(self):
        source = copied()
        path = file_of(source, "runs", "search")
        rewrite(path, lambda table: table.drop_columns(["calls_ns", "begin"]))
        self.check(source, "runs", path, "damaged: no column `begin`, and 1 more")

    def test_a_column_of_another_type(self):
        source = copied()
        path = file_of(source, "samples", "search")
        rewrite(path, faults_as_text)
        self.check(source, "samples", path, "damaged: column `faults` is STRING and should be DOUBLE")

    def test_a_new_column_and_a_nested_one_do_no_harm(self):
        source = copied()
        nested = lambda table: pyarrow.array([{"run": 1, "list": [1.0]}] * len(table))
        rewrite(file_of(source, "runs", "search"), lambda table: table.append_column("later", nested(table)))
        self.assertEqual(run("report", source, *TEXT)[0], 0)

    def test_a_folder_whose_date_is_none(self):
        for name in ("bogus", "20261102", "2026-02-30", "__HIVE_DEFAULT_PARTITION__"):
            source = copied()
            shutil.copytree(source / "runs/date=2026-11-02/service=search", source / f"runs/date={name}/service=search")
            self.check(source, "runs", f"date={name}/service=search", f"wrong: date={name} is none: it must be YYYY-MM-DD")
            self.assertEqual(run("report", source, "--service", "feed", "--ask", "days")[0], 0)

    def test_a_folder_without_a_service_and_a_stray_file(self):
        source = copied()
        place = source / "runs/date=2026-11-02/service=search"
        place.rename(place.with_name("service=__HIVE_DEFAULT_PARTITION__"))
        shutil.copy(file_of(source, "runs", "feed"), source / "runs")
        status, out, error = run("report", source, *TEXT)
        self.assertEqual(status, 1, error)
        for text in ("wrong: no service=NAME", "wrong: no date=YYYY-MM-DD"):
            self.assertIn(text, error)

    def test_what_is_left_out_is_said(self):
        source = copied()
        path = file_of(source, "sites", "search")
        path.write_bytes(b"")
        self.check(source, "sites", path, "; questions that read sites leave out date=2026-11-02/service=search")
        [entry] = answers(source, "--ask", "sites")[1]["incomplete"]
        self.assertEqual(entry["left_out"], "questions that read sites leave out date=2026-11-02/service=search")

    def test_json_and_the_page_say_incomplete(self):
        source, page = copied(), folder() / "page.html"
        file_of(source, "runs", "search").unlink()
        document = answers(source, "--ask", "services", "--html", page)[1]
        self.assertFalse(document["is_complete"])
        self.assertEqual(document["incomplete"][0]["where"], "date=2026-11-02/service=search")
        self.assertIn("incomplete: 1 part could not be read", page.read_text())


class Wrong(unittest.TestCase):
    """One line on standard error, with the remedy, and status 2."""

    def check(self, words, *said):
        status, out, error = run("report", *words)
        self.assertEqual((status, out), (2, ""), error)
        for text in said:
            self.assertIn(text, error)
        self.assertEqual(len(error.strip().splitlines()), 1, error)

    def test_no_folder(self):
        self.check(["/no/such/folder"], "no records", "faultless export --format parquet")

    def test_an_empty_folder(self):
        self.check([folder()], "no records", "faultless export --format parquet")

    def test_dates_without_records(self):
        self.check([fleet(), "--since", "2026-12-01"], "it has 2026-11-01 to 2026-11-03", "change --since or --until")

    def test_dates_in_the_wrong_order(self):
        self.check([fleet(), "--since", "2026-11-03", "--until", "2026-11-01"], "swap them")

    def test_an_unknown_service(self):
        self.check([fleet(), "--service", "nosuch"], "no service 'nosuch'", "checkout, feed")

    def test_an_unknown_release(self):
        self.check([fleet(), "--service", "checkout", "--before", "7.3", "--after", "it's 9"], "no release 'it's 9'", "7.3, 7.4")

    def test_one_release_alone(self):
        self.check([fleet(), "--before", "7.3"], "--before and --after belong together")

    def test_a_master_for_duckdb(self):
        self.check([fleet(), "--master", "local[2]"], "add --engine spark")

    def test_no_date(self):
        status, _, error = run("report", fleet(), "--since", "yesterday")
        self.assertEqual(status, 2)
        self.assertIn("write YYYY-MM-DD", error)

    def test_a_page_that_cannot_be_written(self):
        self.check([fleet(), "--ask", "fleet", "--html", "/no/such/folder/page.html"], "No such file or directory")


class Runs(unittest.TestCase):
    """One run a file, as `export` writes: what a run lost takes no other run with it."""

    def setUp(self):
        part = folder()
        for table in ("runs", "sites"):
            target = file_of(part, table, "search")
            target.parent.mkdir(parents=True)
            shutil.copy(file_of(fleet(), table, "search"), target)
        self.source = as_exported(part)
        self.path = min(self.source.glob("sites/*/*/*/*.parquet"))
        self.place = f"date=2026-11-02/service=search/{self.path.parent.name}"

    def check(self, why):
        """The run is named as left out, and all the others are answered."""
        status, out, error = run("report", self.source, "--ask", "sites")
        self.assertEqual(status, 1, error)
        [line] = error.splitlines()
        self.assertIn(why, line)
        self.assertIn(f"; questions that read sites leave out {self.place}/run={self.path.stem}", line)
        [row, *_] = answers(self.source, "--ask", "sites")[0]["sites"]
        [wanted, *_] = answers(fleet(), *DAY, "--service", "search", "--ask", "sites")[0]["sites"]
        self.assertEqual(row["hosts"], wanted["hosts"])
        self.assertNotEqual(row["seconds_per_day"], wanted["seconds_per_day"])
        self.assertAlmostEqual(row["seconds_per_day"] / wanted["seconds_per_day"], 1, delta=0.05)

    def test_a_damaged_run(self):
        self.path.write_bytes(b"")
        self.check(f"{self.path}: damaged")

    def test_a_lost_run(self):
        self.path.unlink()
        self.check("lost")

    def test_a_lost_host_is_named_once(self):
        shutil.rmtree(self.path.parent)
        [line] = run("report", self.source, "--ask", "sites")[2].splitlines()
        self.assertTrue(line.endswith(f"leave out {self.place}"), line)


class Layouts(unittest.TestCase):
    def test_the_host_in_some_paths_gives_the_same_answers(self):
        """As `export` writes one of the services: the host in the path, names percent-encoded, one run a file."""
        whole = folder()
        for table, service in itertools.product(TABLES, ("feed", "search")):
            target = file_of(whole, table, service)
            target.parent.mkdir(parents=True)
            shutil.copy(file_of(fleet(), table, service), target)
        source = as_exported(whole)
        for place in source.glob("*/*/service=feed"):
            place.rename(place.with_name("service=feed%2Feu%20west"))
        for place in source.glob("*/*/service=search"):
            shutil.rmtree(place)
            shutil.copytree(whole / place.relative_to(source), place)
        rows, wanted = (answers(of, *TEXT)[0] for of in (source, whole))
        for question in wanted:
            for row, other in zip(rows[question], wanted[question], strict=True):
                self.assertEqual(row["service"], other["service"].replace("feed", "feed/eu west"))
                same_rows(self, row | {"service": 0}, other | {"service": 0})
        self.assertEqual(run("report", source, "--service", "feed/eu west", "--ask", "fleet")[0], 0)


if __name__ == "__main__":
    unittest.main()
