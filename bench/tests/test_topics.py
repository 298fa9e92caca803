"""Fast tests of the topics: python3 -m unittest discover -s bench/tests -t bench"""
import contextlib, gzip, importlib, io, json, os, tempfile, unittest

import topics
from topics import accuracy


def answer(now, over, site=""):
    figure = lambda name, value: {"figure": name, "now": value, "over": over, "budget": {"limit": 1010, "median": 1000, "min": 999, "max": 1001}}
    return {"figures": [figure("faults", now), figure("peak_rss_bytes", 5)], "growth": [{"site": site, "before": 1, "now": 2}] if site else []}


def printed(topic, name, text):
    """The summary of a file, line by line."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        with gzip.open(os.path.join(folder, name), "wt") as file:
            file.write(text)
        topics.TOPICS[topic].summary([os.path.join(folder, name)])
    return said.getvalue().splitlines()


class Topics(unittest.TestCase):
    def setUp(self):
        for name in topics.MODULES:
            importlib.import_module(f"topics.{name}")

    def test_every_topic_says_in_one_line_what_it_asks(self):
        self.assertGreater(len(topics.TOPICS), 10)
        for name, topic in topics.TOPICS.items():
            self.assertTrue(0 < len(topic.take.__doc__.splitlines()[0]) < 120, name)

    def test_a_function_is_named_as_itself_or_as_the_caller_and_not_by_a_part_of_its_name(self):
        self.assertTrue(accuracy.is_named("load_rows", "touched <- load_rows"))
        self.assertTrue(accuracy.is_named("grow_tree", "planted::grow_tree <- planted::main"))
        self.assertFalse(accuracy.is_named("index", "build_index <- main") or accuracy.is_named("walk", ""))

    def test_the_summary_of_gate_counts_alarms_and_catches(self):
        rows = [accuracy.gate_row("real", "gcc", number, int(over), answer(1000, over)) for number, over in enumerate([False, True])]
        rows.append(accuracy.gate_row("planted", "c leak", 0, 1, answer(1060, True, "load_rows"), "load_rows"))
        self.assertEqual(dict(zip(accuracy.GATE_FIELDS, rows[2]))["over"], "faults peak_rss_bytes")
        lines = printed("gate", "gate.csv.gz", "\n".join(",".join(map(str, row)) for row in [accuracy.GATE_FIELDS, *rows]) + "\n")
        self.assertEqual(lines[1].split()[:3], ["gcc", "2", "1"])
        self.assertEqual(lines[-1].split(), ["c", "leak", "6.0%", "yes", "yes", "load_rows"])

    def test_the_summary_of_pairs_shows_the_ratios_of_compare(self):
        quantity = lambda ratio: {"median": {"value": 2e6, "low": 0, "high": 0}, "ratio": ratio and {"value": ratio, "low": 0.4, "high": 0.6}}
        command = lambda name, ratio: {"command": name, **{key: quantity(ratio) for key in ("wall_ns", "cpu_ns", "faults", "peak_rss_bytes")}}
        lines = printed("run", "sort.json.gz", json.dumps({"rounds": 8, "commands": [command("sort", None), command("pool", 0.5)]}))
        self.assertEqual(lines[0], "sort: 8 rounds")
        self.assertIn("0.500 [0.400 0.600]", lines[-1])


if __name__ == "__main__":
    unittest.main()
