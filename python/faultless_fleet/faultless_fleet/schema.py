"""Schema version 2 of the columnar records, as `faultless export --format parquet` writes them.

A data set is a folder: `TABLE/date=YYYY-MM-DD/service=NAME/host=NAME/RUN.parquet`. Where many runs share a file,
`host` is a column of the file and no part of the path. Types are words that DuckDB and Spark both know.
"""

VERSION = "2"
# Key-value metadata of each file.
VERSION_KEY = "faultless.schema"

PARTITIONS = {"date": "DATE", "service": "STRING", "host": "STRING"}

_TIMES = "low_ns DOUBLE, time_ns DOUBLE, high_ns DOUBLE, wait_ns DOUBLE"
_TABLES = {
    "runs": "run STRING, begin TIMESTAMP, wall_ns BIGINT, cpu_ns BIGINT, command STRING, release STRING, kernel STRING, "
            "cpu STRING, cpus INT, thp STRING, is_guest BOOLEAN, build_id STRING, processes INT, faults BIGINT, "
            "major_faults BIGINT, fault_low_ns DOUBLE, fault_ns DOUBLE, fault_high_ns DOUBLE, wait_ns DOUBLE, calls_ns DOUBLE, "
            "avoidable_low DOUBLE, avoidable_high DOUBLE, kept_bytes BIGINT, peak_rss_bytes BIGINT, is_whole BOOLEAN",
    "kinds": "run STRING, kind STRING, faults DOUBLE, time_ns DOUBLE, wait_ns DOUBLE",
    "sites": "run STRING, function STRING, caller STRING, module STRING, build_id STRING, place STRING, faults DOUBLE, " + _TIMES,
    "mechanisms": "run STRING, mechanism STRING, what STRING, faults DOUBLE, " + _TIMES + ", calls_ns DOUBLE, "
                  "cure STRING, saves_low_ns DOUBLE, saves_high_ns DOUBLE, keeps_bytes BIGINT",
    "samples": "run STRING, time_ns BIGINT, pid INT, tid INT, kind STRING, stack BIGINT, faults DOUBLE, fault_ns DOUBLE, wait_ns DOUBLE",
    "frames": "run STRING, stack BIGINT, depth INT, function STRING, module STRING, build_id STRING, address BIGINT, "
              "file STRING, line INT",
    "prices": "run STRING, kind STRING, low_ns DOUBLE, price_ns DOUBLE, high_ns DOUBLE",
}
# Table -> column -> type.
TABLES = {name: dict(column.split() for column in text.split(", ")) for name, text in _TABLES.items()}


def columns(table):
    """Column -> type, the partitions' included."""
    return TABLES[table] | PARTITIONS


# A column's type in a Parquet file -> the word for it.
_WORDS = {"BYTE_ARRAY": "BYTES", "INT64": "BIGINT", "INT32": "INT", "INT96": "TIMESTAMP"}


def word(physical, annotation):
    """The word for a column of a file: its physical type, and what it is annotated as, in either engine's words."""
    annotation = annotation.upper()
    for name, begin in (("STRING", "STRING"), ("STRING", "UTF8"), ("TIMESTAMP", "TIMESTAMP")):
        if annotation.startswith(begin):
            return name
    kind = _WORDS.get(physical, physical)
    # Whole numbers may be annotated with their width.
    return kind if not annotation or annotation.startswith("INT") else f"{kind} ({annotation})"


def differs(table, host, found):
    """How the columns of a file, pairs of name and word, differ from the schema; "" for not at all.

    `host`: the one that the path names. New columns may come. A name that occurs twice is part of a nested column.
    """
    wanted = TABLES[table] if host else TABLES[table] | {"host": "STRING"}
    wrong = [(name, kind) for name, kind in wanted.items() if (name, kind) not in found]
    if not wrong:
        return ""
    name, kind = wrong[0]
    has = [other for column, other in found if column == name]
    first = f"column `{name}` is {has[0]} and should be {kind}" if has else f"no column `{name}`"
    return f"{first}, and {len(wrong) - 1} more" if len(wrong) > 1 else first


def ddl(table):
    """The columns as both engines write them."""
    return ", ".join(f"{name} {kind}" for name, kind in columns(table).items())
