"""Rows -> inline SVG. Positions across are percentages, so a plot fits any width and its text keeps its size.

Colours are classes of the page's style sheet: they follow light and dark.
"""

import math
from html import escape

from .text import figure

ROW_PX, BAR_PX, BASELINE_PX = 40, 12, 14
COLUMNS_PX, FOOT_PX, HEAD_PX = 160, 20, 18
# Most labels below columns, so that they don't run into each other at 500 px.
LABELS = 7


def draw(answer):
    """The plot of an answer; "" if it has none."""
    plot = answer.question.plot
    if not answer.rows or plot.get("kind") not in KINDS:
        return ""
    rows = [dict(zip(answer.columns, row)) for row in answer.rows]
    return KINDS[plot["kind"]](answer.question.title, plot, rows)


def svg(title, height, body):
    return f'<svg role="img" aria-label="{escape(title)}" width="100%" height="{height}">{"".join(body)}</svg>'


def label(row, plot):
    """A row's name and what stands behind it in grey."""
    detail = row.get(plot.get("detail"))
    more = f' <tspan class="faint">{escape(str(detail))}</tspan>' if detail is not None else ""
    return escape(str(row[plot["label"]])) + more


def line_of(at, row, plot, said):
    """The text above a bar: the name to the left, the figure to the right."""
    y = at * ROW_PX + BASELINE_PX
    return [f'<text x="0" y="{y}">{label(row, plot)}</text>', f'<text x="100%" y="{y}" class="figure">{said}</text>']


def bars(title, plot, rows):
    """Bars from 0, with whiskers from low to high."""
    most = max(max(row[plot["value"]] or 0, row.get(plot.get("high")) or 0) for row in rows) or 1
    body = []
    for at, row in enumerate(rows):
        value, y = row[plot["value"]] or 0, at * ROW_PX + BASELINE_PX + 5
        body += line_of(at, row, plot, spanned(row, plot))
        body.append(f'<rect class="bar" x="0" y="{y}" width="{100 * max(value, 0) / most:.2f}%" height="{BAR_PX}"/>')
        if row.get(plot.get("high")) is not None:
            body += whisker(100 * row[plot["low"]] / most, 100 * row[plot["high"]] / most, y)
    return svg(title, len(rows) * ROW_PX, body)


def ranges(title, plot, rows):
    """A bar from low to high."""
    most = max(row[plot["high"]] for row in rows) or 1
    body = []
    for at, row in enumerate(rows):
        low, high, y = row[plot["low"]], row[plot["high"]], at * ROW_PX + BASELINE_PX + 5
        body += line_of(at, row, plot, f"{figure(low)} to {figure(high)}")
        body.append(f'<rect class="track" x="0" y="{y}" width="100%" height="{BAR_PX}"/>')
        body.append(f'<rect class="bar" x="{100 * low / most:.2f}%" y="{y}" width="{max(100 * (high - low) / most, 0.5):.2f}%" height="{BAR_PX}"/>')
    return svg(title, len(rows) * ROW_PX, body)


def ratios(title, plot, rows):
    """Ratios with intervals, on a logarithmic axis around 1."""
    ends = [row[key] for row in rows for key in (plot["value"], plot["low"], plot["high"]) if row[key]]
    reach = 1.05 * max(abs(math.log(end)) for end in ends) or 1
    place = lambda ratio: 50 + 50 * math.log(ratio) / reach
    body = [f'<line class="one" x1="50%" x2="50%" y1="0" y2="{len(rows) * ROW_PX}"/>']
    for at, row in enumerate(rows):
        y = at * ROW_PX + BASELINE_PX + 5
        body += line_of(at, row, plot, spanned(row, plot))
        body.append(f'<rect class="track" x="0" y="{y}" width="100%" height="{BAR_PX}"/>')
        if row[plot["low"]]:
            body += whisker(place(row[plot["low"]]), place(row[plot["high"]]), y)
        body.append(f'<circle class="bar" cx="{place(row[plot["value"]]):.2f}%" cy="{y + BAR_PX / 2:.0f}" r="5"/>')
    return svg(title, len(rows) * ROW_PX, body)


def columns(title, plot, rows):
    """Columns side by side, with a second series beside the first if the plot names one."""
    series = [plot[key] for key in ("value", "second") if key in plot]
    most = max(row[name] or 0 for row in rows for name in series) or 1
    slot, every, body = 100 / len(rows), math.ceil(len(rows) / LABELS), []
    for at, row in enumerate(rows):
        width = min(slot * 0.8, 16) / len(series)
        left = (at + 0.5) * slot - width * len(series) / 2
        for number, name in enumerate(series):
            height = COLUMNS_PX * (row[name] or 0) / most
            body.append(f'<rect class="{("bar", "second")[number]}" x="{left + number * width:.2f}%" '
                        f'y="{HEAD_PX + COLUMNS_PX - height:.1f}" width="{width * 0.94:.2f}%" height="{height:.1f}">'
                        f'<title>{escape(str(row[plot["label"]]))}: {figure(row[name])}</title></rect>')
        if at % every == 0:
            body.append(f'<text class="below" x="{(at + 0.5) * slot:.2f}%" y="{HEAD_PX + COLUMNS_PX + 16}">{tick(row[plot["label"]])}</text>')
    body.append(f'<line class="axis" x1="0" x2="100%" y1="{HEAD_PX + COLUMNS_PX}" y2="{HEAD_PX + COLUMNS_PX}"/>')
    body.append(f'<text class="faint" x="0" y="12">{legend(series)}; highest {figure(most)}</text>')
    return svg(title, HEAD_PX + COLUMNS_PX + FOOT_PX, body)


def legend(series):
    marks = [f'<tspan class="mark {name}">&#9632;</tspan> {escape(word.replace("_", " "))}' for name, word in zip(("bar", "second"), series)]
    return ", ".join(marks)


def tick(value):
    """A date without its year, a number as short as it is."""
    return escape(value[5:]) if isinstance(value, str) else f"{value:g}"


def spanned(row, plot):
    """Value (low to high)."""
    low, high = row.get(plot.get("low")), row.get(plot.get("high"))
    return figure(row[plot["value"]]) + (f" ({figure(low)} to {figure(high)})" if high is not None else "")


def whisker(low, high, y):
    middle = y + BAR_PX // 2
    return [f'<line class="whisker" x1="{low:.2f}%" x2="{min(high, 100):.2f}%" y1="{middle}" y2="{middle}"/>']


KINDS = {"bars": bars, "ranges": ranges, "ratios": ratios, "columns": columns}
