"""The questions: files of SQL that both engines accept, with a head of comments.

`-- title:` and `-- unit:` are for the reader. `-- tables:` are read, `-- plot:` says how the page draws the rows, and
`-- with:` names a file whose text comes first.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "questions"
# In the order of a report: what it costs, why, what helps, then where and when.
ORDER = ["fleet", "services", "sites", "mechanisms", "savings", "releases", "release_sites", "kernels", "kinds", "days",
         "durations", "stacks"]


@dataclass(frozen=True)
class Question:
    """One question. `plot`: the kind of plot, then column names by role; empty for none."""
    name: str
    title: str
    unit: str
    tables: tuple
    sql: str
    plot: dict = field(default_factory=dict)


def load(name):
    """The question of this name."""
    text = (FOLDER / f"{name}.sql").read_text()
    head = dict(re.findall(r"^-- (\w+): (.*)$", text, re.MULTILINE))
    kind, *roles = head.get("plot", "none").split()
    plot = {} if kind == "none" else {"kind": kind, **dict(role.split("=") for role in roles)}
    before = (FOLDER / f"{head['with']}.sql").read_text() if "with" in head else ""
    return Question(name, head["title"], head["unit"], tuple(head["tables"].split(", ")), before + text, plot)
