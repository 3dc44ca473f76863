"""The program behind `make test`, on small suites of its own (USE-11)."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.run import __main__ as program
from tests.run import expected, running
from tests.run.running import Run, excerpt
from tests.run.suites import Choice, Suite, stages

PASSING = "test result: ok. 3 passed; 0 failed; 0 ignored\ntest result: ok. 2 passed; 0 failed; 1 ignored"
FAILING = """Compiling a

failures:

---- tests::one stdout ----
left: 1
test result: FAILED. 1 passed; 2 failed; 0 ignored"""


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(running, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(running, "ROOT", tmp_path)
    monkeypatch.setattr(expected, "FILE", tmp_path / "expected.json")
    return tmp_path / "logs"


def script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-u", "-c", text)


def suite(name: str, *commands: str) -> Suite:
    return Suite(name, "an example", tuple(script(command) for command in commands))


def executed(given: Suite) -> Run:
    run = Run(given)
    run.execute()
    return run


def test_tests_of_crates_are_counted_from_their_results() -> None:
    run = executed(suite("crates", f"print({PASSING!r})"))
    assert (run.status, run.counts().finished, run.counts().failed) == (0, 5, 0)
    run = executed(suite("crates", f"print({FAILING!r}); raise SystemExit(101)"))
    assert (run.status, run.counts().finished, run.counts().failed) == (101, 3, 2)
    assert excerpt(run).startswith("failures:\n"), "what was compiled explains nothing"


def test_suites_do_not_get_the_arguments_of_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGS", "--record")
    monkeypatch.setenv("MAKEFLAGS", "ARGS=--record")
    run = executed(suite("one", "import os; print('ARGS' in os.environ, 'MAKEFLAGS' in os.environ)"))
    assert run.log.read_text() == "False False\n"


def test_a_suite_ends_with_its_first_failure() -> None:
    run = executed(suite("one", "print('first')", "raise SystemExit(3)", "print('third')"))
    assert run.status == 3
    assert run.log.read_text() == "first\n"


def test_pytest_writes_its_progress(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_one(): pass\ndef test_two(): assert 1 + 1 == 3\n")
    # The root of the repository has the option; its conftest.py is not above this directory.
    command = (sys.executable, "-m", "pytest", "-p", "tests.tiers", "-p", "no:cacheprovider", str(tmp_path))
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    given = Suite("python", "an example", (command,), environment=environment, is_pytest=True, directory=tmp_path)
    run = executed(given)
    assert run.status == 1
    assert run.counts() == running.Counts(finished=2, failed=1, selected=2)
    assert "1 + 1 == 3" in excerpt(run)


def test_a_long_explanation_is_cut_in_the_middle() -> None:
    run = executed(suite("one", "print('= FAILURES ='); print('\\n'.join(map(str, range(1000))))"))
    lines = excerpt(run, lines_max=10).splitlines()
    assert lines[0] == "= FAILURES ="
    assert lines[-1] == "999"
    assert len(lines) == 11


def test_an_interrupted_run_ends_its_processes(tmp_path: Path) -> None:
    began = tmp_path / "began"
    waiting = suite("one", f"import pathlib, time; pathlib.Path({str(began)!r}).write_text('x'); time.sleep(100)")
    run = Run(waiting)
    thread = threading.Thread(target=run.execute)
    thread.start()
    deadline = time.monotonic() + 30
    while not began.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run.end()
    thread.join(30)
    assert not thread.is_alive()
    assert run.status == -signal.SIGINT
    later = Run(suite("two", "print('never')"))
    later.end()
    later.execute()
    assert later.status == 128 + signal.SIGINT
    assert later.log.read_text() == ""


def test_the_verdict_has_a_table_and_every_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [
        [[suite("crates", f"print({PASSING!r})")], [suite("simulator", "print('all of it')")]],
        [[suite("spark", f"print({FAILING!r}); raise SystemExit(1)")], [suite("last", "pass")]],
    ]
    monkeypatch.setattr(program, "stages", lambda choice: chosen)
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        assert program.main(["quick", "--seed", "7"]) == 1
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].startswith("make test: 4 suites (crates, simulator, spark, last)")
    assert "--- spark has failed" in shown
    assert "left: 1" in shown
    assert shown.count("passed\n") >= 3, "a failure does not end the run"
    assert "FAILED (status 1)" in shown
    assert "NOT PASSED: spark; make test TEST_SEED=7" in shown


def test_sizes_are_recorded_and_found_outdated() -> None:
    run = executed(suite("crates", f"print({PASSING!r})"))
    assert expected.outdated({}, [run]) == ["crates"]
    expected.record("quick", [run])
    assert expected.read("quick")["crates"]["tests"] == 5
    assert expected.read("all") == {}
    assert expected.outdated(expected.read("quick"), [run]) == []
    assert expected.outdated({"crates": {"tests": 50, "seconds": 1}}, [run]) == ["crates"]


@pytest.mark.parametrize("tier", ["quick", "long", "all"])
def test_every_suite_has_a_name_of_its_own_and_a_program(tier: str) -> None:
    given = [run for stage in stages(Choice(tier, "7")) for chain in stage for run in chain]  # type: ignore[arg-type]
    assert len({one.name for one in given}) == len(given)
    assert ("crates" in {one.name for one in given}) == (tier != "long")
    for one in given:
        assert all(Path(command[0]).is_absolute() or command[0] == "make" for command in one.commands)
        assert one.shown()
    only = stages(Choice("quick", "7", only=("spark",)))
    assert [[[one.name for one in chain] for chain in stage] for stage in only] == [[["spark"]]]


def test_an_unknown_suite_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["quick", "--seed", "7", "--only", "nothing"]) == 2
    assert "no suite is called nothing" in capsys.readouterr().err
