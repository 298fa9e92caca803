"""Questions -> answers, by any engine. A damaged file is found when a question fails, left out, and the question asked again.

An engine has `files`, `footers`, `damaged`, `show`, `ask_about`, `ask` and `close`: `duck` and `spark`.
"""

import datetime
from dataclasses import dataclass, field

from .dataset import LISTED, choose
from .errors import Problem, Unanswered
from .questions import Question, load

# A question is asked again after damaged files are left out: so often, since the first scan finds all.
ATTEMPTS = 3


@dataclass(frozen=True)
class Asked:
    """What the report is about. Empty: all."""
    since: str = ""
    until: str = ""
    services: tuple = ()
    releases: tuple = ()
    questions: tuple = ()

    def has(self, file):
        """Whether a file is of these dates and services."""
        return ((not self.since or file.date >= self.since) and (not self.until or file.date <= self.until)
                and (not self.services or file.service in self.services))


@dataclass
class Answer:
    """One question's rows: plain numbers, texts and None."""
    question: object
    columns: list
    rows: list


@dataclass
class Report:
    """All answers, and what could not be read."""
    source: str
    engine: str
    asked: Asked
    answers: list = field(default_factory=list)
    missing: list = field(default_factory=list)


def take(engine, source, asked, progress):
    """The report on `source`."""
    questions = [load(name) for name in asked.questions]
    tables = sorted({"runs"}.union(*(question.tables for question in questions)))
    progress.now("listing files and reading their footers")
    data = choose(engine, source, tables, asked)
    report = Report(source, engine.name, asked, missing=data.missing)
    if asked.releases:
        check_releases(engine, source, data, asked.releases)
    engine.ask_about(asked.releases)
    for number, question in enumerate(questions, 1):
        progress.now(f"{question.name}, {number} of {len(questions)} questions")
        report.answers.append(answer(engine, data, question))
    return report


def answer(engine, data, question):
    """The answer to one question, by the files that can be read."""
    for attempt in range(ATTEMPTS):
        files = data.common(question.tables)
        try:
            for table, chosen in files.items():
                engine.show(table, [file.path for file in chosen])
            columns, rows = engine.ask(question.sql)
            return Answer(question, columns, [tuple(map(plain, row)) for row in rows])
        except Unanswered as error:
            if attempt + 1 == ATTEMPTS or not leave_out_damaged(engine, data, files):
                raise Problem(f"{question.name}: {error}; no file is damaged: is there memory and disk enough? If so, please report it") from error
    raise AssertionError("every attempt returns or raises")


def leave_out_damaged(engine, data, files):
    """Whether there were damaged ones among `files`."""
    try:
        found = [(table, path, why) for table, chosen in files.items() if chosen
                 for path, why in engine.damaged(table, [file.path for file in chosen]).items()]
    except Unanswered:
        # The engine can't read at all: the first reason stands.
        return False
    for table, path, why in found:
        data.drop(table, path, why)
    return bool(found)


RELEASES = Question("releases of the runs", "", "", ("runs",), "SELECT DISTINCT release FROM runs WHERE release IS NOT NULL ORDER BY release")


def check_releases(engine, source, data, releases):
    """Fails if the runs have no such release."""
    known = [release for (release,) in answer(engine, data, RELEASES).rows]
    for release in releases:
        if release not in known:
            has = f"they have {', '.join(known[:LISTED])}{', ...' if len(known) > LISTED else ''}" if known else "none has one"
            raise Problem(f"no release '{release}' among the runs of {source}: {has}; `faultless export --release NAME` names it")


def plain(value):
    """A value as both engines give it."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, str)) else float(value)
