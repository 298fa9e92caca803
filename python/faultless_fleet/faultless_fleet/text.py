"""Answers as text for a reader, as CSV and as JSON for programs."""

import csv
import io
import json

JSON_SCHEMA = 1


def figure(value):
    """A cell for a reader: three digits, thin groups."""
    if value is None:
        return "-"
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def heading(column):
    return column.replace("_", " ")


def about(asked):
    """What the report is restricted to, in words; "" if to nothing."""
    parts = [f"since {asked.since}" if asked.since else "", f"until {asked.until}" if asked.until else "",
             f"of {', '.join(asked.services)}" if asked.services else "",
             f"release {asked.releases[0]} before, {asked.releases[1]} after" if asked.releases else ""]
    return "; ".join(filter(None, parts))


def incomplete(report):
    """One line about what is missing; "" if nothing is."""
    count = len(report.missing)
    return f"incomplete: {count} {'part' if count == 1 else 'parts'} could not be read" if count else ""


def as_text(report):
    """Tables, one a question; the first row is the fleet."""
    blocks = ["\n".join(filter(None, [report.source, about(report.asked), incomplete(report)]))]
    blocks += [f"{answer.question.title}\n  {answer.question.unit}\n{table(answer)}" for answer in report.answers]
    return "\n\n".join(blocks) + "\n"


def table(answer):
    """Columns aligned: numbers to the right."""
    if not answer.rows:
        return "  nothing"
    rows = [list(map(heading, answer.columns))] + [list(map(figure, row)) for row in answer.rows]
    widths = [max(map(len, cells)) for cells in zip(*rows)]
    is_number = [all(row[at] is None or isinstance(row[at], (int, float)) for row in answer.rows) for at in range(len(widths))]
    line = lambda row: "  " + "  ".join(
        cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, is_number)).rstrip()
    return "\n".join(map(line, rows))


def as_csv(report):
    """A block a question. More than one question: each block has its name above and a blank line below."""
    out = io.StringIO()
    if report.missing:
        out.write(f"# {incomplete(report)}\n")
    for answer in report.answers:
        if len(report.answers) > 1:
            out.write(f"# {answer.question.name}\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
        if len(report.answers) > 1:
            out.write("\n")
    return out.getvalue()


def as_json(report):
    """The whole report."""
    asked = report.asked
    document = {
        "schema": JSON_SCHEMA, "source": report.source, "engine": report.engine,
        "since": asked.since or None, "until": asked.until or None, "services": list(asked.services),
        "releases": list(asked.releases), "is_complete": not report.missing,
        "incomplete": [{"table": entry.table, "where": entry.where, "why": entry.why,
                        "left_out": entry.left_out or None} for entry in report.missing],
        "answers": [{"question": answer.question.name, "title": answer.question.title, "unit": answer.question.unit,
                     "columns": answer.columns, "rows": answer.rows} for answer in report.answers],
    }
    return json.dumps(document, indent=2) + "\n"
