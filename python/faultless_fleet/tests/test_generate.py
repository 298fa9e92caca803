"""The generator: the same seed, the same rows; sizes said before; nothing half written."""

import json
import unittest

import pyarrow
from pyarrow import parquet

from support import SMALL, fleet, folder, run

from faultless_fleet.fleet import DEPTH, STACKS
from faultless_fleet.generate import fnv1a
from faultless_fleet.schema import TABLES, VERSION, VERSION_KEY


class Generate(unittest.TestCase):
    def rows(self, path):
        return {name.relative_to(path): parquet.read_table(name, partitioning=None) for name in sorted(path.glob("*/*/*/*.parquet"))}

    def test_the_same_seed_gives_the_same_rows_and_another_one_does_not(self):
        same, other = folder() / "fleet", folder() / "fleet"
        run("generate", *SMALL, same)
        run("generate", *SMALL, "--seed", "2", other)
        wanted, found, differs = map(self.rows, (fleet(), same, other))
        self.assertEqual(wanted.keys(), found.keys())
        for path, table in wanted.items():
            self.assertTrue(table.equals(found[path]), path)
        name = next(path for path in wanted if path.parts[0] == "samples")
        self.assertFalse(wanted[name].equals(differs[name]))

    def test_files_have_the_schema(self):
        for table, columns in TABLES.items():
            path = next((fleet() / table).glob("*/*/*.parquet"))
            schema = parquet.read_schema(path)
            self.assertEqual(schema.names, [*columns, "host"])
            self.assertEqual(schema.metadata[VERSION_KEY.encode()].decode(), VERSION)

    def test_stacks_have_the_numbers_of_export(self):
        # The stack and the number of crates/report/src/export/parquet/tests.rs.
        frames = [('copy<a;b, "q">', "in,line.h", 0x1234, 7), ("fill\nit", "a.c", 0x1234, 12), ("main", "a.c", 0x2000, 40)]
        data = b"".join(f"{function}\0/usr/bin/pro gram\0c0ffee\0{file}\0".encode() + address.to_bytes(8, "little") + line.to_bytes(8, "little")
                        for function, file, address, line in frames)
        self.assertEqual(fnv1a(data), 4589154729041028515)

    def test_a_stack_has_one_number_and_the_same_functions_in_every_run(self):
        frames = pyarrow.concat_tables(parquet.read_table(path, partitioning=None) for path in fleet().glob("frames/*/*/*.parquet"))
        stacks = {}
        for stack, depth, function in zip(*(frames[name].to_pylist() for name in ("stack", "depth", "function"))):
            self.assertEqual(stacks.setdefault((stack, depth), function), function)
        self.assertEqual(len(stacks), 6 * STACKS * DEPTH)

    def test_sizes_are_said_before_and_are_right(self):
        path = folder() / "fleet"
        error = run("generate", *SMALL, path)[2]
        runs = 18 * 3 * 24 * 3
        self.assertIn(f"{runs:,} runs".replace(",", " "), error)
        self.assertIn(f"{runs * 24:,} samples".replace(",", " "), error)
        self.assertEqual(sum(parquet.read_metadata(name).num_rows for name in path.glob("runs/*/*/*.parquet")), runs)

    def test_planted_facts_lie_beside_the_tables(self):
        facts = json.loads((fleet() / "planted.json").read_text())
        self.assertEqual(facts.keys(), {"worse", "cured", "kernel"})

    def test_a_folder_that_exists_is_left_alone(self):
        status, _, error = run("generate", *SMALL, fleet())
        self.assertEqual(status, 2)
        self.assertIn("exists: remove it or name another folder", error)

    def test_a_fleet_that_does_not_fit_is_not_begun(self):
        path = folder() / "fleet"
        status, _, error = run("generate", "--hosts", "1000", "--days", "100000", path)
        self.assertEqual(status, 2)
        self.assertIn("are needed", error)
        self.assertEqual(list(path.parent.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
