"""SPK-3: the job `archive` and its tasks, killed at random times. The long version is the program `archive_kills`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from archive_kills import Plan, rounds
from place import Place


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_is_lost_or_there_twice(place: Place, tmp_path: Path) -> None:
    plan = Plan(messages=4_000, driver_kills=1, task_kills=2, seed=random.randrange(2**32), batches=4)
    try:
        found = rounds(place, tmp_path, plan)
    except AssertionError as error:
        raise AssertionError(f"seed {plan.seed}: {error}") from error
    assert found["messages"] == 4_000
    assert found["task_kills"] >= 1
    assert found["driver_kills"] >= 1
