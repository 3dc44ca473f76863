"""CON-90: each source and sink that comes with Headrace has a measurement."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from headrace_connectors.plugins.discovery import Plugins
from tests.performance.cases.connectors import case
from tests.performance.cases.connectors.runs import LeftOut, Measurements, Runs
from tests.performance.options import QUICK
from tests.performance.workbench import Workbench
from tests.server_process import ServerProcess

MADE_UP = {("sources", "random")}
"""Plugins whose throughput is a setting."""


def bench(directory: Path, *connectors: str) -> Workbench:
    return Workbench(
        scale=QUICK, directory=directory, official=None, kafka=False, connectors=connectors, started=lambda _: None
    )


def runs(directory: Path) -> Runs:
    return Runs(bench(directory), create_autospec(ServerProcess, instance=True), rows=10_000)


def test_each_connector_has_a_measurement(tmp_path: Path) -> None:
    names = {name for group in case.GROUPS for name in group(runs(tmp_path)).turns()}
    measured = {tuple(name.split(",")[0].split(" ")[:2]) for name in names}
    installed = {
        (one.kind, one.name)
        for one in Plugins().installed()
        if one.distribution == "headrace" and one.kind in ("sources", "sinks")
    }
    assert {(f"{kind}s", plugin) for kind, plugin in measured} == installed - MADE_UP


def test_some_are_chosen_by_their_names() -> None:
    assert case.is_chosen("source files, CSV", ())
    assert case.is_chosen("source files, CSV", ("sink", "CSV"))
    assert not case.is_chosen("source files, CSV", ("sink",))


def test_what_cannot_run_is_left_out_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing(Measurements):
        def turns(self):
            return {"sink missing": lambda: {"sink missing": 1.0}}

        @contextmanager
        def prepared(self):
            raise LeftOut("its server is not installed")
            yield

    class Present(Measurements):
        def turns(self):
            return {"sink present": lambda: {"sink present": 2.0}, "sink present: requests": dict}

        @contextmanager
        def prepared(self):
            yield

    monkeypatch.setattr(case, "GROUPS", (Missing, Present))
    notes: list[str] = []
    with case.prepared(runs(tmp_path), ("sink",), lambda _: None, notes) as turns:
        assert list(turns) == ["sink present", "sink present: requests"]
    assert notes == ["its server is not installed"]
