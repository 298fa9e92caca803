"""DuckDB: a folder on this machine, or any URL that its extensions read."""

import shutil
import tempfile

import duckdb

from .errors import Problem, Unanswered, first_line
from .schema import PARTITIONS, VERSION_KEY, columns, word


# What DuckDB may hold: it spills the rest. A day of 1000 hosts takes a fifth of it.
MEMORY = "1GB"


class Duck:
    """One connection in memory."""
    name = "duckdb"

    def __init__(self, source):
        self.source = source.rstrip("/")
        self.spilled = tempfile.mkdtemp(prefix="faultless-fleet-")
        # Nothing is installed on its own: a report must not reach for the network.
        self.connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "memory_limit": MEMORY,
                                                 "temp_directory": self.spilled, "preserve_insertion_order": "false"})
        self.shown = {}

    def close(self):
        self.connection.close()
        shutil.rmtree(self.spilled, ignore_errors=True)

    def files(self, table):
        """Paths of a table's Parquet files."""
        try:
            found = self.connection.execute("SELECT file FROM glob(?)", [f"{self.source}/{table}/**/*.parquet"]).fetchall()
        except duckdb.Error as error:
            raise Problem(f"{self.source}: {first_line(error)}; an s3 or https source needs `INSTALL httpfs` in DuckDB, "
                          "once") from error
        return sorted(path for (path,) in found)

    def footers(self, paths):
        """Path -> its schema version, its columns and why it can't be read; None for what there is not."""
        try:
            return self._footers(paths) if paths else {}
        except duckdb.Error:
            return {path: self._footer(path) for path in paths}

    def _footers(self, paths):
        rows = self.connection.execute("SELECT file_name, decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = ?",
                                       [paths, VERSION_KEY]).fetchall()
        found, columns = dict(rows), {path: set() for path in paths}
        rows = self.connection.execute("SELECT file_name, name, coalesce(type, 'a group'), "
                                       "coalesce(converted_type, logical_type, '') FROM parquet_schema(?)", [paths]).fetchall()
        for path, name, physical, annotation in rows:
            columns[path].add((name, word(physical, annotation)))
        return {path: (found.get(path), columns[path], None) for path in paths}

    def _footer(self, path):
        try:
            return self._footers([path])[path]
        except duckdb.Error as error:
            return None, None, f"damaged: {first_line(error)}"

    def damaged(self, table, paths):
        """Path -> why, of the files that can't be read to their end. Reads them whole."""
        found = {}
        for path in paths:
            try:
                self.connection.execute(f"SELECT bit_xor(hash(t)) FROM ({self._read([path])}) t").fetchall()
            except duckdb.Error as error:
                found[path] = f"damaged: {first_line(error)}"
        return found

    def show(self, table, paths):
        """Makes `paths` the rows of `table`."""
        if self.shown.get(table) == paths:
            return
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns(table).items())
        rows = self._read(paths) if paths else f"SELECT {nothing} WHERE false"
        try:
            self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {rows}")
        except duckdb.Error as error:
            raise Unanswered(first_line(error)) from error
        self.shown[table] = paths

    def ask_about(self, releases):
        """Makes the table `asked`: the two releases, or no row."""
        self.connection.execute("CREATE OR REPLACE TEMP TABLE asked (before_release VARCHAR, after_release VARCHAR)")
        if releases:
            self.connection.execute("INSERT INTO asked VALUES (?, ?)", list(releases))

    def ask(self, sql):
        """Names of the columns, and the rows."""
        try:
            done = self.connection.execute(sql)
            return [column[0] for column in done.description], done.fetchall()
        except duckdb.Error as error:
            raise Unanswered(first_line(error)) from error

    def _read(self, paths):
        """The rows of files. Those whose path names the host are read by themselves: DuckDB takes paths of one shape."""
        shapes = {}
        for path in paths:
            kinds = tuple((name, kind) for name, kind in PARTITIONS.items() if f"/{name}=" in path)
            shapes.setdefault(kinds, []).append(path)
        return " UNION ALL BY NAME ".join(read(alike, kinds) for kinds, alike in shapes.items())


def read(paths, kinds):
    types = ", ".join(f"'{name}': {kind.replace('STRING', 'VARCHAR')}" for name, kind in kinds)
    return f"SELECT * FROM read_parquet([{', '.join(map(quoted, paths))}], hive_partitioning = true, hive_types = {{{types}}})"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"
