"""The tiers of tests, for every directory of tests: a pytest plugin, which the root's conftest.py loads.

`make test` runs the *quick* tier, the verdict of ten minutes. `make test-all` runs all tests. A test is in the quick
tier unless it is marked `long`, by itself, by its class or its module, or as one of several parameters:

    @pytest.mark.long
    def test_...

    @pytest.mark.long(but=2)        # the first two cases are quick
    @pytest.mark.parametrize(...)
    def test_...

Mark a test `long` if it takes more than `QUICK_SECONDS` and the quick tier has another one of its requirements, or if
it repeats a rule in a further form: one more transport, one more kind of deployment, one more way to be killed. Every
requirement must have a quick test: docs/requirements.py.

    pytest --tier quick       what `make test` runs
    pytest --tier long        the rest
    pytest --tier long --part 2/3 --part-seed 7     a third of the rest; the seed decides which tests are in which third
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import pytest

QUICK_SECONDS: Final = 6.0
"""Duration, beside other tests, above which a test of the quick tier is named at the end of a run."""

_LONG: Final = "long"
_SLOW: Final = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=["quick", "long", "all"], default="all", help="tests to run: tests/tiers.py")
    group.addoption("--part", default="", metavar="I/N", help="one of N parts of the tests marked long")
    group.addoption("--part-seed", default="", help="seed that decides which tests are in which part")
    group.addoption("--progress-file", default="", help="file into which counts are written during the run")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other tier, then order each worker's tests so that long ones come first.

    A long test at the end would leave the other cores idle. Workers get equal consecutive parts of the list and steal
    from each other when their part is done.
    """
    long = _long(items)
    selected = [item for item in items if _is_selected(config, item, is_long=item in long)]
    if len(selected) < len(items):
        kept = set(selected)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = _ordered(selected, long, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _long(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the tests of the long tier."""
    long: set[pytest.Item] = set()
    cases: dict[str, int] = {}
    for item in items:
        if (marker := item.get_closest_marker(_LONG)) is not None:
            function = item.nodeid.partition("[")[0]
            cases[function] = cases.get(function, 0) + 1
            if cases[function] > marker.kwargs.get("but", 0):
                long.add(item)
    return long


def _is_selected(config: pytest.Config, item: pytest.Item, *, is_long: bool) -> bool:
    tier = config.getoption("tier")
    if tier != "all" and is_long != (tier == _LONG):
        return False
    part = config.getoption("part")
    return not part or not is_long or part_of(item.nodeid, config.getoption("part_seed"), part)


def part_of(nodeid: str, seed: str, part: str) -> bool:
    """Return whether a test is in a part.

    The tests of a file stay together, because they share servers.

    Args:
        nodeid: The test.
        seed: Any text; another one forms other parts.
        part: Number of the part, which begins at 1, and of all parts: `2/3`.

    Raises:
        UsageError: `part` has another form.
    """
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--part {part}: it is I/N, with I from 1 to N, such as 2/3")
    file = nodeid.partition("::")[0]
    hashed = hashlib.sha256(f"{seed}:{file}".encode()).digest()
    return int.from_bytes(hashed[:8], "big") % int(count) == int(number) - 1


def _ordered(items: list[pytest.Item], long: set[pytest.Item], workers_count: int) -> list[pytest.Item]:
    longest = [item for item in items if item in long]
    others = [item for item in items if item not in long]
    ordered: list[pytest.Item] = []
    for worker in range(workers_count):
        part = longest[worker::workers_count]
        left = len(items) - len(ordered)
        rest = max(left // (workers_count - worker) - len(part), 0)
        ordered += [*part, *others[:rest]]
        del others[:rest]
    return [*ordered, *others]


class _Progress:
    """Counts of a run, in a file that another program reads: finished, failed, selected."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._selected = self._finished = self._failed = 0

    def selected(self, count: int) -> None:
        self._selected = count
        self._write()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.selected(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.selected(len(ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed += report.failed
        if report.when == "teardown":
            self._finished += 1
        if report.failed or self._finished % 10 == 0:
            self._write()

    def pytest_sessionfinish(self) -> None:
        self._write()

    def _write(self) -> None:
        # Replaced as a whole, so that a reader never sees half a line.
        new = self._path.with_suffix(".new")
        new.write_text(f"{self._finished} {self._failed} {self._selected}\n", encoding="ascii")
        new.replace(self._path)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what is collected during the run."""
    config.stash[_SLOW] = {}
    path = config.getoption("progress_file")
    if path and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(_Progress(Path(path)), "tiers-progress")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the tests of the quick tier that took long."""
    if config.getoption("tier") != "quick":
        return
    slow = {
        report.nodeid: report.duration
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call" and report.duration > QUICK_SECONDS
    }
    if slow:
        terminalreporter.write_line(
            f"tests of the quick tier that took more than {QUICK_SECONDS:.0f} s (tests/tiers.py):"
        )
        for nodeid, seconds in sorted(slow.items(), key=lambda entry: -entry[1]):
            terminalreporter.write_line(f"  {seconds:5.1f} s  {nodeid}")
