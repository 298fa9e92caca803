"""`python -m faultless run`: the same program, with or without the command. A built wheel has it, a package that pip builds
from a checkout does not.

Guards against: arguments, paths or exit statuses that get lost on the way, and a fallback that says nothing.
"""

import os
import subprocess
import sys

from faultless.__main__ import own_command

SCRIPT = """
import sys, os, numpy, neighbour
import faultless
numpy.ones(1 << 20)
print(__name__, sys.argv[1:], os.path.basename(sys.argv[0]), neighbour.VALUE, faultless.stats()["fresh"])
sys.exit(3)
"""


def run(folder, *arguments, path=""):
    environment = {**os.environ, "PATH": path}
    command = [sys.executable, "-m", "faultless", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)


def program(folder):
    (folder / "script.py").write_text(SCRIPT)
    (folder / "neighbour.py").write_text("VALUE = 7\n")
    return folder


# Under the command, the large block comes from the interposer's pool and not from the module's.
FRESH = 0 if own_command() else 1


def test_a_script_runs_on_the_pool(tmp_path):
    inside = program(tmp_path) / "inside"
    inside.mkdir()
    done = run(inside, "run", "../script.py", "-x", "y z")
    assert (done.returncode, done.stdout) == (3, f"__main__ ['-x', 'y z'] script.py 7 {FRESH}\n"), done.stderr
    assert ("no faultless command" in done.stderr) == (own_command() is None)


def test_a_module_runs_too(tmp_path):
    done = run(program(tmp_path), "run", "-m", "script", "a")
    assert (done.returncode, done.stdout) == (3, f"__main__ ['a'] script.py 7 {FRESH}\n"), done.stderr


def test_the_command_on_path_is_only_used_by_a_package_without_one(tmp_path):
    command = tmp_path / "faultless"
    command.write_text('#!/bin/sh\nprintf "%s," "$@"\n')
    command.chmod(0o755)
    done = run(program(tmp_path), "run", "script.py", "a b", path=f"{tmp_path}:/usr/bin:/bin")
    theirs = f"run,--,{sys.executable},script.py,a b,"
    assert done.stdout == ("__main__ ['a b'] script.py 7 0\n" if own_command() else theirs)


def test_nothing_to_run_is_answered_with_the_usage(tmp_path):
    for arguments in ([], ["run"], ["run", "-m"], ["walk", "script.py"], ["run", "-O", "script.py"]):
        done = run(tmp_path, *arguments)
        assert done.returncode == 2 and done.stderr.startswith("usage:"), arguments


def test_what_is_not_there_is_one_line_with_a_remedy(tmp_path):
    for arguments in (["nosuch.py"], ["-m", "nosuch"]):
        done = run(tmp_path, "run", *arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "check the spelling" in done.stderr, arguments
