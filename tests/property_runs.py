"""Number of examples of property tests and of kills of servers: few in the suite, many in a long run."""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("PROPERTY_FACTOR", "1"))
"""Factor of a long run relative to the suite."""


def bounded(examples: int, steps: int = 50) -> settings:
    """Settings of a property test.

    Args:
        examples: Number of examples in the suite; a long run multiplies the number by ``PROPERTY_FACTOR``.
        steps: Maximum number of steps per example of a stateful test.
    """
    return settings(max_examples=examples * FACTOR, stateful_step_count=steps, deadline=None)
