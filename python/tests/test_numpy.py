"""NumPy on the pool: who gets its memory where, and that content survives whatever happens to an array.

Guards against: blocks freed to the wrong allocator, arrays lost when they outlive the block that made them, memory from
zeros that is not zero, a handler left behind, children of fork that wait for ever, and a pool that is not used at all.
"""

import ctypes
import multiprocessing
import pathlib
import subprocess
import sys
import threading

import faultless
import numpy as np
import pytest

try:
    from numpy._core.multiarray import get_handler_name
except ImportError:
    from numpy.core.multiarray import get_handler_name

LARGE = 1 << 20


def in_use():
    return faultless.stats()["in_use_bytes"]


def skip_in_an_emulator():
    """QEMU's user mode passes neither MADV_POPULATE_WRITE on nor prctl's words on huge pages."""
    PR_GET_THP_DISABLE = 42
    if ctypes.CDLL(None).prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) < 0:
        pytest.skip("the kernel does not know PR_GET_THP_DISABLE: an emulator")


def in_python(code):
    """The output of a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_only_large_arrays_come_from_the_pool():
    before = in_use()
    with faultless.numpy_pool():
        small = np.ones(faultless.THRESHOLD_BYTES - 1, "u1")
        assert in_use() == before
        large = np.ones(faultless.THRESHOLD_BYTES, "u1")
        assert in_use() == before + large.nbytes
    assert get_handler_name(large) == get_handler_name(small) == "faultless"
    del large, small
    assert in_use() == before


def test_arrays_outlive_the_block_and_are_freed_by_other_threads():
    before = in_use()
    with faultless.numpy_pool():
        arrays = [np.full(LARGE, number, "u1") for number in range(20)]
    outside = np.ones(LARGE, "u1")
    assert get_handler_name(outside) != "faultless"
    assert all((array == number).all() for number, array in enumerate(arrays))
    assert in_use() == before + 20 * LARGE
    del outside
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    assert in_use() == before


def test_zeros_are_zero_where_dirty_memory_was():
    with faultless.numpy_pool():
        for _ in range(5):
            zeros = np.zeros(3 * LARGE, "u1")
            assert not zeros.any()
            zeros[:] = 0xAA
            del zeros


def test_resize_keeps_content_across_the_threshold():
    before = in_use()
    with faultless.numpy_pool():
        array = np.arange(100)
        for count in (20_000, 1_000_000, 5_000, 4_000, 100, 3_000_000, 200):
            array.resize(count, refcheck=False)
            assert (array[:100] == np.arange(100)).all()
            assert not array[100:].any()
    del array
    assert in_use() == before


def test_the_handler_is_put_back_nested_and_after_errors():
    own = get_handler_name()
    with faultless.numpy_pool():
        with pytest.raises(ZeroDivisionError):
            with faultless.numpy_pool():
                1 / 0
        assert get_handler_name() == "faultless"
    assert get_handler_name() == own

    @faultless.numpy_pool()
    def decorated():
        return np.ones(LARGE)

    assert get_handler_name(decorated()) == get_handler_name(decorated()) == "faultless"
    assert get_handler_name() == own


def test_the_block_holds_for_its_own_thread_only():
    names = []
    with faultless.numpy_pool():
        thread = threading.Thread(target=lambda: names.append(get_handler_name(np.ones(LARGE))))
        thread.start()
        thread.join()
    # Python 3.14's free-threaded builds let threads inherit the context; these tests are for the others.
    assert names == ["default_allocator"]


def test_many_threads_share_the_pool():
    before, wrong = in_use(), []

    def work(value):
        with faultless.numpy_pool():
            for _ in range(50):
                array = np.full(100_000 + 1000 * value, value)
                if not ((array + array) == 2 * value).all():
                    wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and in_use() == before


def test_absurd_lengths_are_refused_and_nothing_is_lost():
    before = in_use()
    with faultless.numpy_pool():
        for length in (1 << 50, 1 << 61):
            with pytest.raises(MemoryError):
                np.empty(length, "u1")
            with pytest.raises(MemoryError):
                np.zeros(length, "u1")
        array = np.ones(LARGE, "u1")
        with pytest.raises(MemoryError):
            array.resize(1 << 50, refcheck=False)
        assert array.sum() == LARGE
    del array
    assert in_use() == before


def test_use_for_numpy_reaches_all_threads_and_takes_back_what_was_made_before():
    printed = in_python(
        """
import faultless, numpy, threading
before = [numpy.ones(1 << 20), numpy.ones(10)]
faultless.use_for_numpy()
faultless.use_for_numpy()
made = []
thread = threading.Thread(target=lambda: made.append(numpy.zeros(1 << 20)))
thread.start()
thread.join()
before[0].resize(1 << 21, refcheck=False)
print(faultless.stats()["in_use_bytes"] == made[0].nbytes, before[0][0], before[0][-1])
del before, made
print(faultless.stats()["in_use_bytes"])
"""
    )
    assert printed == ["True", "1.0", "0.0", "0"]


def child_work(array):
    with faultless.numpy_pool():
        return float((array + np.ones(LARGE)).sum())


def test_children_of_fork_can_use_the_pool():
    with faultless.numpy_pool():
        array = np.ones(LARGE)
    stop = threading.Event()

    def churn():
        with faultless.numpy_pool():
            while not stop.is_set():
                np.ones(100_000)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(child_work, [array] * 4).get(60) == [2.0 * LARGE] * 4
    finally:
        stop.set()
        thread.join()


def test_prewarmed_memory_does_not_fault():
    skip_in_an_emulator()
    printed = in_python(
        """
import faultless, numpy, resource
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
faultless.use_for_numpy()
print(faultless.prewarm(32 << 20) >= 32 << 20)
before = faults()
numpy.ones(30 << 20, "u1")
print(faults() - before)
"""
    )
    # Of 7680 base pages. The remaining faults are Python's own.
    assert printed[0] == "True" and int(printed[1]) < 300, printed


def test_the_faults_of_temporaries_are_gone():
    skip_in_an_emulator()
    example = pathlib.Path(__file__).parent.parent / "examples" / "temporaries.py"
    # Whether the machine has huge pages to give is chance, so both take base pages.
    without_huge_pages = f"""
import ctypes, runpy
PR_SET_THP_DISABLE = 41
assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
runpy.run_path({str(example)!r})
"""
    own, pooled = (int(word) for word in in_python(without_huge_pages) if word.isdigit())
    # Each of 20 rounds takes 10240 pages anew. In the pool, the first two rounds do: `a` lives while the second runs.
    assert own >= 20 * 10240 and pooled < own // 5, (own, pooled)


def test_an_idle_process_gives_its_memory_back():
    printed = in_python(
        """
import faultless, numpy, time
faultless.use_for_numpy()
numpy.ones(200 << 20, "u1")
for _ in range(300):
    if faultless.stats()["retained_bytes"] <= 40 << 20:
        break
    time.sleep(0.1)
print(faultless.stats()["retained_bytes"] <= 40 << 20)
"""
    )
    assert printed == ["True"]
