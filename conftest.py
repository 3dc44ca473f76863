"""Settings of property tests for the whole repository, and the order of its tests."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# Keep Hypothesis from trying the same examples in every run, which it does where it detects CI. `make test` prints the
# seed and accepts it again (TEST_SEED).
settings.register_profile("fresh-examples", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fresh-examples")

# A shell starts programs in the background with interrupts ignored, which programs that tests start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order each worker's tests so that long ones come first: a long test at the end would leave the other cores idle.

    Workers get equal consecutive parts of the list and steal from each other when their part is done.
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
