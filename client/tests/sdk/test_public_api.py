"""The public interface: its names and signatures change on purpose only, and are documented."""

import difflib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
from sdk import public_api

import headrace
import headrace.aio
import headrace.sdk.client
import headrace.sdk.consumer
import headrace.sdk.producer

RECORDED = Path(__file__).with_name("public_api.txt")


def test_the_public_interface_is_the_recorded_one() -> None:
    recorded = RECORDED.read_text(encoding="utf-8").splitlines()
    changes = difflib.unified_diff(recorded, list(public_api.lines()), "recorded", "present", lineterm="", n=0)
    assert not list(changes), "record it if it is meant: see public_api.py, and CHANGELOG.md"


@pytest.mark.parametrize("module", [headrace, headrace.aio], ids=lambda module: module.__name__)
def test_every_public_name_can_be_imported_and_is_documented(module: ModuleType) -> None:
    assert module.__all__ == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        value = getattr(module, name)
        if not isinstance(value, type):
            assert not callable(value) or inspect.getdoc(value), name
            continue
        assert inspect.getdoc(value), name
        for member in dir(value):
            if not member.startswith("_") and callable(getattr(value, member)) and value.__module__[:8] == "headrace":
                assert inspect.getdoc(getattr(value, member)), f"{name}.{member}"


def test_documented_arguments_exist() -> None:
    """Documentation of calls for asyncio is made from that of others, which have more arguments."""
    for kind in (getattr(module, name) for module in (headrace, headrace.aio) for name in module.__all__):
        for name, member in inspect.getmembers(kind, inspect.isfunction) if isinstance(kind, type) else ():
            documented = re.search(r"^ *Args:\n((?: .*\n)+)", inspect.getdoc(member) or "", re.MULTILINE)
            arguments = re.findall(r"^    \**(\w+): ", documented[1], re.MULTILINE) if documented else []
            assert set(arguments) <= set(inspect.signature(member).parameters), f"{kind}.{name}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'headrace' has no attribute 'Clinet'"):
        headrace.Clinet  # type: ignore[attr-defined] # noqa: B018 - an access


@pytest.mark.parametrize("name", ["Client", "Producer", "Consumer"])
def test_both_flavours_have_the_same_methods_with_the_same_arguments(name: str) -> None:
    blocking, awaited = getattr(headrace, name), getattr(headrace.aio, name)

    def methods(kind: type) -> dict[str, list[str]]:
        found = {member: inspect.getattr_static(kind, member) for member in dir(kind) if not member.startswith("_")}
        return {
            member: [argument for argument in inspect.signature(value).parameters if argument != "timeout"]
            for member, value in found.items()
            if callable(value)
        }

    # With asyncio, time limits are the caller's: `asyncio.timeout`.
    assert methods(awaited) == methods(blocking)
