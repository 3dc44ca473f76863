"""Programs of `proto`, which are no package."""

import importlib
import sys
from pathlib import Path

import pytest

PROTO_DIRECTORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def generator(request):
    """The generator that the test module names, as a module."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, str(PROTO_DIRECTORY)])
        yield importlib.import_module(request.module.GENERATOR)
