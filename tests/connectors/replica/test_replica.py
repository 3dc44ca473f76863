"""CON-15: small versions of ``python -m tests.connectors.replica``."""

from __future__ import annotations

import pytest

from tests.connectors.replica.history import run_history
from tests.property_runs import FACTOR

_QUICK, _LONG = 2, 40
# The same ones each time: `make soak` draws others.
_FIRST_SEED = 700_000


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", ["quick", pytest.param("long", marks=pytest.mark.long)])
def test_copies_are_equal_whenever_they_have_caught_up(postgresql_server: str, part: str) -> None:
    """Random tables, transactions and kills, each history from a seed."""
    first = _FIRST_SEED
    seeds = range(first, first + _QUICK) if part == "quick" else range(first + _QUICK, first + _LONG * FACTOR)
    for seed in seeds:
        try:
            run_history(postgresql_server, seed)
        except Exception as error:
            raise AssertionError(f"python -m tests.connectors.replica --histories 1 --seed {seed}") from error
