"""A short run of the SDK under faults; `python -m tests.faults.sdk` goes on as long as one likes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.sdk.run import run


@pytest.mark.long
def test_nothing_is_lost_repeated_or_left_over(tmp_path: Path, show: list[str]) -> None:
    seed = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 24))
    show.append(f"python -m tests.faults.sdk --minutes 0.25 --seed {seed}")
    run(tmp_path, seed, 15, show.append)
