"""The questions find what the generator planted, by DuckDB."""

import csv
import io
import unittest

import duckdb
import numpy

from support import answers, copied, file_of, fleet, planted, rewrite, run, same_rows, without_cpu_time

from faultless_fleet.questions import ORDER, load


class Planted(unittest.TestCase):
    def test_a_release_that_is_worse_is_found_with_its_ratio(self):
        fact = planted()["worse"]
        rows = answers(fleet(), "--ask", "releases", "--ask", "release_sites")[0]
        first = rows["releases"][0]
        self.assertEqual((first["service"], first["before_release"], first["after_release"]), (fact["service"], fact["before"], fact["after"]))
        self.assertEqual(first["verdict"], "worse")
        self.assertLess(first["ratio_low"], fact["ratio"])
        self.assertGreater(first["ratio_high"], fact["ratio"])
        self.assertEqual(rows["release_sites"][0]["service"], fact["service"])
        self.assertGreater(rows["release_sites"][0]["cores_more"], 3 * rows["release_sites"][1]["cores_more"])

    def test_releases_that_change_nothing_are_near_1(self):
        changed = {fact["service"] for key, fact in planted().items() if key != "kernel"}
        rows = [row for row in answers(fleet(), "--ask", "releases")[0]["releases"] if row["service"] not in changed]
        self.assertEqual(len(rows), 4)
        for row in rows:
            self.assertTrue(0.95 < row["ratio_high"] and row["ratio_low"] < 1.05, row)

    def test_a_cure_saves_what_was_estimated_before_it(self):
        fact = planted()["cured"]
        asked = ["--service", fact["service"]]
        best = answers(fleet(), *asked, "--until", "2026-11-02", "--ask", "savings")[0]["savings"][0]
        self.assertEqual((best["mechanism"], best["cure"]), (fact["mechanism"], fact["cure"]))
        self.assertLess(best["cores_low"], fact["cores"])
        self.assertGreater(best["cores_high"], fact["cores"])
        [after] = answers(fleet(), *asked, "--before", fact["before"], "--after", fact["after"], "--ask", "releases")[0]["releases"]
        self.assertEqual(after["verdict"], "better")
        self.assertLess(after["ratio_low"], fact["ratio"])
        self.assertGreater(after["ratio_high"], fact["ratio"])

    def test_a_kernel_that_is_dearer_is_found_on_each_processor(self):
        fact = planted()["kernel"]
        rows = answers(fleet(), "--ask", "kernels")[0]["kernels"]
        for cpu in {row["cpu"] for row in rows}:
            ratios = {row["kernel"]: row["ratio_to_fleet"] for row in rows if row["cpu"] == cpu}
            others = [ratio for kernel, ratio in ratios.items() if kernel != fact["kernel"]]
            self.assertAlmostEqual(ratios[fact["kernel"]] / (sum(others) / len(others)), fact["ratio"], delta=0.1)

    def test_all_tables_have_the_same_total(self):
        sums = "SELECT sum({}) FROM read_parquet('{}/{}/**/*.parquet')"
        total = {table: duckdb.sql(sums.format(column, fleet(), table)).fetchall()[0][0]
                 for table, column in {"runs": "fault_ns", "kinds": "time_ns", "sites": "time_ns", "samples": "fault_ns"}.items()}
        for table, value in total.items():
            self.assertAlmostEqual(value / total["runs"], 1, places=9, msg=table)


class Interval(unittest.TestCase):
    def test_it_holds_the_truth_in_99_of_100_services(self):
        """800 services of 6 hosts, each host with both releases of the same cost, loads and hosts that differ."""
        random = numpy.random.default_rng(7)
        services, hosts, runs = 800, 6, 4
        shape = (services, hosts, 2, runs)
        cpu = random.lognormal(0, 0.5, shape) * 1e12
        share = 0.1 * random.lognormal(0, 0.3, (services, hosts, 1, 1)) * random.lognormal(0, 0.1, (services, hosts, 2, 1)) * random.lognormal(0, 0.2, shape)
        service, host, later, _ = (axis.ravel() for axis in numpy.indices(shape))
        connection = duckdb.connect()
        rows = {"service": service, "host": host, "later": later, "cpu_ns": cpu.ravel().astype(int), "fault_ns": (cpu * share).ravel()}
        connection.register("made", __import__("pyarrow").table(rows))
        connection.execute("CREATE VIEW runs AS SELECT CAST(service AS VARCHAR) AS service, CAST(host AS VARCHAR) AS host, "
                           "CASE later WHEN 1 THEN 'b' ELSE 'a' END AS release, later AS begin, cpu_ns, cpu_ns AS wall_ns, fault_ns FROM made")
        connection.execute("CREATE TABLE asked (before_release VARCHAR, after_release VARCHAR)")
        sql = load("releases").sql.replace("LIMIT 10", "LIMIT 10000")
        verdicts = [row[-1] for row in connection.execute(sql).fetchall()]
        self.assertEqual(len(verdicts), services)
        wrong = sum(verdict != "no difference detected" for verdict in verdicts)
        self.assertLess(wrong / services, 0.02)


