"""Steps of the set-up: output at once, a sign of life, the exit status of the command (USE-1)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STEP = Path(__file__).resolve().parents[1] / "step.py"
sys.path.insert(0, str(STEP.parent))

import step  # noqa: E402 - it runs before anything is installed, so it is in no package


def run(script: str, *, silence_seconds: float = 5.0) -> subprocess.CompletedProcess[str]:
    """Run a step whose command is a script of Python."""
    program = (
        f"import sys; sys.path.insert(0, {str(STEP.parent)!r}); import step;"
        f"sys.exit(step.run('1 of 2', [sys.executable, '-u', '-c', {script!r}], {silence_seconds}))"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)


def test_output_is_passed_on_and_the_duration_is_last() -> None:
    done = run("import sys; print('one'); print('two', file=sys.stderr); print('three', end='')")
    assert done.returncode == 0, done.stderr
    begin, *lines, end = done.stdout.splitlines()
    assert begin == "[1 of 2]"
    assert lines == ["  one", "  two", "  three"]
    assert end == "[1 of 2] 0 s"


def test_a_silent_command_has_lines_of_progress() -> None:
    done = run("import time; print('compiling'); time.sleep(1)", silence_seconds=0.2)
    assert done.stdout.count("... ") >= 2
    assert ", after: compiling" in done.stdout


def test_a_failure_has_the_status_of_the_command() -> None:
    done = run("raise SystemExit(3)")
    assert done.returncode == 3
    assert "failed after 0 s with status 3" in done.stdout
    assert run("import os; os.kill(os.getpid(), 9)").returncode == 128 + signal.SIGKILL


def test_a_command_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert step.main(["1 of 2", "--", "/nowhere/program"]) == 127
    assert "/nowhere/program cannot be started: No such file or directory" in capsys.readouterr().err
    assert step.main(["1 of 2", "ls"]) == 2


def test_ending_the_step_ends_the_command(tmp_path: Path) -> None:
    """The command is interrupted by the terminal itself; a termination of the step is passed on."""
    ended, ready = tmp_path / "ended", tmp_path / "ready"
    script = (
        "import signal, sys, time, pathlib\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(ended)!r}).touch(), sys.exit(0)))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, STEP, "1 of 2", "--", sys.executable, "-c", script], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    assert process.wait(30) == 0
    assert ended.exists()
