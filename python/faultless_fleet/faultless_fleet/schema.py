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


def ddl(table):
    """The columns as both engines write them."""
    return ", ".join(f"{name} {kind}" for name, kind in columns(table).items())
