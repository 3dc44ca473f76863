"""CTL-1, CTL-5: the history of three real replicas under kills, pauses and partitions is linearizable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.metadata.rounds import POWER_CUT, run_rounds
from tests.lossy_disk import lossy_disk, needs_lossy_disk


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_rounds_of_faults_leave_a_linearizable_history(tmp_path: Path, show: list[str]) -> None:
    """A few rounds; `make faults ARGS="--rounds 100"` runs many."""
    verdict = await run_rounds(tmp_path, rounds=9, seed=20_261_121)
    show.append(verdict.report())
    assert not verdict.problems, verdict.report()
    assert verdict.outcomes["answered"] > 500
    seconds = [*verdict.failover_seconds, *verdict.degraded_seconds]
    assert len(seconds) == 6, "two of three rounds take the primary away"
    assert max(seconds) < 20.0


@pytest.mark.long
@needs_lossy_disk
@pytest.mark.timeout(600)
async def test_power_cuts_of_all_replicas_lose_nothing(tmp_path: Path, show: list[str]) -> None:
    """Each replica loses a different part of its unsynced writes, also within groups of commands."""
    with lossy_disk(tmp_path / "disk") as disk:
        verdict = await run_rounds(tmp_path, rounds=3, seed=20_261_123, disk=disk, only=POWER_CUT)
    show.append(verdict.report())
    assert not verdict.problems, verdict.report()
    assert verdict.rounds == [POWER_CUT.name] * 3
    assert len(verdict.healed_seconds) == 3
    assert verdict.outcomes["answered"] > 100
