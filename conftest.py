"""Settings of property tests for the whole repository; the tiers of its tests are in tests/tiers.py."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

pytest_plugins = ["tests.tiers"]

# Modules of tests, and what they import, are a heap of over 100 MB that is never garbage. Collecting it while
# it grows takes two fifths of the time of the imports, and looking through it again a seventh of that of the tests.
gc.disable()

# Keep Hypothesis from trying the same examples in every run, which it does where it detects CI. `make test` prints the
# seed and accepts it again (TEST_SEED).
settings.register_profile("fresh-examples", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fresh-examples")

# A shell starts programs in the background with interrupts ignored, which programs that tests start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Collect garbage again from here on, without what is there before the first test."""
    gc.freeze()
    gc.enable()
