"""Where answers go: what can't be written is said in one line, and nothing is left half written."""

import os
import subprocess
import sys
import unittest
from unittest import mock

from support import PACKAGE, fleet, folder, run

ASKED = ["--ask", "fleet"]


def shell(redirection):
    """The program in a process of its own; its standard output goes where a shell's redirection says."""
    command = [sys.executable, "-m", "faultless_fleet", "report", str(fleet()), *ASKED]
    return subprocess.run(["bash", "-c", f'"$@" {redirection}; exit $PIPESTATUS', "bash", *command], cwd=PACKAGE,
                          stderr=subprocess.PIPE, text=True)


class StandardOutput(unittest.TestCase):
    def check(self, redirection, why):
        done = shell(redirection)
        self.assertEqual(done.returncode, 2, done.stderr)
        [line] = done.stderr.splitlines()
        self.assertIn(f"standard output: {why}: ", line)

    def test_a_full_disk(self):
        self.check("> /dev/full", "No space left on device")

    def test_it_is_closed(self):
        self.check(">&-", "it is closed")

    def test_a_reader_that_has_seen_enough(self):
        done = shell("| true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = folder()
        self.path = self.folder / "page.html"

    def check(self, why):
        status, out, error = run("report", fleet(), *ASKED, "--html", self.path)
        self.assertEqual((status, out), (2, ""), error)
        [line] = error.splitlines()
        self.assertIn(f"{self.path}: {why}", line)

    def test_what_is_no_file_is_left_alone(self):
        os.mkfifo(self.path)
        self.check("it is there and is no regular file: give --html another name")
        self.assertTrue(self.path.is_fifo())

    def test_a_link_to_a_folder(self):
        self.path.symlink_to(folder())
        self.check("it is there and is no regular file")

    def test_a_link_stays_one(self):
        target = folder() / "target.html"
        self.path.symlink_to(target)
        for _ in range(2):
            self.assertEqual(run("report", fleet(), *ASKED, "--html", self.path)[0], 0)
            self.assertTrue(self.path.is_symlink())
            self.assertIn("<!doctype html>", target.read_text())
            target.write_text("old")

    def test_permissions_are_those_of_any_new_file_or_stay(self):
        other = self.folder / "other"
        other.touch()
        run("report", fleet(), *ASKED, "--html", self.path)
        self.assertEqual(self.path.stat().st_mode, other.stat().st_mode)
        self.path.chmod(0o640)
        run("report", fleet(), *ASKED, "--html", self.path)
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o640)

    def test_a_failure_leaves_nothing(self):
        beside = self.folder / "page.html.tmp"
        beside.write_text("not ours")
        with mock.patch("os.replace", side_effect=OSError(28, "No space left on device")):
            self.check("No space left on device: ")
        self.assertEqual(list(self.folder.iterdir()), [beside])
        self.assertEqual(beside.read_text(), "not ours")


if __name__ == "__main__":
    unittest.main()
