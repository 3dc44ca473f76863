"""Power cuts under concurrent clients: messages acknowledged at `fsync` are kept (LOG-4, LOG-10, LOG-11)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.faults.power.rounds import run_rounds
from tests.lossy_disk import needs_lossy_disk
from tests.property_runs import FACTOR


@pytest.mark.long
@needs_lossy_disk
@pytest.mark.timeout(600 * FACTOR)
def test_nothing_acknowledged_is_lost_with_power(tmp_path: Path, show: list[str]) -> None:
    """TEST_SEED repeats a run as far as the machine's timing allows; PROPERTY_FACTOR=3 triples the rounds."""
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000))
    show.append(f"seed {seed}")
    show.append(run_rounds(tmp_path, rounds=12 * FACTOR, seed=seed).report())
