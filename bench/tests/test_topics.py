"""Fast tests of the topics: python3 -m unittest discover -s bench/tests -t bench"""
import importlib, unittest

import topics
from topics import accuracy, mechanisms


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

    def test_a_program_is_right_by_its_first_mechanism_and_one_without_by_none_of_weight(self):
        named = lambda *found: [{"id": id, "share": share} for id, share in found]
        program = mechanisms.Program("x", "own_mapping", "x", ("first_touch",))
        column = dict(zip(mechanisms.FIELDS[1:], mechanisms.row(program, named(("own_mapping", 0.5), ("first_touch", 0.2), ("file_pages", 0.11)))))
        self.assertEqual((column["right"], column["others"]), (1, "file_pages"))
        self.assertEqual(mechanisms.row(program, named(("first_touch", 0.5), ("own_mapping", 0.4)))[4:6], [0, ""])
        without = mechanisms.Program("y", None, "y")
        self.assertEqual([mechanisms.row(without, named(("file_pages", share)))[4] for share in (0.05, 0.2)], [1, 0])
        self.assertEqual(mechanisms.row(without, [])[1:5], ["", "", 0.0, 1])

    def test_each_mechanism_has_two_programs(self):
        wanted = [program.id for program in mechanisms.PROGRAMS_WITH]
        self.assertGreaterEqual(len(set(wanted)), 25)
        self.assertTrue(all(wanted.count(id) >= 2 for id in wanted), wanted)


if __name__ == "__main__":
    unittest.main()
