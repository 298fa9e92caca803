"""What the tests share: the program run inside this process, and one small fleet."""

import atexit
import contextlib
import functools
import io
import json
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent
sys.path.insert(0, str(PACKAGE))

import pyarrow.compute  # noqa: E402  (the path is set above)
from pyarrow import parquet  # noqa: E402

from faultless_fleet.cli import main  # noqa: E402
from faultless_fleet.schema import TABLES, VERSION, VERSION_KEY  # noqa: E402

SMALL = ["--hosts", "18", "--days", "3", "--services", "6", "--samples", "24"]


def run(*words):
    """Status, standard output, standard error."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), error.getvalue()


def answers(source, *words):
    """Question -> its rows as dictionaries, by column; and the whole document."""
    status, out, error = run("report", source, "--format", "json", *words)
    assert status in (0, 1), (status, error)
    document = json.loads(out)
    return {answer["question"]: [dict(zip(answer["columns"], row)) for row in answer["rows"]] for answer in document["answers"]}, document


def folder():
    """A folder that is gone when the tests end."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="faultless-fleet-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def fleet():
    """A small fleet that no test changes."""
    path = folder() / "fleet"
    status, _, error = run("generate", *SMALL, path)
    assert status == 0, error
    return path


def planted():
    return json.loads((fleet() / "planted.json").read_text())


def copied():
    """A copy that a test may damage."""
    path = folder() / "fleet"
    shutil.copytree(fleet(), path)
    return path


def file_of(source, table, service, day="2026-11-02"):
    return source / table / f"date={day}" / f"service={service}" / "part-0.parquet"


def damage(path):
    """Overwrites the middle of a file: its footer stays good."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 3
    content[middle:middle + 2000] = b"\xa5" * 2000
    path.write_bytes(content)


def rewrite(path, change=lambda table: table, version=VERSION):
    """Writes a file again, with a changed table or of another schema version."""
    table = change(parquet.read_table(path, partitioning=None))
    parquet.write_table(table.replace_schema_metadata({VERSION_KEY: version}), path, compression="zstd")


def without_cpu_time(table):
    return replaced(table, "cpu_ns", pyarrow.nulls(len(table), pyarrow.int64()))


def faults_as_text(table):
    return replaced(table, "faults", table["faults"].cast("string"))


def replaced(table, name, values):
    return table.set_column(table.schema.get_field_index(name), name, values)


def as_exported(source):
    """The same records as `export` writes them: the host and the run in the path, names percent-encoded."""
    target = folder() / "exported"
    for path in source.glob("*/*/*/*.parquet"):
        table = parquet.read_table(path, partitioning=None)
        place = target / path.relative_to(source).parent
        for host in table["host"].unique().to_pylist():
            of_host = table.filter(pyarrow.compute.equal(table["host"], host)).drop_columns(["host"])
            (place / f"host={host}").mkdir(parents=True)
            for run_id in of_host["run"].unique().to_pylist():
                chosen = of_host.filter(pyarrow.compute.equal(of_host["run"], run_id))
                chosen = chosen.replace_schema_metadata({VERSION_KEY: VERSION})
                parquet.write_table(chosen, place / f"host={host}" / f"{run_id}.parquet")
    return target


def same_rows(test, row, other):
    for name, value in other.items():
        if isinstance(value, float):
            test.assertAlmostEqual(row[name], value, delta=abs(value) * 1e-9)
        else:
            test.assertEqual(row[name], value)
