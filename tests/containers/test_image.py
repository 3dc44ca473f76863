"""The image of the services: what it has, and how large it is (USE-1)."""

import json
import os
from typing import Final

import pytest

from tests.containers.cluster import docker

IMAGE: Final = f"headrace:{os.environ.get('HEADRACE_TAG', 'dev')}"
BYTES_MAX: Final = 180_000_000
"""All layers, uncompressed, without the native module, whose size depends on the profile that it was built in."""
_MODULE: Final = "import headrace_core.headrace_core as module, os; print(os.path.getsize(module.__file__))"


def test_the_image_is_small() -> None:
    (image,) = json.loads(docker("image", "inspect", IMAGE))
    module = int(docker("run", "--rm", "--network", "none", IMAGE, "python", "-c", _MODULE))
    assert image["Size"] - module < BYTES_MAX, docker("history", IMAGE)


@pytest.mark.parametrize("program", ["apt-get", "perl", "gcc", "cargo", "node", "pip", "uv", "su", "mount"])
def test_the_image_has_nothing_to_install_or_to_build_with(program: str) -> None:
    script = f"command -v {program} || echo none"
    assert docker("run", "--rm", "--network", "none", IMAGE, "bash", "-c", script).split() == ["none"]


def test_scanners_find_the_packages_of_the_image() -> None:
    """The records of Debian's packages and of Python's are there, and those of what was removed are not."""
    installed = docker(
        "run", "--rm", "--network", "none", IMAGE, "dpkg-query", "--show", "--showformat", "${Package}\n"
    )
    assert {"libc6", "libssl3t64", "openssl", "python3"} <= set(installed.split())
    assert not {"apt", "perl-base", "util-linux"} & set(installed.split())
    list_python = "import importlib.metadata as m; print(*{d.name for d in m.distributions()})"
    python = docker("run", "--rm", "--network", "none", IMAGE, "python", "-c", list_python).split()
    assert {"aiohttp", "headrace", "headrace-core", "opentelemetry-sdk"} <= set(python)
    assert not {"pyarrow", "pyspark-headrace"} & set(python)
