"""Every `sh` block of the documents runs as printed: in a copy of the repository, with an empty HOME and the programs
on PATH. The blocks of a document share one shell.

A comment on the line before a block changes that:
    <!-- not run: REASON -->        the reason is printed
    <!-- run if: CONDITION -->      a condition of the shell; if it fails, that is printed
    <!-- first: COMMANDS -->        what a reader has, and the copy lacks
"""

import contextlib
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "debug"
BLOCK = re.compile(r"^(?:<!-- ([a-z ]+): ([^\n]*) -->\n)?```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
FLEET = "python/faultless_fleet/README.md"
# Between what two blocks print.
MARK = "\x1e"


def script(text):
    """One script of all blocks of a document that are run, and what the document shows behind each."""
    parts, shown = ["set -euo pipefail"], []
    for how, what, commands, output in BLOCK.findall(text):
        if how == "not run":
            print(f"  not run: {what}: {commands.splitlines()[0]}", file=sys.stderr)
            continue
        assert how in ("", "run if", "first"), how
        if how == "run if":
            commands = f"if {what}; then\n{commands}else echo 'left out, because not: {what}'; fi\n"
        parts.append(f"printf '{MARK}'\n" + (f"{what}\n" if how == "first" else "") + commands)
        shown.append(output)
    return "\n".join(parts), shown


def clone(folder):
    """A repository with the files of this one."""
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    names = [name for name in files.stdout.decode().split("\0") if (ROOT / name).is_file()]
    subprocess.run(["cp", "--parents", "-t", folder, *names], cwd=ROOT, check=True)
    subprocess.run(["git", "init", "-q", folder], check=True)


def pythons(folder):
    """`python3` is this one, and the questions of a fleet are asked by the package here, not an installed one."""
    fleet = f"PYTHONPATH={ROOT / FLEET} exec {sys.executable} -m faultless_fleet".replace("/README.md", "")
    for name, command in (("python3", f"exec {sys.executable}"), ("faultless-fleet", fleet)):
        (folder / name).write_text(f'#!/bin/sh\n{command} "$@"\n')
        (folder / name).chmod(0o755)


def ran(document):
    """What each block of a document printed, what the document shows behind it, and the status and the errors of all."""
    print(f"\n{document}", file=sys.stderr)
    commands, shown = script((ROOT / document).read_text())
    with tempfile.TemporaryDirectory() as folder:
        home, here, programs = (pathlib.Path(folder) / name for name in ("home", "clone", "bin"))
        for made in (home, here, programs):
            made.mkdir()
        clone(here)
        pythons(programs)
        environment = {"HOME": str(home), "PATH": f"{programs}:{PROGRAMS}:{os.environ['PATH']}"}
        with open(home.parent / "out", "w+") as out, open(home.parent / "errors", "w+") as errors:
            shell = subprocess.Popen(["bash", "-c", commands], cwd=here, env=environment, start_new_session=True,
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
            try:
                status = shell.wait(timeout=300)
            finally:
                # With what the document starts in the background.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
            out.seek(0)
            errors.seek(0)
            return out.read().split(MARK)[1:], shown, status, errors.read()


class Commands(unittest.TestCase):
    def succeeds(self, document):
        printed, shown, status, errors = ran(document)
        for text in printed:
            if text.startswith("left out"):
                print(f"  {text.strip()}", file=sys.stderr)
        self.assertEqual(status, 0, f"{document}, block {len(printed)}: {''.join(printed[-1:])}\n{errors[-4000:]}")
        return printed, shown

    def test_documents(self):
        for document in ("README.md", "docs/guide.md", "crates/pool/README.md", "crates/capi/README.md", "python/README.md",
                         "crates/agent/README.md", "crates/cli/docs/check.md", "crates/cli/docs/parquet.md"):
            with self.subTest(document):
                self.succeeds(document)

    @unittest.skipUnless(importlib.util.find_spec("duckdb"), "DuckDB is not installed")
    def test_questions_of_a_fleet_print_what_is_shown(self):
        printed, shown = self.succeeds(FLEET)
        self.assertGreater(len(printed), 5)
        for text, lines in zip(printed, shown):
            if not text.startswith("left out"):
                there = {line.rstrip() for line in text.splitlines()}
                self.assertEqual([line for line in lines.splitlines() if line != "..." and line.rstrip() not in there], [])


if __name__ == "__main__":
    unittest.main()
