"""Every command of README.md runs, in order, and prints what the document shows."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import unittest

from support import PACKAGE, folder

TEXT = (PACKAGE / "README.md").read_text()
# A block of commands, and the block of text that follows it, if one does.
BLOCKS = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
HAS_SPARK = importlib.util.find_spec("pyspark") and shutil.which("java")


def walk():
    """Commands and what they print, of the walk-through."""
    part = TEXT.split("## Walk-through\n")[1].split("\n## ")[0]
    return [(found[1], found[2] or "") for found in BLOCKS.finditer(part)]


class WalkThrough(unittest.TestCase):
    def test_every_command_runs_and_prints_what_is_shown(self):
        work = folder()
        (work / "faultless-fleet").write_text(f'#!/bin/sh\nPYTHONPATH={PACKAGE} exec {sys.executable} -m faultless_fleet "$@"\n')
        (work / "faultless-fleet").chmod(0o755)
        blocks = walk()
        self.assertGreater(len(blocks), 5)
        for commands, shown in blocks:
            if "spark" in commands and not HAS_SPARK:
                print(f"left out: {commands.strip()}: PySpark or Java is not installed", file=sys.stderr)
                continue
            done = subprocess.run(["bash", "-e", "-c", commands], cwd=work, capture_output=True, text=True,
                                  env=os.environ | {"PATH": f"{work}:{os.environ['PATH']}"}, timeout=120)
            self.assertEqual(done.returncode, 0, commands + done.stderr)
            printed = {line.rstrip() for line in done.stdout.splitlines()}
            for line in shown.splitlines():
                if line != "...":
                    self.assertIn(line.rstrip(), printed, commands)


if __name__ == "__main__":
    unittest.main()
