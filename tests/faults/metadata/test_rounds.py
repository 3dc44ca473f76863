"""CTL-1, CTL-5: what clients of three real replicas see under kills, pauses and partitions is one order of events."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.metadata.rounds import run_rounds


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_rounds_of_faults_leave_a_linearizable_history(tmp_path: Path, show: list[str]) -> None:
    """A few rounds; `python -m tests.faults.metadata --rounds 100` does many."""
    verdict = await run_rounds(tmp_path, rounds=9, seed=20_261_121)
    show.append(verdict.report())
    assert not verdict.problems, verdict.report()
    assert verdict.outcomes["answered"] > 500
    seconds = [*verdict.failover_seconds, *verdict.degraded_seconds]
    assert len(seconds) == 6, "two of three rounds take the primary away"
    assert max(seconds) < 20.0
