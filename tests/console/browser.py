"""Browser of the tests: the one that `make browser` has provided."""

from __future__ import annotations

import shutil

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    """Path of the installed browser; None if Playwright's is used."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)
