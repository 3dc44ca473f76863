"""The time limit of the crates' tests."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from tests.crates.__main__ import WATCH, command
from tests.crates.watch import EXIT_STATUS, Progress

# Like a test binary of Rust: its tests are `one`, which passes, and `two`.
BINARY = """
    import subprocess, sys, time
    if "--list" in sys.argv:
        print("one: test\\ntwo: test\\n\\n2 tests, 0 benchmarks")
        sys.exit()
    print("\\nrunning 2 tests", flush=True)
    time.sleep(0.3)
    print("test one ... ok", flush=True)
"""
HANGS = """
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]])
    time.sleep(600)
"""


def watched(tmp_path, rest, *, seconds, mark="mark"):
    binary = tmp_path / "binary.py"
    binary.write_text(textwrap.dedent(BINARY) + textwrap.dedent(rest))
    return subprocess.Popen(
        [sys.executable, WATCH, sys.executable, binary, mark],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CRATE_TEST_SECONDS": str(seconds)},
    )


def processes_with(mark):
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if mark in line]


def test_a_test_that_hangs_is_named_and_killed_with_its_children(tmp_path):
    mark = str(tmp_path)
    began = time.monotonic()
    with watched(tmp_path, HANGS, seconds=2, mark=mark) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == EXIT_STATUS
    assert time.monotonic() - began < 30
    assert "test one ... ok" in output
    assert output.endswith("for 2 s, it was killed; running:\n    two\n"), output
    assert not processes_with(mark)


@pytest.mark.parametrize(("how", "status"), [("sys.exit(101)", 101), ("pass", 0), ("import os; os.abort()", 134)])
def test_output_and_status_are_passed_on(tmp_path, how, status):
    with watched(tmp_path, f'print("test two ... FAILED", flush=True)\n{how}\n', seconds=60) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == status
    assert output == "\nrunning 2 tests\ntest one ... ok\ntest two ... FAILED\n"


def test_output_comes_before_the_end(tmp_path):
    with watched(tmp_path, HANGS, seconds=600) as process:
        assert [process.stdout.readline() for _ in range(3)][-1] == "test one ... ok\n"
        process.terminate()
        assert process.wait(timeout=60) == 143


def test_slow_tests_that_go_on_have_time(tmp_path):
    rest = """
        for number in range(6):
            time.sleep(0.5)
            print(f"test {number} ... ok", flush=True)
    """
    with watched(tmp_path, rest, seconds=2) as process:
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_what_the_harness_says_of_running_tests():
    progress = Progress()
    assert not progress.read("running 3 tests\ntest a::slow has been running for over 60 seconds\n")
    assert progress.read("test a::quick ... ok\ntest b::panics - should panic ... o")
    assert progress.ended == {"a::quick"}
    assert progress.running(["a::quick", "a::slow", "b::panics"], set()) == ["a::slow"]
    assert progress.read("k\ntest a::slow ... FAILED\n")
    assert progress.running(["a::slow", "c"], set()) == ["c"]
    one_thread = Progress()
    one_thread.read("test a::quick ... ok\ntest b::slow ... ")
    assert one_thread.running(["a::quick", "b::slow", "c"], set()) == ["b::slow"]


def test_threads_have_the_names_of_tests_that_run():
    names = ["journal::tests::cuts", "replica::waits", "short"]
    progress = Progress()
    assert progress.running(names, {"main", "replica::waits"[:15]}) == ["replica::waits"]
    assert progress.running(names, {"main"}) == names


def test_cargo_runs_binaries_by_way_of_the_watch():
    line = command(["--locked", "-p", "headrace-vsr", "--", "--nocapture"])
    assert line[1:3] == ["test", "--config"]
    assert str(WATCH) in line[3]
    assert line[4:] == ["--locked", "-p", "headrace-vsr", "--", "--nocapture"]
