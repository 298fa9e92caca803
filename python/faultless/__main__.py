"""python -m faultless run [script.py | -m module] [arguments]: run a program with its large blocks from the pool.

With the `faultless` command, of this package or on PATH, all large blocks of the process come from the pool. Without it,
NumPy's arrays do.
"""

import importlib.metadata
import importlib.util
import os
import runpy
import shutil
import sys

USAGE = "usage: python -m faultless run (SCRIPT | -m MODULE) [ARGUMENT ...]"


def say(text):
    print(f"faultless: {text}", file=sys.stderr)


def refuse(reason):
    say(reason)
    sys.exit(2)


def own_command():
    """The program that the wheel brought. A package that pip built from a checkout has none."""
    files = importlib.metadata.files("faultless") or []
    own = [file.locate() for file in files if (file.parent.name, file.name) == ("bin", "faultless")]
    return os.path.realpath(own[0]) if own else None


def check(arguments):
    """Refuses a script or a module that is not there."""
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()
        # Checks only the package of a module, because a check of the module would import the package.
        if importlib.util.find_spec(arguments[1].partition(".")[0]) is None:
            refuse(f"no module named {arguments[1]}; check the spelling, or install it in this Python")
    elif not os.path.exists(arguments[0]):
        refuse(f"no such script: {arguments[0]}; check the spelling or give its path")


def run_here(arguments):
    """Runs a script or a module in this interpreter, with NumPy on the pool."""
    import faultless

    try:
        faultless.use_for_numpy()
        say("no faultless command: only NumPy's arrays come from the pool")
    except ImportError as error:
        say(f"no faultless command and no NumPy to change: the program runs as it is ({error})")
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def main(arguments):
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__ + "\n" + USAGE)
        return
    program = arguments[1:]
    is_module = program[:1] == ["-m"]
    if arguments[:1] != ["run"] or len(program) < 1 + is_module or (program[0].startswith("-") and not is_module):
        print(USAGE, file=sys.stderr)
        sys.exit(2)
    check(program)
    command = own_command() or shutil.which("faultless")
    if command:
        os.execv(command, [command, "run", "--", sys.executable, *program])
    run_here(program)


if __name__ == "__main__":
    main(sys.argv[1:])
