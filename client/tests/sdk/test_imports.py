"""Costs of an import of the package."""

import subprocess
import sys

import pytest

HEAVY = ("aiohttp", "argon2", "asyncio", "cryptography", "grpc", "msgspec", "prometheus_client", "psutil", "pydantic")
SERVICES = ("headrace_gateway", "headrace_metadata", "headrace_node", "headrace_chassis", "headrace_embedded")


def imported(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    return set(output.stdout.split())


@pytest.mark.parametrize(
    ("statement", "also_absent"),
    [
        ("import headrace", ("headrace_core", "typing_extensions", "logging", "headrace.sdk")),
        ("import headrace; headrace.connect, headrace.Producer, headrace.Consumer, headrace.Message", ()),
        ("from headrace import *", ()),
    ],
)
def test_an_import_brings_no_server_and_no_heavy_library(statement: str, also_absent: tuple[str, ...]) -> None:
    modules = imported(statement)
    assert "headrace" in modules
    assert modules.isdisjoint({*HEAVY, *SERVICES, *also_absent})


def test_the_client_for_asyncio_brings_no_server() -> None:
    modules = imported("import headrace.aio")
    assert "asyncio" in modules
    assert modules.isdisjoint({*HEAVY, *SERVICES} - {"asyncio"})
