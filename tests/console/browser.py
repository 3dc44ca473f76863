"""Which browser the tests use: what `make browser` has made sure of."""

from __future__ import annotations

import shutil

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    """The machine's own; None if it has none, for Playwright's."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)
