"""Fast tests of the random comparison: python3 -m unittest discover -s bench/tests -t bench"""
import os, random, tempfile, unittest

import grep_random
from harness.figures import cpu_s


def cell(ours, theirs, first=3):
    values = {"faultless": ours, "rg": theirs}
    return [{"to": "pipe", "round": str(first + at), "arm": arm, "wall_s": "0", "user_s": str(value), "sys_s": "0"} for arm, some in values.items() for at, value in enumerate(some)]


class Random(unittest.TestCase):
    def test_a_seed_gives_the_same_queries_of_every_kind(self):
        with tempfile.TemporaryDirectory() as tree:
            with open(os.path.join(tree, "a.c"), "w") as file:
                file.write("int main(void)\n{\n\treturn frobnicate(42);\n}\n" * 9)
            draw = lambda seed: list(grep_random.queries(tree, ["a.c"], 66, random.Random(seed)))
            self.assertEqual(draw(1), draw(1))
            self.assertNotEqual(draw(1), draw(2))
            self.assertEqual(len({kind for kind, *_ in draw(1)}), 11)

    def test_a_loss_needs_fresh_rounds_and_a_bound_above_the_limit(self):
        slow, fast = [1.1 + at % 3 / 100 for at in range(20)], [1.0] * 20
        self.assertEqual(grep_random.judged(cell(slow, fast), cpu_s)[2], True)
        self.assertEqual(grep_random.judged(cell(slow[:3], fast[:3], 0), cpu_s)[2], False)
        self.assertEqual(grep_random.judged(cell([1.01] * 20, fast), cpu_s)[2], False)

    def test_a_peer_that_leaves_out_much_takes_no_part(self):
        self.assertTrue(grep_random.is_same_work(1000, 985) and grep_random.is_same_work(3, 1))
        self.assertFalse(grep_random.is_same_work(1000, 900) or grep_random.is_same_work(2, 0))
        self.assertTrue(grep_random.is_peer("ugrep", "pipe") and grep_random.is_peer("rg", "null"))
        self.assertFalse(grep_random.is_peer("ugrep", "null") or grep_random.is_peer("faultless", "pipe"))


if __name__ == "__main__":
    unittest.main()
