"""The page: well formed, self-contained, escaped."""

import html.parser
import unittest

from support import fleet, folder, run

from faultless_fleet.page import as_html
from faultless_fleet.questions import ORDER, Question, load
from faultless_fleet.report import Answer, Asked, Report

VOID = {"meta", "rect", "line", "circle"}


class Balance(html.parser.HTMLParser):
    """Fails on a tag that is not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        assert not {"src", "href"} & dict(attributes).keys(), "the page loads nothing"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, tag


class Page(unittest.TestCase):
    def test_it_has_every_question_and_loads_nothing(self):
        path = folder() / "page.html"
        self.assertEqual(run("report", fleet(), "--html", path)[0], 0)
        text, balance = path.read_text(), Balance()
        balance.feed(text)
        self.assertEqual(balance.open, [])
        self.assertEqual(balance.seen.count("svg"), len(ORDER) - 1)
        self.assertNotIn("<script", text)
        for name in ORDER:
            self.assertIn(load(name).title, text)

    def test_names_from_the_data_are_escaped(self):
        question = Question("x", "A & B", "unit", ("runs",), "", {"kind": "bars", "label": "function", "value": "value"})
        report = Report("<src>", "duckdb", Asked(), [Answer(question, ["function", "value"], [("<b>operator<</b>", 1.0), (None, 0.0)])], [])
        text = as_html(report)
        self.assertIn("&lt;b&gt;operator&lt;&lt;/b&gt;", text)
        self.assertNotIn("<b>", text)


if __name__ == "__main__":
    unittest.main()
