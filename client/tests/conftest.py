"""What all tests of this folder share."""

import os

import pytest


@pytest.fixture(scope="session")
def driver() -> dict[str, str]:
    """Settings for an embedded server: the driver that this run of the suite was told to use, if any."""
    chosen = os.environ.get("HEADRACE_RUNTIME_DRIVER")
    return {"runtime.driver": chosen} if chosen else {}
