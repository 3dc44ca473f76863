"""How many examples property tests try, and how often servers are killed: few in the suite, many in a long run."""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("PROPERTY_FACTOR", "1"))
"""By how much longer than in the suite."""


def bounded(examples: int, steps: int = 50) -> settings:
    """Settings of a property test.

    Args:
        examples: How many are tried in the suite; in a long run as many times more as ``PROPERTY_FACTOR`` says.
        steps: At most so many per example of a stateful test.
    """
    return settings(max_examples=examples * FACTOR, stateful_step_count=steps, deadline=None)
