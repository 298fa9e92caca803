"""Figures as text, and tables of them. Rows of a record and figures in, Markdown out."""
import re, textwrap

from .figures import median


def grouped(value):
    return f"{value:,.0f}".replace(",", " ")


def digits(value):
    """Three digits, at least two of them after the point below 10."""
    return grouped(value) if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ranged(figure, scale=1, unit="", show=digits):
    value, low, high = (show(end * scale) for end in figure)
    return f"{value}{unit} ({low} to {high})"


def change(figure):
    """A ratio as a change in percent."""
    return ranged([end - 1 for end in figure], 100, " %", lambda value: re.sub(r"^[+-]0$", "0", f"{value:+.0f}"))


def extremes(values):
    return median(values), min(values), max(values)


def share(rows, **wanted):
    return f"{grouped(len(of(rows, **wanted)))} of {grouped(len(rows))}"


def of(rows, **wanted):
    return [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]


def numbers(rows, column, scale=1):
    return [float(row[column]) * scale for row in rows]


def middle(rows, column, scale=1):
    return median(numbers(rows, column, scale))


def table(head, rows, source=""):
    """A table; commas separate the cells of `head`, and the source goes into the first."""
    cells = [cell.strip() for cell in head.split(",")]
    cells[0] += source
    return "".join("|" + "|".join(map(str, row)) + "|\n" for row in [cells, ["---"] * len(cells), *rows])


def prose(text):
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False) + "\n"
