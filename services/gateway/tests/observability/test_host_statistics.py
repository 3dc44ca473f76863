"""Statistics of the process and the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from headrace_gateway.observability.host_statistics import Host


class Times(NamedTuple):
    """Seconds of all cores."""

    user: float
    idle: float


@pytest.fixture
def elapse(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, Times], None]:
    """Advance the clock, and set what the kernel has counted since the start."""
    now, times = time.monotonic(), Times(100.0, 100.0)

    def later(seconds: float, counted: Times) -> None:
        nonlocal now, times
        now, times = now + seconds, counted

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    return later


def test_cpu_usage_is_not_measured_over_a_moment(tmp_path: Path, elapse: Callable[[float, Times], None]) -> None:
    host = Host(tmp_path)
    # Two pages that load at the same time would see this.
    elapse(0.1, Times(100.01, 100.0))
    assert host.statistics().total_cpu_usage_percent == 0.0
    elapse(0.9, Times(100.5, 101.5))
    assert host.statistics().total_cpu_usage_percent == 25.0


def test_cpu_usage_is_measured_for_all_threads_together(tmp_path: Path, elapse: Callable[[float, Times], None]) -> None:
    host = Host(tmp_path)
    elapse(10.0, Times(110.0, 110.0))
    found = []
    thread = threading.Thread(target=lambda: found.append(host.statistics().total_cpu_usage_percent))
    thread.start()
    thread.join()
    assert found == [50.0]
