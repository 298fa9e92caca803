"""Fast tests of the topics: python3 -m unittest discover -s bench/tests -t bench"""
import importlib, unittest

import topics
from topics import accuracy


def answer(now, over, site=""):
    figure = lambda name, value: {"figure": name, "now": value, "over": over, "budget": {"limit": 1010, "median": 1000, "min": 999, "max": 1001}}
    return {"figures": [figure("faults", now), figure("peak_rss_bytes", 5)], "growth": [{"site": site, "before": 1, "now": 2}] if site else []}


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

    def test_a_row_of_gate_holds_the_growth_and_what_is_over(self):
        row = dict(zip(accuracy.GATE_FIELDS, accuracy.gate_row("planted", "c leak", 0, 1, answer(1060, True, "load_rows <- main"), "load_rows")))
        self.assertEqual((row["growth"], row["over"], row["named"]), (1.06, "faults peak_rss_bytes", 1))
        self.assertEqual(accuracy.gate_row("real", "gcc", 3, 0, answer(1000, False))[-1], 0)


if __name__ == "__main__":
    unittest.main()
