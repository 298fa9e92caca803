"""The search: the matches of a tree, how a search ends, and what it raises.

Guards against: spans that are off in text beyond ASCII, a GIL that is held while a search runs, a Ctrl-C that does not end it,
and threads that go on when nobody wants their matches.
"""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import warnings

import faultless
import pytest

FILES = {
    "a.rs": b"fn one() {}\nfn two() {} // FN\n",
    "b/c.rs": b"no fn here, fnord\n",
    "b/d.txt": "größer fn\n\nlast fn".encode(),
    "b/binary": b"fn \0",
}


def write(root, path, text, age=100):
    path = root / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    os.utime(path, (time.time() - age,) * 2)


@pytest.fixture
def tree(tmp_path):
    for path, text in FILES.items():
        write(tmp_path, path, text)
    return faultless.Index.build(tmp_path)


@pytest.fixture
def large_tree(tmp_path):
    for number in range(20):
        write(tmp_path, f"{number}.txt", b"a needle in this line\nand none here\n" * 8_000)
    return faultless.Index.build(tmp_path)


def found(index, pattern, **options):
    return [tuple(match) for match in index.search(pattern, sorted=True, **options)]


def test_a_match_has_path_number_line_and_spans(tree):
    expected = [
        ("a.rs", 1, "fn one() {}\n", [(0, 2)]),
        ("a.rs", 2, "fn two() {} // FN\n", [(0, 2)]),
        ("b/c.rs", 1, "no fn here, fnord\n", [(3, 5), (12, 14)]),
        ("b/d.txt", 1, "größer fn\n", [(7, 9)]),
        ("b/d.txt", 3, "last fn", [(5, 7)]),
    ]
    assert found(tree, "fn") == expected
    match = next(tree.search("größer"))
    assert (match.path, match.line_number, match.line[slice(*match.spans[0])]) == ("b/d.txt", 1, "größer")
    assert (tree.root / match.path).exists() and isinstance(match, faultless.Match)


def test_options_change_what_matches(tree):
    counts = [
        ("// fn", {}, 0),
        ("// fn", {"ignore_case": True}, 1),
        ("LAST", {"smart_case": True}, 0),
        ("one()", {"fixed_strings": True}, 1),
        ("fno", {"word": True}, 0),
        (r"\{\}\nfn", {"multi_line": True}, 1),
        ("fn", {"globs": ["*.rs", "!b"]}, 2),
        ("fn", {"limit": 2, "threads": 1}, 2),
        ("fn", {"limit": 0}, 0),
    ]
    for pattern, options, count in counts:
        assert len(found(tree, pattern, **options)) == count, (pattern, options)


def test_text_that_is_not_utf_8_is_escaped(tmp_path):
    write(tmp_path, b"\xff.txt".decode(errors="surrogateescape"), b"\xff\xc3\xb6\xe2\x82 needle\n")
    (match,) = faultless.Index.build(tmp_path).search("needle")
    assert match.line.encode(errors="surrogateescape") == b"\xff\xc3\xb6\xe2\x82 needle\n"
    assert match.line[slice(*match.spans[0])] == "needle"
    assert (tmp_path / match.path).exists()


def test_an_index_is_that_of_the_nearest_folder_above(tree):
    assert faultless.index(tree.root / "b").root == tree.root
    assert faultless.index(str(tree.root)).root == pathlib.Path(tree.root)


def test_an_update_reads_what_changed_and_until_then_there_is_a_warning(tree):
    write(tree.root, "a.rs", b"fn three() {}\n", 50)
    write(tree.root, "new.rs", b"fn four() {}\n", 50)
    with pytest.warns(faultless.SearchWarning, match="1 file of this result has changed"):
        assert [match[2] for match in found(tree, r"fn \w+\(")] == ["fn three() {}\n"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(found(tree, r"fn \w+\(", fresh=True)) == 2
        seen = []
        report = tree.update(progress=lambda files, of_files: seen.append((files, of_files)))
        assert (report["read"], report["files"], report["trouble"]) == (2, 5, []) and seen[-1] == (2, 2)
        assert len(found(tree, r"fn \w+\(")) == 2


def test_errors_are_exceptions_with_the_text_of_the_library(tree, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(faultless.MissingDatabaseError, match="no database here or above; `faultless index init` makes one"):
        faultless.index(empty)
    with pytest.raises(faultless.FileError, match="nowhere: No such file"):
        faultless.index(empty / "nowhere")
    with pytest.raises(faultless.PatternError, match="^a\\(b: unclosed group at character 2; "):
        tree.search("a(b")
    with pytest.raises(ValueError, match="glob \\[: "):
        tree.search("a", globs=["["])
    (tree.root / ".faultless/grep/manifest").write_bytes(b"damaged")
    with pytest.raises(faultless.SearchError, match="`faultless index build`"):
        tree.search("a")


def test_what_progress_raises_ends_an_update(tree):
    write(tree.root, "new.rs", b"fn four() {}\n", 50)

    def fail(files, of_files):
        raise KeyError(files)

    with pytest.raises(KeyError):
        tree.update(progress=fail)
    assert not found(tree, "fn four")
    assert tree.update()["read"] == 1


def thread_count():
    return len(os.listdir("/proc/self/task"))


def test_an_iterator_that_is_dropped_or_cancelled_ends_its_threads(large_tree):
    before = thread_count()
    matches = large_tree.search("needle")
    dropped = large_tree.search("needle")
    assert next(matches).line == next(dropped).line == "a needle in this line\n"
    del dropped
    matches.cancel()
    assert list(matches) == []
    for _ in range(600):
        # The pool may keep a thread of its own.
        if thread_count() <= before + 1:
            return
        time.sleep(0.1)
    raise AssertionError((before, thread_count()))


def test_threads_may_share_an_index_and_an_iterator(large_tree):
    counts = []
    shared = large_tree.search("needle", globs=["[0-4].txt"])

    def work():
        counts.append(sum(1 for _ in shared))
        counts.append(sum(1 for _ in large_tree.search("needle", globs=["5.txt"])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sum(counts) == 8_000 * (5 + 4), counts


def test_python_runs_while_a_search_does(large_tree):
    # The search waits for its first match and finds none. A thread of Python counts meanwhile.
    stop, rounds = threading.Event(), []

    def count():
        while not stop.is_set():
            rounds.append(None)
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = len(rounds)
        for _ in range(20):
            assert list(large_tree.search(r"[a-z]\d[a-z]")) == []
        assert len(rounds) > before + 20
    finally:
        stop.set()
        thread.join()


CONSUMER = """
import faultless, os, sys, time
index = faultless.index(sys.argv[1])
try:
    print("ready", flush=True)
    while True:
        for match in index.search(sys.argv[2]):
            pass
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("pattern", ["needle", r"[a-z]\d[a-z]"])
def test_ctrl_c_ends_a_search(large_tree, pattern):
    command = [sys.executable, "-c", CONSUMER, str(large_tree.root), pattern]
    # A job in the background of a script ignores the signal, and its children do.
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "interrupted\n")
