"""Settings of property tests for the whole repository, and the order of its tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# On a machine that says that it is CI, Hypothesis would try the same examples in every run. They differ in each
# run here, too: the seed is printed by `make test`, which takes it again (TEST_SEED).
settings.register_profile("fresh-examples", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fresh-examples")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have each worker begin with long tests: at the end of a run one of them would keep all but one core waiting.

    Workers get equal parts of the tests in their order, and take from each other when they have no more.
    """
    workers_count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    longest = [item for item in items if item.get_closest_marker("long") is not None]
    others = [item for item in items if item.get_closest_marker("long") is None]
    ordered: list[pytest.Item] = []
    for worker in range(workers_count):
        part = longest[worker::workers_count]
        left = len(items) - len(ordered)
        rest = max(left // (workers_count - worker) - len(part), 0)
        ordered += [*part, *others[:rest]]
        del others[:rest]
    items[:] = [*ordered, *others]
