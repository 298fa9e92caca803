"""The report as one HTML page: no script, nothing loaded, light and dark."""

from html import escape
from pathlib import Path

from .plots import draw
from .text import about, figure, heading, incomplete

STYLE = (Path(__file__).parent / "page.css").read_text()


def as_html(report):
    """The whole page."""
    head = f"<h1>Page faults of the fleet</h1><p>{escape(report.source)}{escape(after(about(report.asked)))}</p>"
    body = "".join(map(section, report.answers))
    return ("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, "
            f"initial-scale=1\"><title>Page faults of the fleet</title><style>\n{STYLE}</style></head>\n<body>{head}{warning(report)}"
            f"{body}</body></html>\n")


def after(text):
    return f": {text}" if text else ""


def warning(report):
    """What is missing."""
    if not report.missing:
        return ""
    entries = "".join(f"<li>{escape(str(entry))}</li>" for entry in report.missing)
    return f'<div class="warn"><strong>{escape(incomplete(report))}</strong><ul>{entries}</ul></div>'


def section(answer):
    """A question: title, unit, plot, and the rows below it."""
    question = answer.question
    head = f"\n<section><h2>{escape(question.title)}</h2><p>{escape(question.unit)}</p>"
    if question.plot.get("kind") == "facts":
        return head + facts(answer) + "</section>"
    plot = draw(answer)
    rows = f"<details{'' if plot else ' open'}><summary>{len(answer.rows)} rows</summary>{table(answer)}</details>"
    return head + plot + (rows if answer.rows else "<p>nothing</p>") + "</section>"


def facts(answer):
    """One row as a grid of figures."""
    pairs = zip(answer.columns, answer.rows[0] if answer.rows else [])
    return "<dl>" + "".join(f"<div><dt>{heading(name)}</dt><dd>{figure(value)}</dd></div>" for name, value in pairs) + "</dl>"


def table(answer):
    cells = lambda row: "".join(cell(value) for value in row)
    head = "".join(f"<th>{heading(name)}</th>" for name in answer.columns)
    rows = "".join(f"<tr>{cells(row)}</tr>" for row in answer.rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


def cell(value):
    if isinstance(value, str):
        return f'<td title="{escape(value)}">{escape(value)}</td>'
    return f'<td class="number">{figure(value)}</td>'
