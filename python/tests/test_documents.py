"""The documents' programs run as written.

Guards against: examples that were right once.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent.parent


def programs():
    for document in (HERE / "README.md", HERE.parent / "README.md", HERE.parent / "docs/guide.md"):
        if document.exists():
            for rest in document.read_text().split("```python\n")[1:]:
                yield rest.split("```")[0]


def test_programs_in_the_documents_run(tmp_path):
    ran = 0
    for program in programs():
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, program + done.stderr
        ran += 1
    assert ran >= 1


def test_the_package_s_own_example_holds():
    # In a process of its own: use_for_numpy has no way back.
    code = "import doctest, faultless, sys; sys.exit(doctest.testmod(faultless).failed)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
