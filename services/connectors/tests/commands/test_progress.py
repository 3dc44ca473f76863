"""Lines with the progress of connectors."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from headrace_connectors.commands.foreground import Progress
from headrace_connectors.runtime.status import State, Status


def test_rates_are_those_since_the_lines_before() -> None:
    status = Status(state=State.RUNNING)
    source: Any = SimpleNamespace(key="orders", status=status)
    progress = Progress(itertools.count(0, 2).__next__)
    progress.show(lambda: [source])
    shown = []
    for records_count in (100, 3_100, 3_100):
        status.records_count = records_count
        console = Console(width=80)
        with console.capture() as captured:
            console.print(progress.lines())
        shown.append(captured.get().split())
    assert [line[2] for line in shown] == ["100", "3,100", "3,100"]
    assert [line[-1] for line in shown] == ["0/s", "1,500/s", "0/s"]
    assert shown[0][:2] == ["orders", "running"]
