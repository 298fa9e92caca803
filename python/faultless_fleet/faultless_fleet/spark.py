"""Spark: PySpark's own session, on any master, over any URL that the session's connectors read.

Under `spark-submit` the session is the one that it configures. Parquet footers are read by the driver.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from .errors import Problem, Unanswered, first_line
from .schema import VERSION_KEY, ddl, word

try:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql import functions
    from py4j.protocol import Py4JError, Py4JJavaError
except ImportError as error:
    raise Problem("PySpark is not installed: pip install 'faultless-fleet[spark]', or --engine duckdb") from error

# Footers are read by so many threads: each waits for the store, not for a processor.
READERS = 16
# Java's words for types, where Parquet has another one.
PHYSICAL = {"binary": "BYTE_ARRAY", "group": "a group"}
FAILURES = (PySparkException, Py4JError)


def settings(processors):
    """What a user's configuration does not say already."""
    return {
        # 200 by default: seconds a question on a small source. Two a processor is Spark's advice for clusters.
        "spark.sql.shuffle.partitions": 2 * processors,
        # Our columns are packed a hundredfold, so the size of a file says nothing about what a broadcast would hold: Spark
        # ran out of memory. Sizes measured while a query runs do.
        "spark.sql.autoBroadcastJoinThreshold": -1,
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
    }


class Spark:
    """One session. `master` None: what `spark-submit` or Spark's own configuration says, else this machine."""
    name = "spark"

    def __init__(self, source, master=None):
        self.source = source.rstrip("/")
        builder = SparkSession.builder.appName("faultless-fleet").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.log.level", "OFF").config("spark.sql.session.timeZone", "UTC")
        # The page checksums that our writers add: without this a flipped bit can go unseen.
        builder = builder.config("spark.hadoop.parquet.page.verify-checksum.enabled", "true")
        if master:
            builder = builder.master(master)
        try:
            self.session = builder.getOrCreate()
        except (*FAILURES, RuntimeError, OSError) as error:
            raise Problem(f"no Spark session at {master or 'the default master'}: {first_line(error)}; "
                          "Spark needs Java 17 or later, and the URL a running master") from error
        context = self.session.sparkContext
        for name, value in settings(context.defaultParallelism).items():
            if not context.getConf().contains(name):
                self.session.conf.set(name, value)
        self.shown = {}

    def close(self):
        self.session.stop()

    def files(self, table):
        """Paths of a table's Parquet files."""
        try:
            # Spark lists in parallel, and answers with URLs, whose percent signs are doubled.
            # Partitions are left alone: a folder with a wrong one is not Spark's to refuse.
            reader = self._reader(table).option("recursiveFileLookup", "true")
            return sorted(map(unquote, reader.parquet(f"{self.source}/{table}").inputFiles()))
        except FAILURES as error:
            if "PATH_NOT_FOUND" in str(error):
                return []
            raise Problem(f"{self.source}: {first_line(error)}; the URL must be one that Spark's connectors read") from error

    def footers(self, paths):
        """Path -> its schema version, its columns and why it can't be read; None for what there is not."""
        with ThreadPoolExecutor(READERS) as readers:
            return dict(zip(paths, readers.map(self._version_and_columns, paths)))

    def _version_and_columns(self, path):
        try:
            about = self._footer(path, lambda footer: footer.getFileMetaData())
        except Py4JJavaError as error:
            return None, None, f"damaged: {error.java_exception.getMessage()}"
        # As text, in one answer of Java's: a call for each column takes longer than to read the footer.
        return about.getKeyValueMetaData().get(VERSION_KEY), columns(about.getSchema().toString()), None

    def _footer(self, path, of):
        java = self.session._jvm
        hadoop = java.org.apache.parquet.hadoop
        file = hadoop.util.HadoopInputFile.fromPath(java.org.apache.hadoop.fs.Path(path), self.session._jsc.hadoopConfiguration())
        footer = hadoop.ParquetFileReader.open(file)
        try:
            return of(footer)
        finally:
            footer.close()

    def damaged(self, table, paths):
        """Path -> why, of the files that can't be read to their end. Reads them whole, in one job."""
        with ThreadPoolExecutor(READERS) as readers:
            wanted = dict(zip(paths, readers.map(self._rows, paths)))
        there = [path for path in paths if wanted[path] is not None]
        reader = self._reader(table).option("ignoreCorruptFiles", "true").option("ignoreMissingFiles", "true")
        rows = reader.parquet(*there) if there else self._none(table)
        # All columns go into the digest: else they would not be read.
        digest = functions.xxhash64(*rows.columns)
        rows = rows.select(functions.input_file_name().alias("file"), digest.alias("digest"))
        try:
            rows = rows.groupBy("file").agg(functions.count("*"), functions.bit_xor("digest")).collect()
        except FAILURES as error:
            raise Unanswered(reason(error)) from error
        read = {unquote(file): count for file, count, _ in rows}
        return {path: "damaged: it can't be read to its end" for path in paths
                if wanted[path] is None or read.get(path, 0) < wanted[path]}

    def _rows(self, path):
        """How many rows a file should have; None without file or footer."""
        try:
            return self._footer(path, lambda footer: footer.getRecordCount())
        except Py4JJavaError:
            return None

    def show(self, table, paths):
        """Makes `paths` the rows of `table`."""
        if self.shown.get(table) == paths:
            return
        try:
            rows = self._reader(table).parquet(*paths) if paths else self._none(table)
            rows.createOrReplaceTempView(table)
        except FAILURES as error:
            raise Unanswered(first_line(error)) from error
        self.shown[table] = paths

    def _none(self, table):
        return self.session.createDataFrame([], ddl(table))

    def ask_about(self, releases):
        """Makes the table `asked`: the two releases, or no row."""
        rows = self.session.createDataFrame([releases] if releases else [], "before_release STRING, after_release STRING")
        rows.createOrReplaceTempView("asked")

    def ask(self, sql):
        """Names of the columns, and the rows."""
        try:
            rows = self.session.sql(sql)
            return rows.columns, [tuple(row) for row in rows.collect()]
        except FAILURES as error:
            raise Unanswered(reason(error)) from error

    def _reader(self, table):
        # The schema is told, so no file is opened to guess it.
        reader = self.session.read.schema(ddl(table)).option("pathGlobFilter", "*.parquet")
        return reader.option("basePath", f"{self.source}/{table}").option("ignoreCorruptFiles", "false")


def columns(text):
    """Pairs of name and word, from lines like `  optional binary kind (STRING);`, or `optional group list (LIST) {`."""
    line = r"^ +(?:optional|required|repeated) (\S+) ([^ ;]+)(?: \(([^;]*)\))?(?: = \d+)?[;{ ]*$"
    return {(name, word(PHYSICAL.get(kind, kind.upper()), annotation))
            for kind, name, annotation in re.findall(line, text, re.MULTILINE)}


def reason(error):
    """The first line of the exception in Java, if it comes from there."""
    java = getattr(error, "java_exception", None)
    return first_line(java.toString()) if java else first_line(error)
