"""CPython's own test modules, and the suites of NumPy, SciPy and pandas: cases by their JUnit reports."""
import shutil, subprocess, sys
from xml.etree import ElementTree

from .outcomes import Skip, Unit, suite

# Modules of CPython's Lib/test about memory, threads, processes, and modules built on them; without their `test_`.
CPYTHON_QUICK = "array mmap gc struct".split()
CPYTHON = CPYTHON_QUICK + """json bz2 bytes memoryview buffer ctypes pickle marshal copy sqlite3 zlib lzma gzip tarfile zipfile zipimport hashlib ssl
    socket socketserver selectors select poll epoll asyncio signal resource faulthandler weakref re io memoryio fileio os posix shutil tempfile threading
    threading_local thread threadsignals concurrent_futures queue sched decimal fractions tracemalloc xml_etree xml_etree_c pyexpat sax csv fork1 wait3 wait4
    subprocess pty popen multiprocessing_fork multiprocessing_forkserver multiprocessing_spawn multiprocessing_main_handling mailbox logging list dict set
    deque sort heapq bisect bigmem long float complex unicode codecs str descr generators coroutines contextlib context inspect compile ast capi embed atexit
    sys sys_settrace exceptions traceback warnings locale curses readline cmd_line site venv urllib httplib httpservers ftplib wsgiref email difflib statistics
    random collections functools itertools datetime time dbm shelve fcntl openpty stable_abi_ctypes""".split()
MODULE_LIMIT_S = 900
# Tests that hang plain: a virtual machine's sockets to its host.
CPYTHON_LEFT_OUT = ("*VSOCK*", "*Vsock*")
PACKAGES = {
    "numpy": (("pytest", "hypothesis"), (
        "numpy._core", "numpy.lib", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.matrixlib", "numpy.polynomial")),
    "scipy": (("pytest", "hypothesis", "pooch"), (
        "scipy.fft", "scipy.linalg", "scipy.ndimage", "scipy.io", "scipy.interpolate", "scipy.sparse.linalg")),
    "pandas": (("pytest", "hypothesis"), (
        "pandas.tests.frame.methods", "pandas.tests.reshape", "pandas.tests.arrays", "pandas.tests.io.parser")),
}


def junit(path):
    """Outcomes by case. A name that comes more than once has its worst outcome."""
    order, found = ("pass", "skip", "fail"), {}
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        value = "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        found[name] = max(found.get(name, "pass"), value, key=order.index)
    return found


def tests(name, words, limit_s, nothing, quick=True):
    """A unit of tests that leave a report: their outcomes and the exit status, which is the only case after a crash.

    The status `nothing` says that no test could run here.
    """
    def run(place):
        ran = place.run(words, limit_s)
        kind = "skip" if ran.status == nothing else "fail" if ran.status else "pass"
        found = {f"({name})": "fail timeout" if ran.status is None else f"{kind} status {ran.status}"}
        try:
            return found | junit(place.directory / "report.xml")
        except (OSError, ElementTree.ParseError):
            return found
    return Unit(name, run, quick)


def can_import(python, names):
    return shutil.which(python) and not subprocess.run([python, "-c", f"import {', '.join(names)}"], capture_output=True).returncode


@suite("cpython", version="", quick=True)
def cpython(box):
    """CPython's own test modules (python3 -m test)."""
    python = next((python for python in (sys.executable, "/usr/bin/python3") if can_import(python, ["test.test_gc"])), None)
    if not python:
        raise Skip("no Python with its test modules: Debian has them in libpython3.11-testsuite")
    box.version = box.prepare(f"'{python}' --version").split()[1]
    there = subprocess.run([python, "-m", "test", "--list-tests"], capture_output=True, text=True).stdout.split()
    left_out = [word for name in CPYTHON_LEFT_OUT for word in ("-i", name)]
    for module in CPYTHON:
        words = [python, "-m", "test", "--junit-xml", "report.xml", "--timeout", str(MODULE_LIMIT_S - 60), *left_out, f"test_{module}"]
        # It connects to itself only, but asks for the resource.
        words[3:3] = ["-u", "network"] * (module == "socketserver")
        if f"test_{module}" in there:
            yield tests(f"test_{module}", words, MODULE_LIMIT_S, nothing=4, quick=module in CPYTHON_QUICK)


def of_package(package):
    more, modules = PACKAGES[package]

    @suite(package, version="")
    def units(box):
        python = sys.executable
        if not can_import(python, (package, *more)):
            if not box.install:
                raise Skip(f"Python cannot import {', '.join((package, *more))}")
            box.prepare(f"'{python}' -m venv venv && venv/bin/pip install -q {' '.join((package, *more))}", limit_s=600)
            python = str(box.inputs / "venv/bin/python")
        box.version = box.prepare(f"'{python}' -c 'import {package}; print({package}.__version__)'").strip()
        for module in modules:
            yield tests(module, [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not single_cpu and not network",
                                 "--hypothesis-seed=1", "--junitxml=report.xml", "--pyargs", module], 1800, nothing=5)
    units.__doc__ = f"Selected test packages of {package} (pytest)."


for each in PACKAGES:
    of_package(each)
