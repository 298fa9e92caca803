"""CPython's own test modules, and the suites of NumPy, SciPy and pandas: cases by their JUnit reports."""
import shutil, subprocess, sys
from xml.etree import ElementTree

from .outcomes import Skip, Unit, suite

# Modules of CPython's Lib/test about memory, threads, processes, and modules built on them.
CPYTHON_QUICK = ("test_array", "test_mmap", "test_gc", "test_struct")
CPYTHON = CPYTHON_QUICK + (
    "test_json", "test_bz2", "test_bytes", "test_memoryview", "test_buffer", "test_ctypes", "test_pickle", "test_marshal", "test_copy", "test_sqlite3",
    "test_zlib", "test_lzma", "test_gzip", "test_tarfile", "test_zipfile", "test_zipimport", "test_hashlib", "test_ssl", "test_socket",
    "test_socketserver", "test_selectors", "test_select", "test_poll", "test_epoll", "test_asyncio", "test_signal", "test_resource",
    "test_faulthandler", "test_weakref", "test_re", "test_io", "test_memoryio", "test_fileio", "test_os", "test_posix", "test_shutil",
    "test_tempfile", "test_threading", "test_threading_local", "test_thread", "test_threadsignals", "test_concurrent_futures",
    "test_queue", "test_sched", "test_decimal", "test_fractions", "test_tracemalloc", "test_xml_etree", "test_xml_etree_c",
    "test_pyexpat", "test_sax", "test_csv", "test_fork1", "test_wait3", "test_wait4", "test_subprocess", "test_pty", "test_popen",
    "test_multiprocessing_fork", "test_multiprocessing_forkserver", "test_multiprocessing_spawn", "test_multiprocessing_main_handling",
    "test_mailbox", "test_logging", "test_list", "test_dict", "test_set", "test_deque", "test_sort", "test_heapq", "test_bisect",
    "test_bigmem", "test_long", "test_float", "test_complex", "test_unicode", "test_codecs", "test_str", "test_descr", "test_generators",
    "test_coroutines", "test_contextlib", "test_context", "test_inspect", "test_compile", "test_ast", "test_capi", "test_embed",
    "test_atexit", "test_sys", "test_sys_settrace", "test_exceptions", "test_traceback", "test_warnings", "test_locale", "test_curses",
    "test_readline", "test_cmd_line", "test_site", "test_venv", "test_urllib", "test_httplib", "test_httpservers", "test_ftplib",
    "test_wsgiref", "test_email", "test_difflib", "test_statistics", "test_random", "test_collections", "test_functools",
    "test_itertools", "test_datetime", "test_time", "test_dbm", "test_shelve", "test_fcntl", "test_openpty", "test_stable_abi_ctypes")
MODULE_LIMIT_S = 900
# Tests that hang plain: a virtual machine's sockets to its host.
CPYTHON_LEFT_OUT = ("*VSOCK*", "*Vsock*")
# Modules that connect to themselves only, but ask for the resource.
CPYTHON_LOOPBACK = ("test_socketserver",)
PACKAGES = {
    "numpy": ("numpy", ("pytest", "hypothesis"), (
        "numpy._core", "numpy.lib", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.matrixlib", "numpy.polynomial")),
    "scipy": ("scipy", ("pytest", "hypothesis", "pooch"), (
        "scipy.fft", "scipy.linalg", "scipy.ndimage", "scipy.io", "scipy.interpolate", "scipy.sparse.linalg")),
    "pandas": ("pandas", ("pytest", "hypothesis"), (
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


def reported(place, name, words, report, limit_s, nothing):
    """Runs tests that leave a report: their outcomes and the exit status, which is the only case after a crash.

    The status `nothing` says that no test could run here.
    """
    ran = place.run(words, limit_s)
    kind = "skip" if ran.status == nothing else "fail" if ran.status else "pass"
    found = {f"({name})": "fail timeout" if ran.status is None else f"{kind} status {ran.status}"}
    try:
        return found | junit(place.directory / report)
    except (OSError, ElementTree.ParseError):
        return found


def tested_python():
    """A Python that has its test modules: this one, or Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if shutil.which(python) and not subprocess.run([python, "-c", "import test.test_gc"], capture_output=True).returncode:
            return python
    return None


@suite("cpython", version="", quick=True)
def cpython(box):
    """CPython's own test modules (python3 -m test)."""
    python = tested_python()
    if not python:
        raise Skip("no Python with its test modules: Debian has them in libpython3.11-testsuite")

    box.version = box.prepare(f"'{python}' --version").split()[1]

    def unit(module):
        def run(place):
            words = [python, "-m", "test", "--junit-xml", "report.xml", "--timeout", str(MODULE_LIMIT_S - 60)]
            words += ["-u", "network"] * (module in CPYTHON_LOOPBACK) + [word for name in CPYTHON_LEFT_OUT for word in ("-i", name)] + [module]
            return reported(place, module, words, "report.xml", MODULE_LIMIT_S, nothing=4)
        return Unit(module, run, quick=module in CPYTHON_QUICK)

    there = subprocess.run([python, "-m", "test", "--list-tests"], capture_output=True, text=True).stdout.split()
    return [unit(module) for module in CPYTHON if module in there]


def python_with(box, package, more):
    """A Python that can import the package and pytest: this one, or that of a new environment."""
    names = (package, *more)
    can = lambda python: not subprocess.run([python, "-c", f"import {', '.join(names)}"], capture_output=True).returncode
    if can(sys.executable):
        return sys.executable
    if not box.install:
        raise Skip(f"Python cannot import {', '.join(names)}")
    box.prepare(f"'{sys.executable}' -m venv venv && venv/bin/pip install -q {' '.join(names)}", limit_s=600)
    return str(box.inputs / "venv/bin/python")


def of_package(name):
    package, more, modules = PACKAGES[name]

    @suite(name, version="")
    def units(box):
        python = python_with(box, package, more)
        box.version = box.prepare(f"'{python}' -c 'import {package}; print({package}.__version__)'").strip()

        def unit(module):
            def run(place):
                words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not single_cpu and not network",
                         "--hypothesis-seed=1", "--junitxml=report.xml", "--pyargs", module]
                return reported(place, module, words, "report.xml", 1800, nothing=5)
            return Unit(module, run)

        return [unit(module) for module in modules]
    units.__doc__ = f"Selected test packages of {package} (pytest)."


for each in PACKAGES:
    of_package(each)