class Order(unittest.TestCase):
    def test_what_differs_by_a_rounding_is_in_the_order_of_its_names(self):
        """Each service on one host: all ratios are 1, but 49 / (49 * (1 / 49)) is a little more. Engines sum in any order."""
        connection = duckdb.connect()
        connection.execute("CREATE VIEW runs AS SELECT kernel AS service, kernel AS host, kernel, 'cpu' AS cpu, faults, 1.0::DOUBLE AS fault_ns, "
                           "1.0 AS fault_low_ns, 1.0 AS fault_high_ns FROM (VALUES ('a', 1), ('b', 49), ('c', 1)) AS made(kernel, faults)")
        rows = connection.execute(load("kernels").sql).fetchall()
        self.assertGreater(rows[1][-1], rows[0][-1])
        self.assertEqual([row[0] for row in rows], ["a", "b", "c"])


class Shares(unittest.TestCase):
    """Shares of the same runs, by the rates of each host."""

    def made(self, name, table, rows):
        """A question's rows on a fleet of a few runs."""
        connection = duckdb.connect()
        more = ", 'k' AS kernel, 'c' AS cpu, fault_ns AS fault_low_ns, fault_ns AS fault_high_ns"
        for view, text in {"runs": RUNS, **table}.items():
            columns = f"*{more}" if view == "runs" else "*"
            connection.execute(f"CREATE VIEW {view} AS SELECT {columns} FROM (VALUES {rows[view]}) AS made({text})")
        done = connection.execute(load(name).sql)
        return [dict(zip([column[0] for column in done.description], row)) for row in done.fetchall()]

    def test_runs_without_cpu_time_are_in_no_share(self):
        source = copied()
        for day in ("2026-11-02", "2026-11-03"):
            rewrite(file_of(source, "runs", "search", day), without_cpu_time)
        asked = ["--service", "search", "--ask", "sites", "--ask", "mechanisms"]
        found, wanted = answers(source, *asked)[0], answers(fleet(), *asked, "--until", "2026-11-01")[0]
        for question, rows in wanted.items():
            self.assertEqual(len(found[question]), len(rows))
            for row, other in zip(found[question], rows):
                same_rows(self, row, other)

    def test_a_day_has_the_percent_of_the_fleet_and_of_its_own_columns(self):
        # Half of one core on a host watched for 100 s, nothing of one core on a host watched for 1 s.
        rows = {"runs": "('2026-11-01', 's', 'a', '1', 100, 100, 50.0, 1, 0.0, true), "
                        "('2026-11-01', 's', 'b', '2', 1, 1, 0.0, 1, 0.0, true)"}
        [day], [whole] = self.made("days", {}, rows), self.made("fleet", {}, rows)
        self.assertEqual((day["percent_of_cpu"], whole["percent_of_cpu"]), (25, 25))
        self.assertEqual(day["percent_of_cpu"], 100 * day["cores_in_faults"] / day["cores"])

    def test_faults_without_times_do_not_make_the_others_cheaper(self):
        rows = {"runs": "('2026-11-01', 's', 'a', '1', 100, 100, 50.0, 10, 0.0, true), "
                        "('2026-11-01', 's', 'a', '2', 100, 100, NULL, 10, 0.0, true)",
                "kinds": "('s', 'a', '1', 'thp', 10.0, 50.0), ('s', 'a', '2', 'thp', 10.0, NULL)"}
        [kind] = self.made("kinds", {"kinds": "service, host, run, kind, faults, time_ns"}, rows)
        self.assertEqual((kind["ns_per_fault"], kind["seconds_per_day"]), (5, 86400 / 2))
        [kernel] = self.made("kernels", {}, rows)
        self.assertEqual((kernel["ns_per_fault"], kernel["ratio_to_fleet"]), (5, 1))

    def test_no_unit_says_the_fleet_where_services_are_asked_about(self):
        out = run("report", fleet(), "--service", "search", "--ask", "mechanisms", "--ask", "stacks")[1]
        self.assertIn("percent of the CPU time of all services asked about", out)
        self.assertIn("percent of the sampled time of all services asked about", out)


RUNS = "date, service, host, run, wall_ns, cpu_ns, fault_ns, faults, calls_ns, is_whole"


class Formats(unittest.TestCase):
    def test_one_question_is_plain_csv(self):
        status, out, _ = run("report", fleet(), "--ask", "services", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual((status, len(rows)), (0, 6))
        self.assertEqual(rows[0]["service"], "thumbnails")
        self.assertGreater(float(rows[0]["high"]), float(rows[0]["seconds_per_day"]))

    def test_many_questions_are_named_in_csv(self):
        out = run("report", fleet(), "--ask", "fleet", "--ask", "days", "--format", "csv")[1]
        self.assertEqual([line for line in out.splitlines() if line.startswith("#")], ["# fleet", "# days"])

    def test_text_has_each_title_and_unit(self):
        out = run("report", fleet())[1]
        for name in ORDER:
            self.assertIn(load(name).title, out)
            self.assertIn(load(name).unit, out)

    def test_dates_and_services_restrict_every_answer(self):
        rows = answers(fleet(), "--since", "2026-11-02", "--until", "2026-11-02", "--service", "search", "--ask", "fleet", "--ask", "days")[0]
        self.assertEqual((rows["fleet"][0]["services"], rows["fleet"][0]["days"]), (1, 1))
        self.assertEqual([row["date"] for row in rows["days"]], ["2026-11-02"])


if __name__ == "__main__":
    unittest.main()
