"""Settings of property tests for the whole repository; the tiers of its tests are in tests/tiers.py."""

from __future__ import annotations

import signal

from hypothesis import settings

pytest_plugins = ["tests.tiers"]

# Keep Hypothesis from trying the same examples in every run, which it does where it detects CI. `make test` prints the
# seed and accepts it again (TEST_SEED).
settings.register_profile("fresh-examples", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fresh-examples")

# A shell starts programs in the background with interrupts ignored, which programs that tests start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
